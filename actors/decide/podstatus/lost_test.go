package podstatus_test

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podstatus"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestLostMessages: what is said of a container that the runtime does not have is what people search for.
func TestLostMessages(t *testing.T) {
	gone := lastOf(steps{func(*podstatus.Input) {}, containers()}).ContainerStatuses[0]
	check.Equal(t, state(&gone.State), "waits ContainerCreating", "one that was removed")
	check.Equal(t, gone.LastTerminationState.Terminated.Message, "The container could not be located when the pod was deleted.  "+
		"The container used to be Running", "its message")
	ends := ending(podlife.Stop{At: noon, Grace: 30 * time.Second})
	never := lastOf(steps{containers(), all(ends, sandboxDown, terminated)}).ContainerStatuses[0]
	check.Equal(t, state(&never.State), "ended 137 ContainerStatusUnknown", "one that never was")
	unknown := lastOf(steps{func(*podstatus.Input) {}, func(in *podstatus.Input) { in.Plan.View.Containers[0].State = observed.ContainerUnknown }})
	check.Equal(t, unknown.ContainerStatuses[0].LastTerminationState.Terminated.Message, never.State.Terminated.Message, "the message of one of unknown state")
	check.Equal(t, never.State.Terminated.Message, "The container could not be located when the pod was terminated", "its message")
}

// TestLostAndReplaced: of a container that ran, was removed and made anew between two views, the status still says that
// it ran. Otherwise its pod, which was Running, would be Pending.
func TestLostAndReplaced(t *testing.T) {
	other := func(in *podstatus.Input) {
		c := &in.Plan.View.Containers[0]
		c.ID, c.State = c.ID+"-other", observed.ContainerCreated
		in.Plan.View.Containers = in.Plan.View.Containers[:1]
	}
	s := lastOf(steps{func(*podstatus.Input) {}, other})
	a := &s.ContainerStatuses[0]
	check.Equal(t, s.Phase, v1.PodRunning, "the phase")
	check.Equal(t, state(&a.State), "waits ContainerCreating", "the new one")
	check.Equal(t, a.LastTerminationState.Terminated.Reason, "ContainerStatusUnknown", "the end of the one before")
}
