package metrics

import (
	"io"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// slis are the metrics of /metrics/slis: the results of health checks (KEP-3466).
type slis struct {
	registry *prometheus.Registry
	last     *prometheus.GaugeVec
	total    *prometheus.CounterVec
}

func newSLIs(began time.Time) slis {
	s := slis{
		registry: prometheus.NewRegistry(),
		last: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "kubernetes_healthcheck",
			Help: "This metric records the result of a single healthcheck."}, []string{"name", "type"}),
		total: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "kubernetes_healthchecks_total",
			Help: "This metric records the results of all healthcheck."}, []string{"name", "type", "status"}),
	}
	start := prometheus.NewGauge(prometheus.GaugeOpts{Name: "process_start_time_seconds",
		Help: "Start time of the process since unix epoch in seconds."})
	start.Set(float64(began.UnixNano()) / float64(time.Second))
	s.registry.MustRegister(s.last, s.total, start)
	return s
}

// Healthcheck counts the result of a check of /healthz that somebody asked for.
func (m *Metrics) Healthcheck(name string, err error) {
	status, well := "success", 1.0
	if err != nil {
		status, well = "error", 0
	}
	m.slis.last.WithLabelValues(name, "healthz").Set(well)
	m.slis.total.WithLabelValues(name, "healthz", status).Inc()
}

// resetting answers DELETE of /metrics/slis: the counts of checks begin anew, as in the kubelet. The start of the
// process stays.
func (s slis) resetting(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodDelete {
			next.ServeHTTP(w, r)
			return
		}
		s.last.Reset()
		s.total.Reset()
		io.WriteString(w, "metrics reset\n") //nolint:errcheck // the client is gone
	})
}
