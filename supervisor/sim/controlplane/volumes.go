package controlplane

import (
	"cmp"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/csi"
)

// needs are what the volumes of a pod want of its node.
type needs struct {
	// waits says why the pod fits nowhere yet, empty if it may.
	waits string
	// on is the claim that it waits for, or the first of choose.
	on types.NamespacedName
	// labels are those that the volumes can be used with only.
	labels map[string][]string
	// keys are labels that the node must have, for volumes that are made for it.
	keys []string
	// have are the volumes, fresh counts those that have to be made, by driver.
	have  []csi.Key
	fresh map[string]int
	// choose are claims for which a volume is made where the pod is to run.
	choose []*v1.PersistentVolumeClaim
}

// needs says what the volumes of a pod want of its node; nil for nothing.
func (s *storage) needs(p *v1.Pod) *needs {
	if s == nil || !hasClaims(p) {
		return nil
	}
	out := &needs{labels: map[string][]string{}, fresh: map[string]int{}}
	for _, u := range s.claimsOf(p) {
		c, name := u.claim, types.NamespacedName{Namespace: p.Namespace, Name: u.name}
		switch {
		case c == nil:
			out.waits, out.on = `persistentvolumeclaim "`+u.name+`" not found`, name
			return out
		case c.DeletionTimestamp != nil:
			out.waits, out.on = `persistentvolumeclaim "`+u.name+`" is being deleted`, name
			return out
		}
		if v := s.volumeOf(c); v != nil {
			out.of(v)
			continue
		}
		driver, d := s.driverOf(c)
		if d == nil || d.Topology == "" || s.cp.byName[c.Annotations[selectedNode]] != nil {
			out.waits, out.on = "pod has unbound immediate PersistentVolumeClaims", name
			return out
		}
		out.keys = append(out.keys, d.Topology)
		out.fresh[driver]++
		if len(out.choose) == 0 {
			out.on = name
		}
		out.choose = append(out.choose, c)
	}
	return out
}

// of adds what a volume wants.
func (n *needs) of(v *v1.PersistentVolume) {
	if k, is := keyOfVolume(v); is {
		n.have = append(n.have, k)
	}
	if a := v.Spec.NodeAffinity; a != nil && a.Required != nil {
		for _, t := range a.Required.NodeSelectorTerms {
			for _, e := range t.MatchExpressions {
				n.labels[e.Key] = e.Values
			}
		}
	}
}

// refuses says why volumes can't be used on a node, empty if they can.
func (s *storage) refuses(n *v1.Node, of *needs) string {
	for key, values := range of.labels { // order-free: one answer
		if !slices.Contains(values, n.Labels[key]) {
			return "node(s) didn't match PersistentVolume's node affinity"
		}
	}
	for _, key := range of.keys {
		if n.Labels[key] == "" {
			return "node(s) did not have enough free storage"
		}
	}
	more := maps.Clone(of.fresh)
	for _, k := range of.have {
		if !s.byNode[n.Name][k] {
			more[k.Driver]++
		}
	}
	for driver, count := range more { // order-free: one answer
		if limit, is := s.limit(n.Name, driver); is && s.count(n.Name, driver)+count > limit {
			return "node(s) exceed max volume count"
		}
	}
	return ""
}

// limit is how many volumes of a driver can be attached to a node, if there is a limit.
func (s *storage) limit(node, driver string) (int, bool) {
	n := s.csinodes[node]
	if n == nil {
		return 0, false
	}
	for i := range n.Spec.Drivers {
		if d := &n.Spec.Drivers[i]; d.Name == driver && d.Allocatable != nil && d.Allocatable.Count != nil {
			return int(*d.Allocatable.Count), true
		}
	}
	return 0, false
}

// count is how many volumes of a driver a node has, or is to have.
func (s *storage) count(node, driver string) (out int) {
	for k := range s.byNode[node] { // order-free: a count
		if k.Driver == driver {
			out++
		}
	}
	return out
}

// park keeps a pod until its claim changes: thousands may wait for theirs.
func (s *storage) park(p *v1.Pod, claim types.NamespacedName) {
	if s.parked[claim] == nil {
		s.parked[claim] = map[types.UID]*v1.Pod{}
	}
	s.parked[claim][p.UID] = p
}

// wake has another look at the pods that wait for a claim.
func (s *storage) wake(claim types.NamespacedName) {
	pods := s.parked[claim]
	if len(pods) == 0 {
		return
	}
	delete(s.parked, claim)
	for _, uid := range slices.Sorted(maps.Keys(pods)) {
		s.cp.pending = append(s.cp.pending, pods[uid])
	}
	s.cp.soon()
}

// wakeAll has another look at all pods that wait for claims: where they were to run may be gone.
func (s *storage) wakeAll() {
	for _, claim := range slices.SortedFunc(maps.Keys(s.parked), func(a, b types.NamespacedName) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	}) {
		s.wake(claim)
	}
}

// choose tells the provisioner where the pod of its claims is to run, and counts what it will make there.
func (s *storage) choose(p *v1.Pod, of *needs, node string) {
	var coming []onNode
	for _, c := range of.choose {
		name, _ := s.driverOf(c)
		k := onNode{csi.Key{Driver: name, Handle: "for " + string(c.UID)}, node}
		coming = append(coming, k)
		put(s.byNode, node, k.Key)
		out := *c
		out.Annotations = maps.Clone(c.Annotations)
		if out.Annotations == nil {
			out.Annotations = map[string]string{}
		}
		out.Annotations[selectedNode] = node
		_, _ = s.cp.api.Update(&out) // changed meanwhile: the pod is looked at again
	}
	s.coming[p.UID] = coming
}

// came: what was to be made for a pod counts by itself, or is not wanted any more.
func (s *storage) came(uid types.UID) {
	for _, k := range s.coming[uid] {
		take(s.byNode, k.node, k.Key)
	}
	delete(s.coming, uid)
}
