package simapi

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

// drawStatus draws a pod's status.
func drawStatus(t *rapid.T) v1.PodStatus {
	at := metav1.NewTime(epoch)
	s := v1.PodStatus{
		Phase:   rapid.SampledFrom([]v1.PodPhase{v1.PodPending, v1.PodRunning, v1.PodFailed}).Draw(t, "phase"),
		Message: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "message"), QOSClass: v1.PodQOSBestEffort,
	}
	if rapid.Bool().Draw(t, "started") {
		s.StartTime = &at
	}
	for _, i := range rapid.Permutation([]int{0, 1, 2, 3}).Draw(t, "conditions")[:rapid.IntRange(0, 4).Draw(t, "n")] {
		s.Conditions = append(s.Conditions, v1.PodCondition{
			Type: v1.PodConditionType(fmt.Sprint("c", i)), Status: rapid.SampledFrom([]v1.ConditionStatus{v1.ConditionTrue, v1.ConditionFalse}).Draw(t, "status"),
			Reason: rapid.SampledFrom([]string{"", "r"}).Draw(t, "reason"), LastTransitionTime: at,
		})
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "containers") {
		c := v1.ContainerStatus{Name: fmt.Sprint("k", i), RestartCount: int32(rapid.IntRange(0, 2).Draw(t, "restarts"))}
		switch rapid.IntRange(0, 2).Draw(t, "state") {
		case 0:
			c.State.Waiting = &v1.ContainerStateWaiting{Reason: "ContainerCreating"}
		case 1:
			c.State.Running, c.Ready = &v1.ContainerStateRunning{StartedAt: at}, true
		case 2:
			c.State.Terminated = &v1.ContainerStateTerminated{ExitCode: 3, FinishedAt: at}
			c.LastTerminationState.Terminated = c.State.Terminated
		}
		s.ContainerStatuses = append(s.ContainerStatuses, c)
	}
	for i := range rapid.IntRange(0, 2).Draw(t, "addresses") {
		s.PodIPs = append(s.PodIPs, v1.PodIP{IP: fmt.Sprint("10.0.0.", i)})
	}
	return s
}

// TestFastIsSlow: a patch from what is stored leads to what it was made of, the
// slow way as well as the fast one.
func TestFastIsSlow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := aPod("p", "n1")
		from, to := withStatus(p, drawStatus(t)), withStatus(p, drawStatus(t))
		got := check.Value(merge(from, port.APIPatch{Key: podKey("p"), From: from, To: to, Status: true}))(t)
		if got == nil {
			got = from
		}
		if !apiequality.Semantic.DeepEqual(got.(*v1.Pod).Status, to.Status) {
			t.Fatalf("from %+v\nto   %+v\ngot  %+v", from.Status, to.Status, got.(*v1.Pod).Status)
		}
	})
}
