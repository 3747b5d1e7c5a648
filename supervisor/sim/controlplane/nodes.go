package controlplane

import (
	"container/heap"
	"maps"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/apiclient/simapi"
)

// Cordon keeps new pods from a node, or lets them on it again.
func (cp *ControlPlane) Cordon(node string, cordoned bool) error {
	n, err := simapi.Object[*v1.Node](cp.api, "", node)
	if err != nil {
		return err
	}
	out := *n
	out.Spec.Unschedulable = cordoned
	_, err = cp.api.Update(&out)
	return err
}

// Drain cordons a node and deletes its pods, with their grace periods, as
// kubectl drain does without disruption budgets.
func (cp *ControlPlane) Drain(node string) error {
	if err := cp.Cordon(node, true); err != nil {
		return err
	}
	for _, p := range cp.on(node) {
		cp.remove(p)
	}
	return nil
}

func (cp *ControlPlane) on(node string) []*v1.Pod {
	all, err := simapi.Objects[*v1.Pod](cp.api, simapi.Select{Field: "spec.nodeName=" + node})
	if err != nil {
		panic(err) // the selector is ours
	}
	return all
}

func (cp *ControlPlane) seeNode(e simapi.Event) {
	n := e.Object.(*v1.Node)
	p := cp.byName[n.Name]
	if e.Type == simapi.Deleted {
		if p != nil {
			heap.Remove(&cp.nodes, p.index)
			p.index = -1
			delete(cp.byName, n.Name)
			delete(cp.heard, n.Name)
			cp.collect(n)
			if cp.storage != nil {
				cp.storage.seeNode(n)
				cp.storage.wakeAll()
			}
		}
		return
	}
	if p == nil {
		p = &candidate{order: cp.count}
		cp.count++
		cp.byName[n.Name] = p
		cp.heard[n.Name] = cp.config.Clock.Now()
		heap.Push(&cp.nodes, p)
		for _, pod := range cp.on(n.Name) {
			if !finished(pod) {
				p.used = p.used.plus(of(pod))
				cp.placed[pod.UID] = placement{p, of(pod), false}
			}
		}
	}
	p.node = n
	p.have = ofList(n.Status.Allocatable)
	p.have.pods = n.Status.Allocatable.Pods().Value()
	cp.fix(p)
	cp.retry()
	if cp.storage != nil {
		cp.storage.seeNode(n)
	}
	cp.judge(n)
}

// collect removes the pods of a node that is gone, and its lease: no other component
// will.
func (cp *ControlPlane) collect(n *v1.Node) {
	now := int64(0)
	for _, p := range cp.on(n.Name) {
		_ = cp.api.Delete(port.APIDelete{Key: keyOf(p), UID: p.UID, Grace: &now})
	}
	l, err := simapi.Object[*coordinationv1.Lease](cp.api, v1.NamespaceNodeLease, n.Name)
	if err != nil ||
		!slices.ContainsFunc(l.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == n.UID }) {
		return
	}
	_ = cp.api.Delete(port.APIDelete{
		Key: port.APIKey{Kind: port.LeaseKind, Namespace: l.Namespace, Name: l.Name}, UID: l.UID,
	})
}

func (cp *ControlPlane) seeLease(e simapi.Event) {
	l := e.Object.(*coordinationv1.Lease)
	if l.Namespace == v1.NamespaceNodeLease && e.Type != simapi.Deleted && cp.byName[l.Name] != nil {
		cp.heard[l.Name] = cp.config.Clock.Now()
	}
}

func (cp *ControlPlane) monitorLater() {
	cp.config.Clock.AfterFunc(monitorPeriod, func() {
		if cp.stops == nil {
			return
		}
		now := cp.config.Clock.Now()
		for _, name := range slices.Sorted(maps.Keys(cp.heard)) {
			if !cp.suspended && now.Sub(cp.heard[name]) > cp.config.NodeGrace {
				cp.judge(cp.byName[name].node)
			}
			if !cp.suspended && outOfService(cp.byName[name].node) {
				cp.collectOutOfService(name)
			}
		}
		cp.monitorLater()
	})
}

// judge writes what the API should say of a node, and lets pods go from it.
func (cp *ControlPlane) judge(n *v1.Node) {
	if cp.suspended {
		return
	}
	now := cp.config.Clock.Now()
	next := judge(n, cp.heard[n.Name], now, cp.config.NodeGrace)
	if next == nil {
		return
	}
	stored, err := cp.api.Update(next)
	if err != nil {
		return // changed meanwhile: that is seen, too
	}
	if !equal(next.Status.Conditions, stored.(*v1.Node).Status.Conditions) {
		out := *stored.(*v1.Node)
		out.Status = next.Status
		_, _ = cp.api.UpdateStatus(&out)
		cp.unready(n.Name)
	}
	cp.evictLater(n.Name, next.Spec.Taints)
}

// unready says of the pods of a node that is not heard of that they are not
// ready: a service should not send them work.
func (cp *ControlPlane) unready(node string) {
	for _, p := range cp.on(node) {
		if !podReady(p) {
			continue
		}
		out := *p
		out.Status.Conditions = slices.Clone(p.Status.Conditions)
		for i := range out.Status.Conditions {
			if c := &out.Status.Conditions[i]; c.Type == v1.PodReady {
				c.Status, c.Reason, c.LastTransitionTime = v1.ConditionFalse, "NodeNotReady", metav1.NewTime(cp.config.Clock.Now())
			}
		}
		_, _ = cp.api.UpdateStatus(&out) // a conflict means that another client changed it: the node is alive
	}
}

// evictLater has the pods of a node deleted when they no longer tolerate it.
func (cp *ControlPlane) evictLater(node string, taints []v1.Taint) {
	first := time.Time{}
	for _, p := range cp.on(node) {
		at, goes := goesAt(p, taints)
		if goes && p.DeletionTimestamp == nil && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	if first.IsZero() {
		return
	}
	cp.config.Clock.AfterFunc(max(first.Sub(cp.config.Clock.Now()), 0), func() {
		n := cp.byName[node]
		if cp.stops == nil || n == nil {
			return
		}
		if cp.suspended {
			cp.config.Clock.AfterFunc(monitorPeriod, func() { cp.evictLater(node, n.node.Spec.Taints) })
			return
		}
		now := cp.config.Clock.Now()
		for _, p := range cp.on(node) {
			if at, goes := goesAt(p, n.node.Spec.Taints); goes && !at.After(now) {
				cp.remove(p)
			}
		}
		cp.evictLater(node, n.node.Spec.Taints)
	})
}
