package metrics

import "time"

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
