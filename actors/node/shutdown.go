package node

import (
	"time"

	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/podset"
	"github.com/troupe-dev/troupe/actors/shutdown"
	"github.com/troupe-dev/troupe/actors/status"
)

func (b *nodeActors) spawnShutdown(ctx *kernel.Context[Message], c *Config) {
	d := &shutdown.Deps{
		NodeName: c.Name, Inhibitor: c.Ports.Inhibitor, Checkpoints: c.Ports.Checkpoints, Events: c.Ports.Events,
		Groups: c.Shutdown, Counts: c.Observer,
		ShuttingDown: b.down.Publish,

		Pods:    func(reply func(podset.Inventory)) { b.podset.Tell(podset.Query{Reply: reply}) },
		Evict:   func(m podset.Evict) { b.podset.Tell(m) },
		Backoff: backoff.Policy{Base: time.Second, Max: time.Minute}, Deadline: 10 * time.Second,
	}
	if c.Ports.API != nil {
		d.Unwritten = func(reply func(int)) { b.above.status.Tell(status.Unwritten{Reply: reply}) }
	}
	spawn(ctx, c.Around, "shutdown", shutdown.New(d))
}
