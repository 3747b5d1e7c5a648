package podset

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestEvict: each state of an eviction and of a removal, each stop under way, and another eviction.
func TestEvict(t *testing.T) {
	deleted := podlife.Stop{At: now, Grace: time.Minute, Why: "deleted"}
	eviction := podlife.Stop{At: now, Grace: time.Second, Reason: "Evicted", Message: "low", Disruption: "low", Fail: true}
	other := podlife.Stop{At: now, Grace: 9 * time.Second, Reason: "Preempting", Fail: true}
	with := func(s podlife.Stop, change func(*podlife.Stop)) *podlife.Stop {
		change(&s)
		return &s
	}
	short := with(deleted, func(s *podlife.Stop) { s.Grace = time.Second })
	merged := with(*short, func(s *podlife.Stop) {
		s.Reason, s.Message, s.Disruption, s.Fail, s.Decided = "Evicted", "low", "low", true, now
	})
	otherShort := with(other, func(s *podlife.Stop) { s.Grace = time.Second })
	for _, c := range []struct {
		name  string
		entry Entry
		first bool
		// stop is why it ends then, telling what its actor is told before that is in the checkpoint, and later after it.
		stop, telling, later *podlife.Stop
	}{
		{"a pod that runs", Entry{}, true, &eviction, nil, &eviction},
		{"one that is being deleted", Entry{Stops: Stops{Stop: &deleted}}, true, merged, short, merged},
		{"a static pod that was removed", Entry{Stops: Stops{Stop: &deleted, Removal: Saved}}, true, merged, short, merged},
		{"one whose removal is not noted yet", Entry{Stops: Stops{Stop: &deleted, Removal: Unsaved}}, true, merged, nil, merged},
		{"one that was refused", Entry{Stops: Stops{Stop: &other}}, false, otherShort, otherShort, otherShort},
		{"one that was evicted", Entry{Stops: Stops{Stop: &other, Eviction: Saved}}, false, otherShort, otherShort, otherShort},
		{"one whose eviction is not noted yet", Entry{Stops: Stops{Stop: &other, Eviction: Unsaved}}, false, otherShort, nil, otherShort},
		{"one that is deleted, and whose eviction is not noted yet", Entry{Stops: Stops{Stop: &other, StopWithoutEviction: &deleted, Eviction: Unsaved}},
			false, otherShort, short, otherShort},
	} {
		e := c.entry
		check.Equal(t, e.Add(ForNode, eviction), c.first, "%s: it is the first", c.name)
		wantStop(t, c.name+", the stop", e.Stop, c.stop)
		wantStop(t, c.name+", before it is noted", e.EffectiveStop(), c.telling)
		if e.StopWithoutEviction != nil && e.Eviction != Unsaved {
			t.Errorf("%s: %v has %+v beside it", c.name, e.Eviction, *e.StopWithoutEviction)
		}
		waits := e.Removal == Unsaved || e.Eviction == Unsaved
		if e.MarkSaved() != waits || e.MarkSaved() || e.Removal == Unsaved || e.Eviction == Unsaved || e.StopWithoutEviction != nil {
			t.Errorf("%s: noted: removal %v, eviction %v", c.name, e.Removal, e.Eviction)
		}
		wantStop(t, c.name+", after it is noted", e.EffectiveStop(), c.later)
	}
	if deleted.Fail || other.Grace != 9*time.Second {
		t.Error("a stop was changed that the pod's actor has")
	}
}

func wantStop(t *testing.T, what string, got, want *podlife.Stop) {
	t.Helper()
	if (got == nil) != (want == nil) || got != nil && *got != *want {
		t.Errorf("%s: %+v, want %+v", what, got, want)
	}
}

// TestDeletionOfAnEvicted: a deletion does not wait until an eviction is noted.
func TestDeletionOfAnEvicted(t *testing.T) {
	eviction := podlife.Stop{At: now, Grace: time.Minute, Reason: "Evicted", Fail: true}
	deleted := podlife.Stop{At: now, Grace: 30 * time.Second, Why: "deleted"}
	sooner := podlife.Stop{At: now, Grace: 10 * time.Second, Why: "deleted again"}
	e := Entry{}
	e.Add(ForNode, eviction)
	e.Add(ForDeletion, deleted)
	wantStop(t, "deleted", e.EffectiveStop(), &deleted)
	e.Add(ForDeletion, sooner)
	shorter := deleted
	shorter.Grace = 10 * time.Second
	wantStop(t, "deleted with a shorter grace period", e.EffectiveStop(), &shorter)
	e.MarkSaved()
	shorter = eviction
	shorter.Grace = 10 * time.Second
	wantStop(t, "the eviction is noted", e.EffectiveStop(), &shorter)
	e.Add(ForDeletion, podlife.Stop{At: now})
	shorter.Grace = 0
	wantStop(t, "deleted by force", e.EffectiveStop(), &shorter)
	if e.StopWithoutEviction != nil {
		t.Errorf("%+v beside an eviction that is noted", *e.StopWithoutEviction)
	}
}

// TestPreempted: only a pod that is always restarted may have succeeded.
func TestPreempted(t *testing.T) {
	now := time.Unix(0, 0)
	for policy, byExit := range map[v1.RestartPolicy]bool{
		v1.RestartPolicyAlways: true, v1.RestartPolicyOnFailure: false, v1.RestartPolicyNever: false,
	} {
		s := Preempted(&v1.Pod{Spec: v1.PodSpec{RestartPolicy: policy}}, now)
		if s.ByExit != byExit || !s.Fail || s.Reason != "Preempting" || !s.At.Equal(now) {
			t.Errorf("%s: %+v", policy, s)
		}
	}
}

// TestSpent: what the node ended to get room back, and what the apiserver knows to have ended.
func TestSpent(t *testing.T) {
	ended := func(reason string, change func(*Entry)) *Entry {
		p := &v1.Pod{Status: v1.PodStatus{Phase: v1.PodFailed}}
		e := &Entry{
			Pod: p, Origin: podspec.API, State: Finished,
			Stops: Stops{Eviction: Saved, Stop: &podlife.Stop{Reason: reason, Fail: true}},
		}
		change(e)
		return e
	}
	same := func(*Entry) {}
	for _, c := range []struct {
		name        string
		entry       *Entry
		spent, good bool
	}{
		{"evicted", ended("Evicted", same), true, true},
		{"preempted", ended("Preempting", same), true, true},
		{"ended by a shutdown", ended("Terminated", same), false, true},
		{"failed by itself", ended("", func(e *Entry) { e.Eviction = Kept }), false, true},
		{"the apiserver does not know yet", ended("Evicted", func(e *Entry) { e.Pod.Status.Phase = v1.PodRunning }), false, true},
		{"something runs yet", ended("Evicted", func(e *Entry) { e.State = Running }), false, false},
		{"a static pod: it may begin again", ended("Evicted", func(e *Entry) { e.Origin = podspec.File }), false, false},
	} {
		check.Equal(t, c.entry.Spent(), c.spent, "%s: it is spent", c.name)
		check.Equal(t, c.entry.EndedForGood(), c.good, "%s: it has ended for good", c.name)
	}
}
