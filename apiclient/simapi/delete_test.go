package simapi

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestDeletePod is base + what was done before + what is asked → what is there.
func TestDeletePod(t *testing.T) {
	seconds := func(n int64) *int64 { return &n }
	for _, c := range []struct {
		name string
		// pod changes what is created; status what is written then.
		pod    func(*v1.Pod)
		phase  v1.PodPhase
		before []*int64      // graces of earlier deletes
		wait   time.Duration // between those and the last
		ask    *int64
		// want is grace after the last delete, -1 for gone; left is how far off its
		// end is then, and events what an unlagged watch saw of all of it.
		want   int64
		left   time.Duration
		events string
	}{
		{name: "its own grace", want: 30, left: 30 * time.Second, events: "MM"},
		{name: "asked for", ask: seconds(5), want: 5, left: 5 * time.Second, events: "MM"},
		{name: "negative is a second", ask: seconds(-7), want: 1, left: time.Second, events: "MM"},
		{name: "its own is negative", pod: func(p *v1.Pod) { p.Spec.TerminationGracePeriodSeconds = seconds(-1) }, want: 1, left: time.Second, events: "MM"},
		{name: "now", ask: seconds(0), want: -1, events: "MMD"},
		{name: "its own is none", pod: func(p *v1.Pod) { p.Spec.TerminationGracePeriodSeconds = seconds(0) }, want: -1, events: "MMD"},
		{name: "on no node", pod: func(p *v1.Pod) { p.Spec.NodeName = "" }, ask: seconds(9), want: -1, events: "MMD"},
		{name: "succeeded", phase: v1.PodSucceeded, want: -1, events: "MMD"},
		{name: "failed", phase: v1.PodFailed, ask: seconds(9), want: -1, events: "MMD"},
		{name: "twice", before: []*int64{nil}, want: 30, left: 30 * time.Second, events: "MM"},
		{name: "shorter", before: []*int64{nil}, ask: seconds(10), want: 10, left: 10 * time.Second, events: "MMM"},
		{name: "shorter, from its beginning", before: []*int64{nil}, wait: 4 * time.Second, ask: seconds(10), want: 10, left: 6 * time.Second, events: "MMM"},
		{name: "shorter than has passed", before: []*int64{nil}, wait: 20 * time.Second, ask: seconds(10), want: 1, events: "MMM"},
		{name: "longer", before: []*int64{seconds(10)}, ask: seconds(20), want: 10, left: 10 * time.Second, events: "MM"},
		{name: "as long", before: []*int64{seconds(10)}, ask: seconds(10), want: 10, left: 10 * time.Second, events: "MM"},
		{name: "in the end", before: []*int64{nil}, wait: 3 * time.Second, ask: seconds(0), want: -1, events: "MMMD"},
		{name: "finalizer", pod: finalized, want: 30, left: 30 * time.Second, events: "MM"},
		{name: "finalizer, now", pod: finalized, ask: seconds(0), want: 0, events: "MM"},
		{name: "finalizer, on no node", pod: func(p *v1.Pod) { finalized(p); p.Spec.NodeName = "" }, want: 0, events: "MM"},
		{name: "finalizer, in the end", pod: finalized, before: []*int64{nil}, ask: seconds(0), want: 0, events: "MMM"},
		{name: "finalizer, again in the end", pod: finalized, before: []*int64{nil, seconds(0)}, wait: time.Second, ask: seconds(0), want: 0, left: -time.Second, events: "MMM"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, nil)
			p := aPod("p", "n1")
			if c.pod != nil {
				c.pod(p)
			}
			made := w.created(p).(*v1.Pod)
			events := ""
			stop, err := w.Watch(WatchOptions{Select: Select{Kind: port.PodKind}, Since: versionOf(made)}, func(e Event) { events += e.Type.String()[:1] })
			if err != nil {
				t.Fatal(err)
			}
			defer stop()
			status := made.Status
			status.Message = "written"
			if c.phase != "" {
				status.Phase = c.phase
			}
			check.Value(w.UpdateStatus(withStatus(made, status)))(t)
			for _, ask := range c.before {
				check.Fatal(t, w.Delete(port.APIDelete{Key: podKey("p"), Grace: ask}))
			}
			w.v.Advance(c.wait)
			check.Fatal(t, w.Delete(port.APIDelete{Key: podKey("p"), UID: made.UID, Grace: c.ask}))
			w.v.Advance(0)
			check.Equal(t, events, c.events, "events")
			o, err := w.Get(podKey("p"))
			if c.want < 0 {
				if !apierrors.IsNotFound(err) {
					t.Errorf("it is still there: %v, %v", o, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			is := o.(*v1.Pod)
			if is.DeletionGracePeriodSeconds == nil || *is.DeletionGracePeriodSeconds != c.want || is.Generation != 2 {
				t.Errorf("grace is %s and generation %d, want %d and 2", show(is.DeletionGracePeriodSeconds), is.Generation, c.want)
			}
			check.Equal(t, is.DeletionTimestamp.Sub(w.v.Now()), c.left, "it ends in")
		})
	}
}

func finalized(p *v1.Pod) { p.Finalizers = []string{"test/f"} }

func show(n *int64) string {
	if n == nil {
		return "none"
	}
	return fmt.Sprint(*n)
}

// TestDeletedVersions: what a watch is told last of an object has the version
// of its end, which is newer than any before.
func TestDeletedVersions(t *testing.T) {
	w := newWorld(t, nil)
	w.created(aPod("p", "n1"))
	var last Event
	var seen uint64
	stop := check.Value(w.Watch(WatchOptions{Select: Select{Kind: port.PodKind}}, func(e Event) {
		if e.Version != versionOf(e.Object) || e.Version <= seen {
			t.Errorf("event %d has an object of version %s, after %d", e.Version, e.Object.GetResourceVersion(), seen)
		}
		last, seen = e, e.Version
	}))(t)
	defer stop()
	check.Fatal(t, w.Delete(port.APIDelete{Key: podKey("p"), Grace: new(int64)}))
	w.v.Advance(0)
	if last.Type != Deleted || last.Version != w.Stats().Version || last.Object.GetDeletionTimestamp() == nil {
		t.Errorf("the last event is %+v", last)
	}
}

func TestBind(t *testing.T) {
	w := newWorld(t, nil)
	made := w.created(aPod("p", "")).(*v1.Pod)
	check.Fatal(t, w.Bind("default", "p", "n1"))
	p := w.pod(podKey("p"))
	if p.Spec.NodeName != "n1" || p.Generation != 1 || len(p.Status.Conditions) != 1 || p.Status.Conditions[0].Type != v1.PodScheduled ||
		p.Status.Conditions[0].Status != v1.ConditionTrue || p.Status.Conditions[0].LastTransitionTime.IsZero() {
		t.Errorf("the bound pod is %+v", p)
	}
	if &p.Spec.Containers[0] != &made.Spec.Containers[0] {
		t.Errorf("binding copied the spec")
	}
	if err := w.Bind("default", "p", "n2"); !apierrors.IsConflict(err) {
		t.Errorf("bound twice: %v", err)
	}
	if err := w.Bind("default", "q", "n2"); !apierrors.IsNotFound(err) {
		t.Errorf("bound what isn't there: %v", err)
	}
	gated := aPod("gated", "")
	gated.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "test/gate"}}
	o := w.created(gated).(*v1.Pod)
	if len(o.Status.Conditions) != 1 || o.Status.Conditions[0].Reason != v1.PodReasonSchedulingGated {
		t.Errorf("conditions of a gated pod are %+v", o.Status.Conditions)
	}
	if err := w.Bind("default", "gated", "n1"); !apierrors.IsConflict(err) {
		t.Errorf("bound a gated pod: %v", err)
	}
	going := aPod("going", "")
	going.Finalizers = []string{"test/f"}
	w.created(going)
	check.Fatal(t, w.Delete(port.APIDelete{Key: podKey("going")}))
	if err := w.Bind("default", "going", "n1"); !apierrors.IsConflict(err) {
		t.Errorf("bound a pod that is being deleted: %v", err)
	}
}

// TestUpdateWhileDeleted: an update neither changes a deletion nor puts it off.
func TestUpdateWhileDeleted(t *testing.T) {
	w := newWorld(t, nil)
	p := aPod("p", "n1")
	p.Finalizers = []string{"test/f", "test/g"}
	w.created(p)
	check.Fatal(t, w.Delete(port.APIDelete{Key: podKey("p")}))
	for _, c := range []struct {
		name   string
		change func(*v1.Pod)
		ok     bool
	}{
		{"another grace", func(p *v1.Pod) { p.DeletionGracePeriodSeconds = new(int64(7)) }, false},
		{"one finalizer more", func(p *v1.Pod) { p.Finalizers = append(p.Finalizers, "test/h") }, false},
		{"no mark", func(p *v1.Pod) { p.DeletionTimestamp, p.DeletionGracePeriodSeconds = nil, nil }, true},
		{"one finalizer less", func(p *v1.Pod) { p.Finalizers = p.Finalizers[1:] }, true},
	} {
		o, err := w.Update(with(w.pod(podKey("p")), c.change))
		if c.ok != (err == nil) || err != nil && !apierrors.IsInvalid(err) {
			t.Errorf("%s: %v", c.name, err)
		}
		if err == nil && (o.GetDeletionTimestamp() == nil || *o.GetDeletionGracePeriodSeconds() != 30) {
			t.Errorf("%s: the mark is gone: %+v", c.name, o)
		}
	}
}
