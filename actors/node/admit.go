package node

import (
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/admit"
	"github.com/troupe-dev/troupe/actors/decide/nodeobject"
)

// admit says why a pod may not run beside others on this node, of which the apiserver has as; nil if it may.
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
