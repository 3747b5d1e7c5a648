package node

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/admit"
	"github.com/troupe-dev/troupe/actors/decide/nodeobject"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/standalone"
)

// startedWith says whether that is what the agent read of its machine at its start.
func (c *Config) startedWith(m *port.Machine) bool {
	return podspec.SameResources(m.Allocatable, c.Admit.Allocatable) &&
		slices.Equal(nodeobject.IPs(m.Addresses, nil), c.HostIPs)
}

// looks reports whether the actor standalone looks at the machine: on a node of a cluster nodestatus does.
func (c *Config) looks() bool { return c.Ports.API == nil && c.Ports.Facts != nil }

// spawnMachine spawns the actor that looks at the machine.
func (b *nodeActors) spawnMachine(ctx *kernel.Context[Message], c *Config) {
	d := &standalone.Deps{
		Facts: c.Ports.Facts, Name: c.Name, Labels: c.Admit.Labels, Known: c.startedWith, Deadline: callDeadline,
		Seen: func(n *v1.Node) {
			b.node.Publish(n)
			b.resized.Publish(n)
		},
	}
	if c.FeaturesUnknown {
		d.Runtime = c.Ports.Runtime
	}
	spawn(ctx, c.Around, "standalone", standalone.New(d))
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
