package node

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/admit"
	"github.com/troupe-dev/troupe/actors/decide/nodeobject"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/machine"
	"github.com/troupe-dev/troupe/actors/nodestatus"
	"github.com/troupe-dev/troupe/actors/podset"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/resources"
	"github.com/troupe-dev/troupe/actors/volumes"
)

// startedWith says whether that is what the agent read of its machine at its start.
func (c *Config) startedWith(m *port.Machine) bool {
	return podspec.SameResources(m.Allocatable, c.Admit.Allocatable) &&
		slices.Equal(nodeobject.IPs(m.Addresses, nil), c.HostIPs)
}

// looks reports whether the actor machine looks at the machine: on a node of a cluster nodestatus does.
func (c *Config) looks() bool { return c.Ports.API == nil && c.Ports.Facts != nil }

// spawnMachine spawns the actor that looks at the machine.
func (b *nodeActors) spawnMachine(ctx *kernel.Context[Message], c *Config) {
	d := &machine.Deps{
		Facts: c.Ports.Facts, Name: c.Name, Labels: c.Admit.Labels, Known: c.startedWith, Deadline: callDeadline,
		Seen: func(n *v1.Node) {
			b.podset.Tell(podset.NodeSeen{Node: n})
			b.volumes.Tell(volumes.NodeSeen{Node: n})
			if c.Ports.Cgroups != nil {
				b.resources.Tell(resources.NodeSeen{Node: n})
			}
		},
	}
	if c.FeaturesUnknown {
		d.Runtime = c.Ports.Runtime
	}
	b.machine = spawn(ctx, c.Around, "machine", machine.New(d))
}

// resendNode has what the Node says told again, or what the machine has; nil if nobody looks at it.
func (b *nodeActors) resendNode(c *Config) func() {
	switch {
	case c.Ports.API != nil:
		return func() { b.above.nodestatus.Tell(nodestatus.Resend{}) }
	case c.looks():
		return func() { b.machine.Tell(machine.Resend{}) }
	default:
		return nil
	}
}

// admit says why a pod may not run on what this node is now, beside others; nil if it may.
func (n *node) admit(p *v1.Pod, others []*v1.Pod, as *v1.Node, pressure admit.Pressure) *admit.Rejection {
	by := n.config.Admit
	by.Devices, by.Claims, by.Pressure = n.config.unserved(), n.config.claims(), pressure
	if as != nil {
		by.Allocatable = nodeobject.Allocatable(as, by.Allocatable)
		by.Labels, by.Taints = as.Labels, as.Spec.Taints
		// a runtime may be replaced by a newer one
		if f := as.Status.Features; f != nil && f.SupplementalGroupsPolicy != nil {
			by.StrictGroups = *f.SupplementalGroupsPolicy
		}
	}
	return admit.Check(p, others, &by)
}
