package podstatus_test

import (
	"testing"
	"time"

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
	check.Equal(t, never.State.Terminated.Message, "The container could not be located when the pod was terminated", "its message")
}
