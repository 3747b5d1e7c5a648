package apicontract

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

func testWatch(s *suite) {
	before := s.made(s.configMap("before"))
	v := s.started(port.Selection{Kind: port.ConfigMapKind, Namespace: s.Namespace})
	v.reaches(before)
	after := s.made(s.configMap("after"))
	v.reaches(after)
	v.reaches(s.update(with(before, label("a", "1"))).ok())
	s.deleteNow(after).ok()
	v.loses(port.APIKeyOf(after))
	v.reaches(s.made(s.configMap("after")))
}

// testWatchNodeName is an agent's watch of its pods: what is bound to another
// node, or to none, isn't told.
func testWatchNodeName(s *suite) {
	node := s.name + "-node"
	mine := s.made(s.pod("mine", node))
	s.made(s.pod("other", node+"-2"))
	s.made(s.pod("none", ""))
	v := s.started(port.Selection{Kind: port.PodKind, Field: "spec.nodeName=" + node})
	v.reaches(mine)
	other := s.podOf(s.made(s.pod("other2", node+"-2")))
	s.patchStatus(other, with(other, running(s))).ok()
	second := s.podOf(s.made(s.pod("mine2", node)))
	v.reaches(second)
	v.reaches(s.patchStatus(second, with(second, running(s))).ok())
	check.Same(s, v.names(), []string{mine.GetName(), second.GetName()}, "the watch of %s shows", node)
	s.deleteNow(mine).ok()
	v.loses(port.APIKeyOf(mine))
}

// testWatchPhase: an object that the selection no longer fits is deleted as far
// as the watch is concerned, and one that begins to fit it is new.
func testWatchPhase(s *suite) {
	node := s.name + "-node"
	p := s.podOf(s.made(s.bound("p")))
	pending := s.started(port.Selection{Kind: port.PodKind, Namespace: s.Namespace, Field: "spec.nodeName=" + node + ",status.phase=Pending"})
	others := s.started(port.Selection{Kind: port.PodKind, Namespace: s.Namespace, Field: "spec.nodeName=" + node + ",status.phase!=Pending"})
	pending.reaches(p)
	p = s.podOf(s.patchStatus(p, with(p, running(s))).ok())
	pending.loses(port.APIKeyOf(p))
	others.reaches(p)
	p = s.podOf(s.patchStatus(p, with(p, func(p *v1.Pod) { p.Status.Phase = v1.PodPending })).ok())
	pending.reaches(p)
	others.loses(port.APIKeyOf(p))
}

func testWatchNamespace(s *suite) {
	made := s.made(s.lease("l"))
	elsewhere := s.started(port.Selection{Kind: port.LeaseKind, Namespace: "kube-public"})
	here := s.started(port.Selection{Kind: port.LeaseKind, Namespace: s.Namespace, Field: "metadata.name=" + made.GetName()})
	v := s.started(port.Selection{Kind: port.LeaseKind, Field: "metadata.namespace=" + s.Namespace + ",metadata.name=" + made.GetName()})
	for _, w := range []*view{here, v} {
		w.reaches(made)
		w.reaches(s.update(with(s.get(port.APIKeyOf(made)).ok(), label("a", w.sel.Namespace+"x"))).ok())
		check.Same(s, w.names(), []string{made.GetName()}, "%v shows", w.sel)
	}
	if slices.Contains(elsewhere.names(), made.GetName()) {
		s.Errorf("the watch of another namespace shows it")
	}
}

// testWatchAllNamespaces: of a kind, and of a kind without namespaces.
func testWatchAllNamespaces(s *suite) {
	nodes, maps := s.started(port.Selection{Kind: port.NodeKind}), s.started(port.Selection{Kind: port.ConfigMapKind})
	n, c := s.made(s.node("n")), s.made(s.configMap("c"))
	nodes.reaches(n)
	maps.reaches(c)
	s.deleteNow(n).ok()
	nodes.loses(port.APIKeyOf(n))
}

// testWatchMany: after many changes by two clients, watches that began at
// different times show what is there.
func testWatchMany(s *suite) {
	sel := port.Selection{Kind: port.PodKind, Field: "spec.nodeName=" + s.name + "-node"}
	early := s.started(sel)
	var late *view
	last := map[port.APIKey]port.APIObject{}
	for i := range 12 {
		o := s.made(s.bound(fmt.Sprint("p", i)))
		last[port.APIKeyOf(o)] = o
		for j := range 4 {
			p := s.podOf(last[port.APIKeyOf(o)])
			switch (i + j) % 3 {
			case 0:
				last[port.APIKeyOf(o)] = s.patchStatus(p, with(p, func(p *v1.Pod) { p.Status.Message = fmt.Sprint("m", j) })).ok()
			case 1:
				last[port.APIKeyOf(o)] = s.otherPatch(port.APIPatch{Key: port.APIKeyOf(p), From: p, To: with(p, func(p *v1.Pod) { label("j", fmt.Sprint(j))(p) })})
			default:
				last[port.APIKeyOf(o)] = s.update(with(p, func(p *v1.Pod) { label("u", fmt.Sprint(j))(p) })).ok()
			}
		}
		if i%3 == 2 {
			s.deleteNow(o).ok()
			delete(last, port.APIKeyOf(o))
		}
		if i == 5 {
			late = s.watch(sel)
		}
	}
	for _, v := range []*view{early, late} {
		s.eventually("the watch shows what is there", func() bool {
			if len(v.objects) != len(last) {
				return false
			}
			for k, o := range last {
				if v.objects[k] == nil || v.objects[k].GetResourceVersion() != o.GetResourceVersion() {
					return false
				}
			}
			return true
		})
	}
}

func testWatchEnds(s *suite) {
	v := s.started(port.Selection{Kind: port.ConfigMapKind, Namespace: s.Namespace})
	v.stop()
	s.eventually("the watch ends", func() bool { return v.ended > 0 })
	s.made(s.configMap("after"))
	s.pass(moment)
	s.mu.Lock()
	defer s.mu.Unlock()
	if v.ended != 1 || v.err == nil || port.KindOf(v.err) != port.Canceled {
		s.Errorf("the watch ended %d times, the last time with %v, want canceled, once", v.ended, v.err)
	}
}

// testWatchBroken: what happened while the watch could not hear is told after.
func testWatchBroken(s *suite) { s.brokenWatch(func() {}) }

// testWatchExpired: so it is if the history was thrown away meanwhile.
func testWatchExpired(s *suite) {
	if s.Expire != nil {
		s.brokenWatch(s.Expire)
	}
}

func (s *suite) brokenWatch(meanwhile func()) {
	if s.Break == nil {
		return
	}
	changed, deleted, kept := s.made(s.bound("changed")), s.made(s.bound("deleted")), s.made(s.bound("kept"))
	v := s.started(port.Selection{Kind: port.PodKind, Field: "spec.nodeName=" + s.name + "-node"})
	for _, o := range []port.APIObject{changed, deleted, kept} {
		v.reaches(o)
	}
	heal := s.Break()
	s.eventually("the watch says that it is broken", func() bool { return v.broken > 0 })
	check.Equal(s, len(v.keys()), 3, "a broken watch shows %v, want what it showed before", v.keys())
	s.otherDelete(deleted)
	next := s.otherPatch(port.APIPatch{Key: port.APIKeyOf(changed), From: changed, To: with(changed, label("a", "1"))})
	fresh := s.otherCreate(s.bound("new"))
	meanwhile()
	heal()
	v.reaches(next)
	v.reaches(fresh)
	v.loses(port.APIKeyOf(deleted))
	v.reaches(kept)
	v.reaches(s.patch(next, with(next, label("a", "2"))).ok())
}
