package node

import (
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/podview"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/probes"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/resourceuse"
	"github.com/troupe-dev/troupe/supervisor/metrics"
	"github.com/troupe-dev/troupe/supervisor/serve"
	"github.com/troupe-dev/troupe/supervisor/serve/nodestats"
	"github.com/troupe-dev/troupe/supervisor/version"
)

// counters are those of this agent.
func counters(m *machine, name string) (*metrics.Metrics, error) {
	return metrics.New(metrics.Config{
		Node: name, Version: version.Kubernetes(), Commit: version.Commit(), CgroupV2: m.cgroups.v2,
		Began: time.Now(), Booted: resourceuse.New().Booted(),
	})
}

// scrapePatience bounds a query to an actor during a scrape.
const scrapePatience = 5 * time.Second

// metricRoutes are the routes with metrics.
func (d *nodeDaemon) metricRoutes() ([]serve.Route, error) {
	u := &usageSource{
		nodeDaemon: d, meter: resourceuse.New(),
		find: func(ctx context.Context) ([]*v1.Pod, error) { return d.find(ctx, "", "") },
	}
	u.usage, _ = d.runtime.Runtime.(port.Usage)
	routes, err := nodestats.Routes(nodestats.Config{
		Source: u.read, Cores: d.machine.cores,
		Failed: func(err error) {
			d.Log.Warn().Str("error", err.Error()).Msg("cannot read the resource usage of all pods")
		},
	})
	if err != nil {
		return nil, err
	}
	return append(routes, d.counters.Routes(metrics.Asked{
		System: func() metrics.System { return kernelMetrics{d.system, d.agent.Runner} },
		Pods: func(ctx context.Context) (podview.View, error) {
			ctx, cancel := context.WithTimeout(ctx, scrapePatience)
			defer cancel()
			return d.pods(ctx)
		},
		Probes:  d.tallies,
		Volumes: u.claims,
	})...), nil
}

// kernelMetrics are the kernel's own metrics.
type kernelMetrics struct {
	*kernel.System
	*kernel.Runner
}

var _ metrics.System = kernelMetrics{}

// tallies asks the probes actor.
func (d *nodeDaemon) tallies(ctx context.Context) ([]probes.Tally, error) {
	ref, ok := kernel.Lookup[probes.Message](d.system, d.name+"/probes")
	if !ok {
		return nil, errors.New("the probes actor does not exist: see `troupe tree`")
	}
	ctx, cancel := context.WithTimeout(ctx, scrapePatience)
	defer cancel()
	return ask(ctx, "probes", func(reply func([]probes.Tally)) { ref.Tell(probes.Query{Reply: reply}) })
}
