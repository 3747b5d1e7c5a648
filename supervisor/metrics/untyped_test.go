package metrics

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/troupe-dev/troupe/tests/check"
)

// TestUntyped: a counter whose name is no counter's is shown, and no linter minds.
func TestUntyped(t *testing.T) {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "kubelet_evictions", Help: "Evictions."}, []string{"signal"})
	registry := prometheus.NewRegistry()
	registry.MustRegister(untyped{c})
	c.WithLabelValues("memory").Add(3)
	c.WithLabelValues("disk").Inc()
	w := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	text := w.Body.String()
	want := "# HELP kubelet_evictions Evictions.\n# TYPE kubelet_evictions untyped\n" +
		"kubelet_evictions{signal=\"disk\"} 1\nkubelet_evictions{signal=\"memory\"} 3\n"
	check.Equal(t, text, want, "got")
	check.None(t, check.Value(promlint.New(strings.NewReader(text)).Lint())(t), "it")
}
