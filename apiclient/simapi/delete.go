package simapi

import (
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/port"
)

// remove begins the deletion of an object, or ends it.
//
//	there ──delete──► going (pods with grace; anything with finalizers) ──► gone
//	  └── no grace, no finalizers ─────────────────────────────────────────► gone
//
// A pod has a grace period only while it is bound to a node and has not ended: an agent has to
// stop it. Further deletes only shorten the grace, and one with 0 ends it. An object with
// finalizers is removed with the last of them, once its grace is 0.
func (s *Server) remove(d port.APIDelete) error {
	k := d.Key
	t := s.tables[k.Kind]
	e := t.objects[name{k.Namespace, k.Name}]
	if e == nil {
		return notFound(k)
	}
	old := metaOf(e.object)
	if d.UID != "" && d.UID != old.UID {
		return conflict(k,
			"the UID in the precondition (%s) does not match the UID in record (%s). The object might have been deleted and "+
				"then recreated", d.UID, old.UID)
	}
	grace, marks := s.graceOf(e.object, d.Grace)
	if !marks {
		return nil // it is being deleted, and sooner than requested
	}
	if len(old.Finalizers) > 0 || grace != noGrace {
		s.mark(t, e, grace)
		if len(old.Finalizers) > 0 || grace > 0 {
			return nil
		}
	}
	s.end(t, e)
	return nil
}

// noGrace is for an object without a grace period, which needs no deletionTimestamp.
const noGrace = -1

// graceOf is the grace in seconds that a delete gives an object, noGrace if it has none. ok is
// false if the delete changes nothing.
func (s *Server) graceOf(o port.APIObject, asked *int64) (grace int64, ok bool) {
	p, isPod := o.(*v1.Pod)
	if !isPod {
		return noGrace, true
	}
	if p.DeletionTimestamp != nil {
		left := p.DeletionGracePeriodSeconds
		switch {
		case left == nil || *left == 0:
			return noGrace, true
		case asked == nil || minGrace(*asked) >= *left:
			return 0, false
		}
		return minGrace(*asked), true
	}
	switch {
	case p.Spec.NodeName == "" || podspec.Finished(p):
		return 0, true
	case asked != nil:
		return minGrace(*asked), true
	case p.Spec.TerminationGracePeriodSeconds != nil:
		return minGrace(*p.Spec.TerminationGracePeriodSeconds), true
	}
	return 0, true
}

// minGrace parses a grace period: a negative one is one second.
func minGrace(seconds int64) int64 {
	if seconds < 0 {
		return 1
	}
	return seconds
}

// mark sets an object's deletionTimestamp and grace period.
func (s *Server) mark(t *table, e *entry, grace int64) {
	now := s.seconds()
	next := shallow(e.object)
	m := metaOf(next)
	ends := now.Add(time.Duration(max(grace, 0)) * time.Second)
	switch {
	case m.DeletionTimestamp == nil:
		if m.Generation > 0 {
			m.Generation++
		}
	case grace == noGrace:
		return // its finalizers hold it, and it is marked already
	default: // shorter than before, counted from its start
		began := m.DeletionTimestamp.Add(-time.Duration(*m.DeletionGracePeriodSeconds) * time.Second)
		ends = began.Add(time.Duration(grace) * time.Second)
		if ends.Before(now) {
			ends = now
			grace = min(grace, 1)
		}
	}
	m.DeletionTimestamp, m.DeletionGracePeriodSeconds = new(metav1.NewTime(ends)), new(max(grace, 0))
	s.commit(t, e.object, next, false)
}

// end removes an object.
func (s *Server) end(t *table, e *entry) { s.commit(t, e.object, shallow(e.object), true) }

// bind assigns a pod to a node, once.
func (s *Server) bind(namespace, pod, node string) error {
	k := port.APIKey{Kind: port.PodKind, Namespace: namespace, Name: pod}
	t := s.tables[k.Kind]
	e := t.objects[name{namespace, pod}]
	if e == nil {
		return notFound(k)
	}
	old := e.object.(*v1.Pod)
	switch {
	case old.DeletionTimestamp != nil:
		return conflict(k, "pod %s is being deleted, cannot be assigned to a host", pod)
	case old.Spec.NodeName != "":
		return conflict(k, "pod %v is already assigned to node %q", pod, old.Spec.NodeName)
	case len(old.Spec.SchedulingGates) > 0:
		return conflict(k, "pod %v has non-empty .spec.schedulingGates", pod)
	}
	next := *old
	next.Spec.NodeName = node
	next.Status.NominatedNodeName = ""
	next.Status.Conditions = append(make([]v1.PodCondition, 0, len(old.Status.Conditions)+1), old.Status.Conditions...)
	scheduled := v1.PodCondition{
		Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: metav1.NewTime(s.seconds()),
	}
	found := false
	for i := range next.Status.Conditions {
		if next.Status.Conditions[i].Type == v1.PodScheduled {
			next.Status.Conditions[i], found = scheduled, true
		}
	}
	if !found {
		next.Status.Conditions = append(next.Status.Conditions, scheduled)
	}
	s.commit(t, old, &next, false)
	return nil
}
