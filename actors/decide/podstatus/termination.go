package podstatus

import (
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

const (
	// lostExitCode stands for an unknown exit code.
	lostExitCode = 137
	// maxMessages bounds the termination messages of all containers of a pod together, in bytes.
	maxMessages = 12 * 1024
	// notInRuntime is the message of a container whose record is gone.
	notInRuntime = "The container no longer exists in the runtime: its exit code is not known"
	// wasRunning is that of one that ran and is to be made again, and notLocated that of a container that did not exist
	// when its pod had ended. Users search for these words, which are the kubelet's.
	wasRunning = "The container could not be located when the pod was deleted.  The container used to be Running"
	notLocated = "The container could not be located when the pod was terminated"
)

// lost is the termination of a container that old shows and that is gone.
func lost(old *v1.ContainerStatus, message string) *v1.ContainerStateTerminated {
	t := &v1.ContainerStateTerminated{
		ExitCode: lostExitCode, Reason: podspec.StatusUnknown, Message: message, ContainerID: old.ContainerID,
	}
	if r := old.State.Running; r != nil {
		t.StartedAt = r.StartedAt
	}
	return t
}

// terminated is the termination of n; old's if it is equal. id is empty if n was not made yet.
func (c *computer) terminated(n *observed.Container, id string, old *v1.ContainerStatus) *v1.ContainerStateTerminated {
	reason := n.Reason
	switch {
	case reason != "":
	case n.ExitCode == 0:
		reason = "Completed"
	default:
		reason = "Error"
	}
	message := podspec.Share(&c.pod.Spec, n.Message, maxMessages, maxMessages)
	started, finished := stamp(n.StartedAt), stamp(n.FinishedAt)
	for _, t := range [...]*v1.ContainerStateTerminated{old.State.Terminated, old.LastTerminationState.Terminated} {
		if t != nil && c.isID(t.ContainerID, n.ID) && t.ExitCode == n.ExitCode && t.Reason == reason &&
			t.Message == message &&
			t.StartedAt.Equal(&started) && t.FinishedAt.Equal(&finished) {
			return t
		}
	}
	if id == "" {
		id = c.containerID(n.ID, nil)
	}
	return &v1.ContainerStateTerminated{
		ExitCode: n.ExitCode, Reason: reason, Message: message,
		StartedAt: started, FinishedAt: finished, ContainerID: id,
	}
}

// endOf is the termination of the container with this ID, if old has it.
func endOf(old *v1.ContainerStatus, id string) *v1.ContainerStateTerminated {
	if t := old.State.Terminated; t != nil && (t.ContainerID == id || t.ContainerID == "" && old.ContainerID == id) {
		return t
	}
	if t := old.LastTerminationState.Terminated; t != nil && t.ContainerID == id {
		return t
	}
	return nil
}

// keep returns t as a state, reusing old's if it is equal.
func keep(old *v1.ContainerStatus, t *v1.ContainerStateTerminated) v1.ContainerState {
	if o := old.State.Terminated; o != nil && (o == t || equalTerminated(o, t)) {
		return old.State
	}
	return v1.ContainerState{Terminated: t}
}

// containerID is the ID in the API's form; old's string if it is equal.
func (c *computer) containerID(id string, old *v1.ContainerStatus) string {
	if old != nil && c.isID(old.ContainerID, id) {
		return old.ContainerID
	}
	return c.in.RuntimeName + "://" + id
}

// isID says whether s is id in the API's form.
func (c *computer) isID(s, id string) bool {
	name := c.in.RuntimeName
	return len(s) == len(name)+len("://")+len(id) && s[:len(name)] == name && s[len(name)+len("://"):] == id
}
