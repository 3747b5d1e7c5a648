package node

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/eviction"
	"github.com/troupe-dev/troupe/actors/gc"
	"github.com/troupe-dev/troupe/actors/images"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/podset"
	"github.com/troupe-dev/troupe/actors/podview"
)

func (b *nodeActors) spawnEviction(ctx *kernel.Context[Message], c *Config) {
	self := ctx.Self()
	spawn(ctx, c.Around, "eviction", eviction.New(&eviction.Deps{
		NodeName: c.Name, Pressure: c.Ports.Pressure, Policy: c.Eviction, Events: c.Ports.Events, Counts: c.Observer,
		Pods: func(reply func([]*v1.Pod, map[types.UID]bool)) {
			self.Tell(PodView{podview.FindHolding{Reply: reply}})
		},
		Evict: func(m podset.Evict) { b.podset.Tell(m) }, Show: b.pressure.Publish,
		ReclaimImages:     func(reply func(error)) { b.images.Tell(images.Reclaim{Reply: reply}) },
		ReclaimContainers: func(reply func(error)) { b.gc.Tell(gc.Reclaim{Reply: reply}) },
		Deadline:          30 * time.Second,
	}))
}
