package metrics

import (
	"context"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/usage"
	"github.com/troupe-dev/troupe/actors/podview"
	"github.com/troupe-dev/troupe/actors/probes"
	"github.com/troupe-dev/troupe/supervisor/serve"
	"github.com/troupe-dev/troupe/supervisor/serve/shared"
)

// Asked is what is asked at each scrape. All must end with their ctx; what gives
// no answer is left out, and troupe_scrape_error says so.
type Asked struct {
	// System asks no actor.
	System func() System
	Pods   func(context.Context) (podview.View, error)
	Probes func(context.Context) ([]probes.Tally, error)
	// Volumes gives the pods of the node, and of each, in the same order, what its volumes of claims and the logs of its
	// containers use.
	Volumes func(context.Context) ([]*v1.Pod, []usage.Pod, error)
}

// Routes are /metrics, /metrics/probes and /metrics/slis.
func (m *Metrics) Routes(a Asked) []serve.Route {
	route := func(path string, gather func(context.Context) prometheus.Gatherer) serve.Route {
		return serve.Route{
			Path: path, Methods: []string{http.MethodGet}, Subresources: serve.Metrics, ReadOnly: true,
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				promhttp.HandlerFor(gather(r.Context()),
					promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}).ServeHTTP(w, r)
			}),
		}
	}
	slis := route("/metrics/slis", func(context.Context) prometheus.Gatherer { return m.slis.registry })
	slis.Methods, slis.Handler = append(slis.Methods, http.MethodDelete), m.slis.resetting(slis.Handler)
	use := &shared.Reading[volumesCollector]{Read: func(ctx context.Context) (volumesCollector, error) {
		pods, volumes, err := a.Volumes(ctx)
		return volumesCollector{pods, volumes}, err
	}}
	return []serve.Route{
		route("/metrics", func(ctx context.Context) prometheus.Gatherer {
			return prometheus.Gatherers{m.registry, m.now(ctx, a, use)}
		}),
		slis,
		route("/metrics/probes", func(ctx context.Context) prometheus.Gatherer {
			tallies, err := a.Probes(ctx)
			return gathered(scrapeError(err != nil), probesCollector{tallies})
		}),
	}
}

// now is what is asked for one scrape.
func (m *Metrics) now(ctx context.Context, a Asked, use *shared.Reading[volumesCollector]) prometheus.Gatherer {
	all := []prometheus.Collector{kernelCollector{a.System()}}
	view, err := a.Pods(ctx)
	if err == nil {
		all = append(all, collected(view))
	}
	volumes, noVolumes := use.Get(ctx)
	all = append(all, volumes, scrapeError(err != nil || noVolumes != nil))
	return gathered(all...)
}

func gathered(all ...prometheus.Collector) prometheus.Gatherer {
	registry := prometheus.NewRegistry()
	for _, c := range all {
		registry.MustRegister(contained{c})
	}
	return registry
}

// scrapeError is the one gauge of that name.
type scrapeError bool

// Describe implements prometheus.Collector.
func (scrapeError) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (e scrapeError) Collect(to chan<- prometheus.Metric) {
	v := 0.0
	if e {
		v = 1
	}
	to <- prometheus.MustNewConstMetric(noAnswer, prometheus.GaugeValue, v)
}
