package controlplane

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// schedule finds a node for a pod, if it can, and reports whether it has bound it.
func (cp *ControlPlane) schedule(p *v1.Pod) bool {
	now, err := cp.api.Get(keyOf(p))
	if err != nil || now.GetUID() != p.UID {
		return false // gone
	}
	p = now.(*v1.Pod)
	if p.Spec.NodeName != "" || p.DeletionTimestamp != nil {
		return false
	}
	d, wants := of(p), cp.storage.needs(p)
	had, waits := cp.placed[p.UID]
	if waits && had.on.index >= 0 {
		if wants.waits != "" || len(wants.choose) > 0 {
			cp.storage.park(p, wants.on)
			return false
		}
		return cp.bind(p, had.on, d, wants)
	}
	if waits { // its node is gone
		cp.release(p)
	}
	n, why := cp.pick(p, d, wants)
	if n == nil {
		if wants != nil && wants.waits != "" {
			cp.storage.park(p, wants.on)
		} else {
			cp.stuck = append(cp.stuck, p)
		}
		cp.unschedulable(p, why)
		return false
	}
	if wants == nil || len(wants.choose) == 0 {
		return cp.bind(p, n, d, wants)
	}
	cp.storage.park(p, wants.on)
	cp.placed[p.UID] = placement{n, d, true}
	n.used = n.used.plus(d)
	cp.fix(n)
	cp.storage.choose(p, wants, n.node.Name)
	return false
}

// bind binds a pod to a node, on which it may be counted already, and reports whether that worked.
func (cp *ControlPlane) bind(p *v1.Pod, n *candidate, d demand, wants *needs) bool {
	if cp.api.Bind(p.Namespace, p.Name, n.node.Name) != nil {
		cp.release(p)
		return false
	}
	if _, counted := cp.placed[p.UID]; !counted {
		n.used = n.used.plus(d)
		cp.fix(n)
	}
	cp.placed[p.UID] = placement{n, d, false}
	if wants != nil {
		cp.storage.place(p, n.node.Name) // the next pod finds them counted
	}
	return true
}

// pick finds a node for a pod. In one round, nodes only become fuller.
func (cp *ControlPlane) pick(p *v1.Pod, d demand, wants *needs) (*candidate, string) {
	if wants != nil { // no other pod is like it
		if wants.waits != "" {
			return nil, unschedulable(cp.nodes.Len(), map[string]int{wants.waits: 0})
		}
		return cp.nodes.pick(p, d, func(n *v1.Node) string { return cp.storage.refuses(n, wants) })
	}
	for i := range cp.refused {
		if r := &cp.refused[i]; r.same(p, d) {
			return nil, r.why
		}
	}
	n, why := cp.nodes.pick(p, d, nil)
	if n == nil {
		cp.refused = append(cp.refused, refusal{p, d, why})
	}
	return n, why
}

// unschedulable says so in the pod's status.
func (cp *ControlPlane) unschedulable(p *v1.Pod, why string) {
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == v1.PodScheduled && c.Message == why {
			return
		}
	}
	out := *p
	out.Status.Conditions = append(slices.DeleteFunc(slices.Clone(p.Status.Conditions), func(c v1.PodCondition) bool {
		return c.Type == v1.PodScheduled
	}),
		v1.PodCondition{
			Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable, Message: why,
			LastTransitionTime: metav1.NewTime(cp.config.Clock.Now()),
		})
	_, _ = cp.api.UpdateStatus(&out) // it was changed meanwhile: nothing that is waited for
}
