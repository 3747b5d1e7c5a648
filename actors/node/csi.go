package node

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/csi"
	"github.com/troupe-dev/troupe/actors/decide/admit"
	"github.com/troupe-dev/troupe/actors/decide/backoff"
	decide "github.com/troupe-dev/troupe/actors/decide/podset"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/podset"
	"github.com/troupe-dev/troupe/actors/volumes"
)

// csi reports whether pods can have volumes of CSI drivers on this node.
func (c *Config) csi() bool { return c.Ports.CSI != nil && c.Ports.API != nil }

// useCSI sets the messages of volumes to csi.
func (b *nodeActors) useCSI(c *Config, d *volumes.Deps) {
	if c.csi() {
		d.UseCSI = func(m volumes.UseCSI) { b.csi.Tell(csi.Use{UseCSI: m}) }
		d.ReleaseCSI = func(m volumes.ReleaseCSI) { b.csi.Tell(csi.Release{ReleaseCSI: m}) }
	}
}

// spawnCSI spawns the actor of CSI drivers.
func (b *nodeActors) spawnCSI(ctx *kernel.Context[Message], c *Config) {
	if !c.csi() {
		return
	}
	b.csi = spawn(ctx, c.Around, "csi", csi.New(&csi.Deps{
		Drivers: c.Ports.CSI, API: c.Ports.API, Events: c.Ports.Events, Node: c.Name,
		Answer:    func(m volumes.CSIAnswer) { b.volumes.Tell(m) },
		Released:  func(uid types.UID) { b.volumes.Tell(volumes.CSIReleased{UID: uid}) },
		Restarted: func() { b.volumes.Tell(volumes.CSIRestarted{}) },
		InUse:     b.inUse.Publish, Written: func() { b.csiNode.Publish(struct{}{}) },
		Living:  b.living(false),
		Backoff: backoff.Policy{Base: 500 * time.Millisecond, Max: 2*time.Minute + 2*time.Second},
		Reject: func(p *v1.Pod, reason, message string, at time.Time) {
			stop := decide.Expel(p, &admit.Rejection{Reason: reason, Message: message}, at)
			b.podset.Tell(podset.Evict{UID: p.UID, Stop: *stop})
		},
		Settings: c.Cluster.CSI,
	}), kernel.Follow(&b.nodeOfVolumes, func(n *v1.Node) csi.Message { return csi.NodeSeen{Node: n} }))
}
