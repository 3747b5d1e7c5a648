package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// shutdownMetrics are when the machine was shut down last.
type shutdownMetrics struct {
	shutdownBegan, shutdownEnded prometheus.Gauge
}

func (m *Metrics) newShutdownMetrics() shutdownMetrics {
	return shutdownMetrics{
		shutdownBegan: m.gauge("kubelet_graceful_shutdown_start_time_seconds",
			"Last graceful shutdown start time since unix epoch in seconds"),
		shutdownEnded: m.gauge("kubelet_graceful_shutdown_end_time_seconds",
			"Last graceful shutdown end time since unix epoch in seconds"),
	}
}

// ShutDown implements shutdown.Counts. A zero time shows as 0.
func (m *Metrics) ShutDown(begun, ended time.Time) {
	m.shutdownBegan.Set(seconds(begun))
	m.shutdownEnded.Set(seconds(ended))
}

// seconds are seconds since 1970.
func seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixNano()) / 1e9
}
