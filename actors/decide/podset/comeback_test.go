package podset

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/tests/check"
)

func TestReturns(t *testing.T) {
	const round = 5
	for _, c := range []struct {
		name   string
		change func(e *Entry)
		want   bool
	}{
		{"a pod that was removed and is wanted again", func(*Entry) {}, true},
		{"that stop was not written down yet", func(e *Entry) { e.Removal = Unsaved }, true},
		{"a pod that ended for another reason", func(e *Entry) { e.Removal = Kept }, false},
		{"it was wanted again in an earlier round only", func(e *Entry) { e.Wanted-- }, false},
		{"it was not wanted again since it was removed", func(e *Entry) { e.DesiredAgain = nil }, false},
		{"the apiserver wants it", func(e *Entry) { e.DesiredAgain.Origin = podspec.API }, true},
		{"the apiserver deletes it", func(e *Entry) {
			e.DesiredAgain.Origin, e.DesiredAgain.Pod.DeletionTimestamp = podspec.API, &metav1.Time{Time: now}
		}, false},
		{"it has ended in the apiserver", func(e *Entry) {
			e.DesiredAgain.Origin, e.DesiredAgain.Pod.Status.Phase = podspec.API, v1.PodSucceeded
		}, false},
	} {
		e := &Entry{Pod: made("a"), Stops: Stops{Removal: Saved}, Wanted: round, DesiredAgain: &Want{made("a"), podspec.File}}
		c.change(e)
		check.Equal(t, e.Returns(round), c.want, "%s", c.name)
	}
}

func TestReturn(t *testing.T) {
	for _, from := range []State{Finished, Collecting} {
		next := made("a")
		e := Entry{
			Pod: made("a"), Origin: podspec.Orphan, State: from, Stops: Stops{
				Stop: &podlife.Stop{At: now}, StopWithoutEviction: &podlife.Stop{At: now}, Removal: Saved, Eviction: Unsaved,
			}, Deleted: now,
			Wanted: 5, DesiredAgain: &Want{next, podspec.HTTP},
		}
		e.Return()
		check.Equal(t, e, (Entry{Pod: next, Origin: podspec.HTTP, State: Waiting, Wanted: 5, HasPreviousLife: true}), "from %v", from)
	}
}

func TestOfLife(t *testing.T) {
	rp := observed.RuntimePod{Pod: observed.Pod{
		Sandboxes:  []observed.Sandbox{{ID: "s2", Attempt: 2}, {ID: "s1", Attempt: 1}},
		Containers: []observed.Container{{ID: "c2", SandboxID: "s2"}, {ID: "c1", SandboxID: "s1"}, {ID: "c0", SandboxID: "s0"}},
	}}
	for id, want := range map[string]bool{"c2": true, "c1": false, "c0": false, "2": false, "": false} {
		list := []v1.ContainerStatus{{Name: "a"}, {Name: "b", ContainerID: "containerd://" + id}}
		check.Equal(t, OfLife(&v1.PodStatus{ContainerStatuses: list}, rp, 2), want, "with container %s", id)
		check.Equal(t, OfLife(&v1.PodStatus{InitContainerStatuses: list}, rp, 2), want, "with init container %s", id)
	}
}

func TestNextLife(t *testing.T) {
	for _, c := range []struct {
		name              string
		next, first, want uint32
	}{
		{"as the pod's actor said", 3, 0, 3},
		{"nothing was said, in the first life", 0, 0, 1},
		{"nothing was said, in a later life", 0, 4, 5},
	} {
		check.Equal(t, NextLife(c.next, c.first), c.want, "%s", c.name)
	}
}

func TestEarlierStatus(t *testing.T) {
	if EarlierStatus(nil, nil) != nil {
		t.Error("a status of nothing")
	}
	old := v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: 1}}
	dead := v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: 2}}
	mains := []v1.ContainerStatus{
		{Name: "dead", State: dead, LastTerminationState: old, RestartCount: 3, Ready: true, ContainerID: "c1"},
		{Name: "never ended again", State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}, LastTerminationState: old},
	}
	s := EarlierStatus([]v1.ContainerStatus{{Name: "init"}}, mains)
	if len(s.InitContainerStatuses) != 1 || len(s.ContainerStatuses) != 2 {
		t.Fatalf("%+v", s)
	}
	c := s.ContainerStatuses[0]
	if c.RestartCount != 3 || c.ContainerID != "c1" || c.LastTerminationState != dead || c.State != (v1.ContainerState{}) || c.Ready {
		t.Errorf("a container that has ended: %+v", c)
	}
	if c = s.ContainerStatuses[1]; c.LastTerminationState != old || c.State.Running != nil {
		t.Errorf("a container that ran: %+v", c)
	}
	check.Equal(t, mains[0].State, dead, "the argument was changed")
}

func TestBegunSince(t *testing.T) {
	rp := running(made("a"), 0)
	for _, c := range []struct {
		name  string
		rp    observed.RuntimePod
		since time.Duration
		want  bool
	}{
		{"its sandbox is older than the stop", rp, time.Second, false},
		{"its sandbox is as old as the stop", rp, 0, false},
		{"its sandbox was made after the stop", rp, -time.Second, true},
		{"nothing of it runs", observed.RuntimePod{}, -time.Second, false},
	} {
		check.Equal(t, BegunSince(c.rp, now.Add(c.since)), c.want, "%s", c.name)
	}
}

// TestOver: what has ended for good of a static pod, and how that counts beside its earlier life.
func TestOver(t *testing.T) {
	p := made("a")
	p.Spec = v1.PodSpec{RestartPolicy: v1.RestartPolicyOnFailure, Containers: []v1.Container{{Name: "done"}, {Name: "failed"}, {Name: "unseen"}, {Name: "runs"}}}
	ended := func(code int32, reason string) v1.ContainerState {
		return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: code, Reason: reason}}
	}
	s := &v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{
		{Name: "done", State: ended(0, "Completed"), RestartCount: 2}, {Name: "failed", State: ended(1, "Error")},
		{Name: "unseen", State: ended(0, podspec.StatusUnknown)}, {Name: "runs", State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}},
		{Name: "not in the spec", State: ended(0, "")},
	}}
	over := Over(p, s)
	if len(over) != 1 || over[0].Name != "done" || len(Over(p, nil)) != 0 {
		t.Fatalf("%+v", over)
	}
	if WithOver(nil, nil) != nil || len(WithOver(nil, over).ContainerStatuses) != 1 {
		t.Error("without an earlier life")
	}
	earlier := EarlierStatus(nil, []v1.ContainerStatus{{Name: "done", RestartCount: 1}, {Name: "runs", RestartCount: 7}})
	both := WithOver(earlier, over)
	if len(both.ContainerStatuses) != 2 || both.ContainerStatuses[0].RestartCount != 7 || both.ContainerStatuses[1].State != over[0].State {
		t.Errorf("with an earlier life: %+v", both)
	}
	if len(earlier.ContainerStatuses) != 2 || earlier.ContainerStatuses[0].Name != "done" || len(Over(p, EarlierStatus(nil, both.ContainerStatuses))) != 0 {
		t.Errorf("the earlier one was changed, or counts: %+v", earlier)
	}
}
