package metrics

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

type panics struct{}

func (panics) Describe(chan<- *prometheus.Desc) {}
func (panics) Collect(chan<- prometheus.Metric) { panic("no such thing") }

// TestAPanicIsAnErrorOfTheScrape: the others are still gathered.
func TestAPanicIsAnErrorOfTheScrape(t *testing.T) {
	r := prometheus.NewRegistry()
	good := prometheus.NewGauge(prometheus.GaugeOpts{Name: "good"})
	r.MustRegister(contained{panics{}}, good)
	got, err := r.Gather()
	if err == nil || !strings.Contains(err.Error(), "panic: no such thing (contained_test.go:") {
		t.Errorf("the error is %v", err)
	}
	if len(got) != 1 || got[0].GetName() != "good" {
		t.Errorf("gathered %v", got)
	}
}
