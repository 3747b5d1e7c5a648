package nodestats

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// samples is a collector of what was read for one request.
type samples []prometheus.Metric

// Describe implements prometheus.Collector. What there is is known only when it
// was read.
func (samples) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (s samples) Collect(to chan<- prometheus.Metric) {
	for _, m := range s {
		to <- m
	}
}

// answer writes them.
func (s samples) answer(w http.ResponseWriter, r *http.Request) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(s)
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}).ServeHTTP(w, r)
}

// add takes in a value with the time at which it was read; without one, it is of
// the time of the scrape.
func (s *samples) add(d *prometheus.Desc, kind prometheus.ValueType, at time.Time, value float64, labels ...string) {
	m := prometheus.MustNewConstMetric(d, kind, value, labels...)
	if !at.IsZero() {
		m = prometheus.NewMetricWithTimestamp(at, m)
	}
	*s = append(*s, m)
}

func seconds(d time.Duration) float64 { return d.Seconds() }

// unix is a time as Prometheus has it.
func unix(t time.Time) float64 { return float64(t.UnixNano()) / float64(time.Second) }

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
