package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

var storageBuckets = []float64{.1, .25, .5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600}

// csiMetrics are those of calls of CSI drivers, and of all mounts and unmounts of volumes.
type csiMetrics struct{ csiCalls, storageTimes *prometheus.HistogramVec }

func (m *Metrics) newCSIMetrics() csiMetrics {
	return csiMetrics{
		csiCalls: m.histograms("csi_operations_seconds", "Duration in seconds of calls of CSI drivers.",
			storageBuckets, "driver_name", "method_name", "grpc_status_code", "migrated"),
		storageTimes: m.histograms("storage_operation_duration_seconds", "Storage operation duration", storageBuckets,
			"volume_plugin", "operation_name", "status", "migrated"),
	}
}

// CSICalled counts a call of a CSI driver.
func (m *Metrics) CSICalled(driver, method, code string, took time.Duration) {
	m.csiCalls.WithLabelValues(driver, method, code, "false").Observe(took.Seconds())
}
