package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

var storageBuckets = []float64{.1, .25, .5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600}

// newCSICalls is the kubelet's metric of calls of CSI drivers.
func (m *Metrics) newCSICalls() *prometheus.HistogramVec {
	return m.histograms("csi_operations_seconds", "Duration in seconds of calls of CSI drivers.",
		storageBuckets, "driver_name", "method_name", "grpc_status_code", "migrated")
}

// CSICalled counts a call of a CSI driver.
func (m *Metrics) CSICalled(driver, method, code string, took time.Duration) {
	m.csiCalls.WithLabelValues(driver, method, code, "false").Observe(took.Seconds())
}
