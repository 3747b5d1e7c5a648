package podstatus

import (
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
)

const (
	// statusUnknown is the reason of a termination that nobody saw.
	statusUnknown = "ContainerStatusUnknown"
	// lostExitCode stands for an exit code that nobody knows.
	lostExitCode = 137
	// maxMessages is how much text the messages of all containers of a pod
	// may have together, in bytes.
	maxMessages = 12 * 1024
)

// lost is the end of a container that was there, as old has it, and is gone.
func lost(old *v1.ContainerStatus, message string) *v1.ContainerStateTerminated {
	t := &v1.ContainerStateTerminated{
		ExitCode: lostExitCode, Reason: statusUnknown, Message: message, ContainerID: old.ContainerID,
	}
	if r := old.State.Running; r != nil {
		t.StartedAt = r.StartedAt
	}
	return t
}

// terminated is how n, with this ID if it was made already, ended; as old has
// it if old says the same.
func (c *computer) terminated(n *observed.Container, id string, old *v1.ContainerStatus) *v1.ContainerStateTerminated {
	reason := n.Reason
	switch {
	case reason != "":
	case n.ExitCode == 0:
		reason = "Completed"
	default:
		reason = "Error"
	}
	message, started, finished := c.cut(n.Message), stamp(n.StartedAt), stamp(n.FinishedAt)
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

// cut shortens a message to the share of one container.
func (c *computer) cut(s string) string {
	spec := &c.pod.Spec
	n := maxMessages / max(len(spec.Containers)+len(spec.InitContainers)+len(spec.EphemeralContainers), 1)
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// endOf is how the container with this ID ended, as far as old knows.
func endOf(old *v1.ContainerStatus, id string) *v1.ContainerStateTerminated {
	if t := old.State.Terminated; t != nil && (t.ContainerID == id || t.ContainerID == "" && old.ContainerID == id) {
		return t
	}
	if t := old.LastTerminationState.Terminated; t != nil && t.ContainerID == id {
		return t
	}
	return nil
}

// keep returns t as a state, the old one if it says the same.
func keep(old *v1.ContainerStatus, t *v1.ContainerStateTerminated) v1.ContainerState {
	if o := old.State.Terminated; o != nil && (o == t || equalTerminated(o, t)) {
		return old.State
	}
	return v1.ContainerState{Terminated: t}
}

// containerID is the ID as the API has it; old's string if it is the same.
func (c *computer) containerID(id string, old *v1.ContainerStatus) string {
	if old != nil && c.isID(old.ContainerID, id) {
		return old.ContainerID
	}
	return c.in.RuntimeName + "://" + id
}

// isID says whether s is id as the API has it.
func (c *computer) isID(s, id string) bool {
	name := c.in.RuntimeName
	return len(s) == len(name)+len("://")+len(id) && s[:len(name)] == name && s[len(name)+len("://"):] == id
}
