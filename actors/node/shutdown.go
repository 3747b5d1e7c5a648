package node

import (
	"time"

	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/nodestatus"
	"github.com/troupe-dev/troupe/actors/podset"
	"github.com/troupe-dev/troupe/actors/shutdown"
	"github.com/troupe-dev/troupe/actors/status"
)

// shutdownRef is zero on a node that does not wait for its pods when the machine shuts down.
type shutdownRef = kernel.Ref[shutdown.Message]

func (b *nodeActors) resendShutdown() { b.shutdown.Tell(shutdown.Resend{}) }

func (b *nodeActors) spawnShutdown(ctx *kernel.Context[Message], c *Config) {
	d := &shutdown.Deps{
		NodeName: c.Name, Inhibitor: c.Ports.Inhibitor, Checkpoints: c.Ports.Checkpoints, Events: c.Ports.Events,
		Groups: c.Shutdown, Counts: c.Observer,
		ShuttingDown: func(on bool) {
			b.podset.Tell(podset.ShuttingDown{On: on})
			b.above.nodestatus.Tell(nodestatus.ShuttingDown{On: on})
		},
		Pods:    func(reply func(podset.Inventory)) { b.podset.Tell(podset.Query{Reply: reply}) },
		Evict:   func(m podset.Evict) { b.podset.Tell(m) },
		Backoff: backoff.Policy{Base: time.Second, Max: time.Minute}, Deadline: 10 * time.Second,
	}
	if c.Ports.API != nil {
		d.Unwritten = func(reply func(int)) { b.above.status.Tell(status.Unwritten{Reply: reply}) }
	}
	b.shutdown = spawn(ctx, c.Around, "shutdown", shutdown.New(d))
}
