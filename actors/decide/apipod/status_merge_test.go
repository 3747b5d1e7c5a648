package apipod

import (
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/actors/decide/podstatus"
	"github.com/troupe-dev/troupe/tests/linear"
)

var writeStart = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func at(s int) metav1.Time { return metav1.Time{Time: writeStart.Add(time.Duration(s) * time.Second)} }

func runs(id string, restarts int32) v1.ContainerStatus {
	return v1.ContainerStatus{Name: "app", ContainerID: id, RestartCount: restarts, Ready: true,
		State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: at(1)}}}
}

func exited(id string, restarts int32) v1.ContainerStatus {
	return v1.ContainerStatus{Name: "app", ContainerID: id, RestartCount: restarts, State: end(id)}
}

// done is the end of a container that has completed.
func done(id string, restarts int32) v1.ContainerStatus {
	s := exited(id, restarts)
	s.State.Terminated.ExitCode = 0
	return s
}

func end(id string) v1.ContainerState {
	return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ContainerID: id, ExitCode: 1, FinishedAt: at(5)}}
}

func waits(reason string) v1.ContainerStatus {
	return v1.ContainerStatus{Name: "app", State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: reason}}}
}

func status(phase v1.PodPhase, list ...v1.ContainerStatus) *v1.PodStatus {
	return &v1.PodStatus{Phase: phase, ContainerStatuses: list}
}

func with(s *v1.PodStatus, c ...v1.PodCondition) *v1.PodStatus {
	s.Conditions = c
	return s
}

func observed(s *v1.PodStatus, generation int64) *v1.PodStatus {
	s.ObservedGeneration = generation
	return s
}

// has is a container with so many CPUs.
func has(c v1.ContainerStatus, cpu string) v1.ContainerStatus {
	c.AllocatedResources = v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}
	c.Resources = &v1.ResourceRequirements{Requests: c.AllocatedResources}
	return c
}

func condition(t v1.PodConditionType, s v1.ConditionStatus, since int) v1.PodCondition {
	return v1.PodCondition{Type: t, Status: s, LastTransitionTime: at(since)}
}

// TestMergeOfOneThatStartsOver: a pod with init containers is Pending again while they run in another sandbox, also
// where the apiserver lets none of them leave the state Terminated. A status that only does not know that it runs
// takes nothing back.
func TestMergeOfOneThatStartsOver(t *testing.T) {
	waiting, init := runs("b", 1), runs("i", 1)
	waiting.State, waiting.LastTerminationState = waits("PodInitializing").State, end("a")
	for name, c := range map[string]struct {
		policy v1.RestartPolicy
		want   *v1.PodStatus
		phase  v1.PodPhase
	}{
		"it starts over":              {v1.RestartPolicyAlways, status("Pending", waiting), v1.PodPending},
		"it starts over, of Never":    {v1.RestartPolicyNever, status("Pending", waiting), v1.PodPending},
		"nothing is known of its run": {v1.RestartPolicyAlways, status("Pending", waits("PodInitializing")), v1.PodRunning},
	} {
		object := &v1.Pod{Spec: v1.PodSpec{
			RestartPolicy: c.policy, InitContainers: []v1.Container{{Name: "app"}}, Containers: []v1.Container{{Name: "app"}},
		}}
		object.Status = *status("Running", runs("a", 0))
		object.Status.InitContainerStatuses = []v1.ContainerStatus{done("i", 0)}
		c.want.InitContainerStatuses = []v1.ContainerStatus{init}
		if got, _ := MergeStatus(object, c.want); got.Phase != c.phase {
			t.Errorf("%s: %s, want %s", name, got.Phase, c.phase)
		}
	}
}

// endedByNode is the condition of a pod that this node ends.
func endedByNode(at int) v1.PodCondition {
	c := condition(v1.DisruptionTarget, v1.ConditionTrue, at)
	c.Reason = v1.PodReasonTerminationByKubelet
	return c
}

func TestMerge(t *testing.T) {
	crashed := exited("a", 0)
	crashed.State, crashed.LastTerminationState = waits("CrashLoopBackOff").State, end("a")
	again := runs("b", 1)
	again.LastTerminationState = end("a")
	forgot := runs("b", 1)
	gate := condition("example.com/gate", v1.ConditionTrue, 3)
	for name, c := range map[string]struct{ have, want, merged *v1.PodStatus }{
		"nothing was said before": {status(""), status("Running", runs("a", 0)), status("Running", runs("a", 0))},
		"a terminal phase stays":  {status("Failed"), status("Running", runs("a", 0)), status("Failed", runs("a", 0))},
		"a running pod without init containers does not wait again": {
			status("Running", runs("a", 0)), status("Pending", crashed), status("Running", crashed),
		},
		"a running pod does not wait again": {
			status("Running", runs("a", 0)), status("Pending", waits("ContainerCreating")), status("Running", runs("a", 0)),
		},
		"a restart count does not fall": {status("Running", runs("c", 3)), status("Running", runs("b", 1)), status("Running", runs("b", 3))},
		"an end is not forgotten":       {status("Running", exited("a", 0)), status("Running", forgot), status("Running", again)},
		"nor when it waits":             {status("Running", exited("a", 0)), status("Running", waits("ContainerCreating")), status("Running", exited("a", 0))},
		"the dead stay dead":            {status("Running", exited("a", 0)), status("Running", runs("a", 0)), status("Running", exited("a", 0))},
		"a crash loop is shown":         {status("Running", exited("a", 0)), status("Running", crashed), status("Running", crashed)},
		"nor does one leave the end that its policy does not restart": {status("Running", done("a", 0)), status("Running", runs("b", 1)), status("Running", done("a", 0))},
		"it ends again":               {status("Running", done("a", 0)), status("Running", done("b", 1)), status("Running", done("b", 1))},
		"what has no say in it stays": {status("Running", runs("a", 0)), status("Failed"), status("Failed", runs("a", 0))},
		"others' conditions are theirs": {
			with(status("Running"), gate), with(status("Running"), condition(gate.Type, v1.ConditionFalse, 1), condition(v1.PodReady, v1.ConditionTrue, 4)),
			with(status("Running"), gate, condition(v1.PodReady, v1.ConditionTrue, 4)),
		},
		"what others removed stays away": {
			with(status("Running")), with(status("Running"), gate), with(status("Running")),
		},
		"a transition that was known is when it was": {
			with(status("Running"), condition(v1.PodReady, v1.ConditionTrue, 2)), with(status("Running"), condition(v1.PodReady, v1.ConditionTrue, 9)),
			with(status("Running"), condition(v1.PodReady, v1.ConditionTrue, 2)),
		},
		"another transition is another": {
			with(status("Running"), condition(v1.PodReady, v1.ConditionTrue, 2)), with(status("Running"), condition(v1.PodReady, v1.ConditionFalse, 9)),
			with(status("Running"), condition(v1.PodReady, v1.ConditionFalse, 9)),
		},
		"a resize that is over": {
			with(status("Running"), condition(v1.PodReady, v1.ConditionTrue, 2), condition(v1.PodResizePending, v1.ConditionTrue, 3), condition(v1.PodResizeInProgress, v1.ConditionTrue, 4)),
			with(status("Running"), condition(v1.PodReady, v1.ConditionTrue, 2), condition(v1.PodResizeInProgress, v1.ConditionTrue, 4)),
			with(status("Running"), condition(v1.PodReady, v1.ConditionTrue, 2), condition(v1.PodResizeInProgress, v1.ConditionTrue, 4)),
		},
		"a resize of which an older status does not know": {
			observed(with(status("Running"), condition(v1.PodReady, v1.ConditionTrue, 2), condition(v1.PodResizePending, v1.ConditionTrue, 3)), 2),
			observed(with(status("Running"), condition(v1.PodReady, v1.ConditionTrue, 2)), 1),
			observed(with(status("Running"), condition(v1.PodReady, v1.ConditionTrue, 2), condition(v1.PodResizePending, v1.ConditionTrue, 3)), 2),
		},
		"a resize of one of which more was known": {
			status("Running", has(exited("a", 0), "1")), status("Running", has(waits("ContainerCreating"), "2")), status("Running", has(exited("a", 0), "2")),
		},
		"this node disrupts, others had given up": {
			with(status("Running"), condition(v1.DisruptionTarget, v1.ConditionFalse, 1)), with(status("Failed"), endedByNode(2)),
			with(status("Failed"), endedByNode(2)),
		},
		"this node disrupts": {
			with(status("Running")), with(status("Failed"), condition(v1.DisruptionTarget, v1.ConditionTrue, 2)),
			with(status("Failed"), condition(v1.DisruptionTarget, v1.ConditionTrue, 2)),
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := c.have.DeepCopy()
			spec := v1.PodSpec{RestartPolicy: v1.RestartPolicyOnFailure, Containers: []v1.Container{{Name: "app"}}}
			got, differs := MergeStatus(&v1.Pod{Spec: spec, Status: *c.have}, c.want)
			if !apiequality.Semantic.DeepEqual(&got, c.merged) {
				t.Errorf("got  %+v\nwant %+v", got, *c.merged)
			}
			if differs == apiequality.Semantic.DeepEqual(&got, c.have) {
				t.Errorf("differs is %v", differs)
			}
			if !apiequality.Semantic.DeepEqual(before, c.have) {
				t.Errorf("the object was changed")
			}
		})
	}
}

// Where nobody else has conditions, pod and object share one list: there are as
// many as pods.
func TestMergeSharesConditions(t *testing.T) {
	have := with(status("Pending"), condition(v1.PodScheduled, v1.ConditionTrue, 1))
	want := with(status("Running"), condition(v1.PodReady, v1.ConditionTrue, 4), condition(v1.PodScheduled, v1.ConditionTrue, 1))
	got, _ := MergeStatus(&v1.Pod{Status: *have}, want)
	if &got.Conditions[0] != &want.Conditions[0] {
		t.Errorf("%+v is another list than %+v", got.Conditions, want.Conditions)
	}
	have.Conditions = append(have.Conditions, condition("example.com/gate", v1.ConditionTrue, 2))
	got, _ = MergeStatus(&v1.Pod{Status: *have}, want)
	if len(got.Conditions) != 3 || got.Conditions[0].Type != v1.PodScheduled {
		t.Errorf("%+v", got.Conditions)
	}
}

func anyStatus(rt *rapid.T, label string) *v1.PodStatus {
	draw := func(n int, what string) int { return rapid.IntRange(0, n).Draw(rt, label+" "+what) }
	s := &v1.PodStatus{
		Phase:              rapid.SampledFrom([]v1.PodPhase{"", "Pending", "Running", "Succeeded", "Failed"}).Draw(rt, label+" phase"),
		ObservedGeneration: int64(draw(2, "generation")),
	}
	if draw(1, "start") == 1 {
		t := at(draw(2, "start time"))
		s.StartTime = &t
	}
	if draw(1, "ip") == 1 {
		s.PodIP, s.PodIPs = "10.0.0.1", []v1.PodIP{{IP: "10.0.0.1"}}
	}
	for _, name := range []string{"app", "log"} {
		if draw(5, name) == 0 {
			continue
		}
		c := v1.ContainerStatus{Name: name, RestartCount: int32(draw(2, "restarts"))}
		ids := []string{"", "a", "b"}
		c.ContainerID = ids[draw(2, "id")]
		switch draw(2, "state") {
		case 0:
			c.State = waits("ContainerCreating").State
		case 1:
			c.State = runs("", 0).State
		case 2:
			c.State = end(c.ContainerID)
		}
		if draw(2, "last") == 0 {
			c.LastTerminationState = end("z")
		}
		s.ContainerStatuses = append(s.ContainerStatuses, c)
	}
	for _, kind := range []v1.PodConditionType{v1.PodReady, "example.com/gate", v1.DisruptionTarget, v1.PodScheduled} {
		if draw(1, string(kind)) == 1 {
			st := v1.ConditionTrue
			if draw(1, "false") == 1 {
				st = v1.ConditionFalse
			}
			s.Conditions = append(s.Conditions, condition(kind, st, draw(3, "since")))
		}
	}
	return s
}

// TestMergeNeverTakesBack: whatever this node has to say, nothing that was
// acknowledged is taken back, a second merge has nothing to add, and what others
// own is as it was.
func TestMergeNeverTakesBack(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		have, want := anyStatus(rt, "have"), anyStatus(rt, "want")
		pod := &v1.Pod{Status: *have}
		got, _ := MergeStatus(pod, want)
		if why := podstatus.Backwards(pod, have, &got); why != "" {
			rt.Fatalf("%s\nhave %+v\nwant %+v\ngot  %+v", why, *have, *want, got)
		}
		if again, differs := MergeStatus(&v1.Pod{Status: got}, want); differs {
			rt.Fatalf("it never ends\nfirst  %+v\nsecond %+v", got, again)
		}
		for _, list := range [][2][]v1.PodCondition{{have.Conditions, got.Conditions}, {got.Conditions, have.Conditions}} {
			for i := range list[0] {
				if c := &list[0][i]; c.Type == "example.com/gate" && find(list[1], c.Type) != *c {
					rt.Fatalf("another's condition was touched: %+v", *c)
				}
			}
		}
	})
}

func find(list []v1.PodCondition, t v1.PodConditionType) v1.PodCondition {
	for _, c := range list {
		if c.Type == t {
			return c
		}
	}
	return v1.PodCondition{}
}

// TestMergeOfMany: its cost grows with the lists, also where the two have other orders.
func TestMergeOfMany(t *testing.T) {
	for name, turn := range map[string]bool{"in one order": false, "in another": true} {
		t.Run(name, func(t *testing.T) {
			linear.Held(t, 2000, func(n int) func() {
				object := &v1.Pod{Spec: v1.PodSpec{RestartPolicy: v1.RestartPolicyNever}}
				want := &v1.PodStatus{Phase: v1.PodRunning}
				for i := range n {
					c, gate := done("a", 0), condition(v1.PodConditionType(fmt.Sprint("example.com/", i)), v1.ConditionTrue, 1)
					c.Name = fmt.Sprint(i)
					object.Spec.Containers = append(object.Spec.Containers, v1.Container{Name: c.Name})
					object.Status.ContainerStatuses = append(object.Status.ContainerStatuses, c)
					object.Status.Conditions = append(object.Status.Conditions, gate)
					again := runs("b", 1)
					again.Name = c.Name
					want.ContainerStatuses = append(want.ContainerStatuses, again)
					want.Conditions = append(want.Conditions, gate)
				}
				if turn {
					slices.Reverse(want.ContainerStatuses)
					slices.Reverse(want.Conditions)
				}
				return func() { MergeStatus(object, want) }
			})
		})
	}
}
