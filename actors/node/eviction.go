package node

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/admit"
	decide "github.com/troupe-dev/troupe/actors/decide/eviction"
	"github.com/troupe-dev/troupe/actors/eviction"
	"github.com/troupe-dev/troupe/actors/gc"
	"github.com/troupe-dev/troupe/actors/images"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/nodestatus"
	"github.com/troupe-dev/troupe/actors/podset"
	"github.com/troupe-dev/troupe/actors/podview"
)

// evictionRef is zero on a node that evicts no pods.
type evictionRef = kernel.Ref[eviction.Message]

func (b *nodeActors) resendPressure() { b.eviction.Tell(eviction.Resend{}) }

func (b *nodeActors) spawnEviction(ctx *kernel.Context[Message], c *Config) {
	self := ctx.Self()
	b.eviction = spawn(ctx, c.Around, "eviction", eviction.New(&eviction.Deps{
		NodeName: c.Name, Pressure: c.Ports.Pressure, Policy: c.Eviction, Events: c.Ports.Events, Counts: c.Observer,
		Pods:  func(reply func([]*v1.Pod, map[types.UID]bool)) { self.Tell(PodView{podview.FindHolding{Reply: reply}}) },
		Evict: func(m podset.Evict) { b.podset.Tell(m) },
		Show: func(s decide.Conditions) {
			b.podset.Tell(podset.NodePressure{Pressure: admit.Pressure{Memory: s.Memory, Disk: s.Disk, PID: s.PID}})
			b.above.nodestatus.Tell(nodestatus.Pressure{Conditions: s})
		},
		ReclaimImages:     func(reply func(error)) { b.images.Tell(images.Reclaim{Reply: reply}) },
		ReclaimContainers: func(reply func(error)) { b.gc.Tell(gc.Reclaim{Reply: reply}) },
		Deadline:          30 * time.Second,
	}))
}
