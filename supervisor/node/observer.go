package node

import (
	"github.com/troupe-dev/troupe/actors/decide/devices"
	"github.com/troupe-dev/troupe/actors/podset"
	"github.com/troupe-dev/troupe/supervisor/internal/tracing"
	"github.com/troupe-dev/troupe/supervisor/metrics"
)

// observer is the daemon's node.Observer: metrics count all of it.
type observer struct {
	*metrics.Metrics
	traces    *tracing.Tracing
	inventory *inventory
}

// Started implements podview.Counts.
func (o observer) Started(s podset.Started) {
	o.Metrics.Started(s)
	o.traces.PodStarted(s)
}

// DevicesChanged implements node.Observer.
func (o observer) DevicesChanged(now devices.Inventory) { o.inventory.set(now) }
