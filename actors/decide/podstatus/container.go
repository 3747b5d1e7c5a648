package podstatus

import (
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/troupe-dev/troupe/actors/decide/devicestate"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podplan"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/smallmap"
)

// container returns the status of one container of the spec. old is its last shown status; nil for
// none.
func (c *computer) container(ct *v1.Container, kind podspec.Kind, old *v1.ContainerStatus) v1.ContainerStatus {
	known := old != nil
	if !known {
		old = &v1.ContainerStatus{}
	}
	n, before := c.newest(ct.Name)
	if n != nil && known && c.outdated(n, old) {
		n = nil // the newest one was removed, and this is an earlier one
	}
	if n == nil && !c.in.Plan.Known && known {
		return c.unseen(ct, old)
	}
	s := v1.ContainerStatus{
		Name: ct.Name, Image: ct.Image,
		RestartCount: old.RestartCount, LastTerminationState: old.LastTerminationState,
		VolumeMounts: volumeMounts(ct, n, old), User: old.User, StopSignal: old.StopSignal,
	}
	if n == nil {
		c.absent(&s, ct, kind, old)
	} else {
		c.present(&s, ct, n, before, old)
	}
	s.AllocatedResourcesStatus = devicestate.HealthAfter(devicestate.HealthAfter(old.AllocatedResourcesStatus,
		c.in.Plan.Placement.HealthOf(ct.Name)), c.in.Plan.Claims.HealthOf(ct.Name))
	c.waiting(&s, n, old)
	c.health(&s, ct, kind, n, old)
	return s
}

// absent fills the status of a container that the runtime does not have: it was never made, or was
// removed.
func (c *computer) absent(s *v1.ContainerStatus, ct *v1.Container, kind podspec.Kind, old *v1.ContainerStatus) {
	_, waits := c.waitingOf(ct.Name)
	switch {
	case old.State.Terminated != nil:
		*s = *old
	case kind == podspec.Init && !waits && c.mainMade() && succeeded(old.LastTerminationState.Terminated):
		*s = *old
		s.State, s.LastTerminationState = old.LastTerminationState, v1.ContainerState{}
		if id := s.State.Terminated.ContainerID; id != "" {
			s.ContainerID = id
		}
	case kind == podspec.Init && !waits && c.mainMade():
		c.presume(s, old)
	case old.State.Running != nil && kind == podspec.Ephemeral: // it runs once
		*s = *old
		s.State = keep(old, lost(old, notInRuntime))
	case old.State.Running != nil:
		*s = *old
		s.State = c.defaultWaiting(old)
		s.LastTerminationState.Terminated = lost(old, wasRunning)
		if c.pod.DeletionTimestamp == nil {
			s.RestartCount++
		}
	case old.ContainerID != "":
		*s = *old // it ended, was removed, and waits to be made again
		s.State = c.defaultWaiting(old)
	default:
		s.State = c.defaultWaiting(old)
	}
}

// presume shows a missing init container as succeeded, because a later container was made.
func (c *computer) presume(s, old *v1.ContainerStatus) {
	t := &v1.ContainerStateTerminated{
		Reason: "Completed",
		Message: "Unable to get init container status from container runtime and pod has been initialized, " +
			"treat it as exited normally", // a kubelet's, word for word
	}
	if old.ContainerID != "" {
		*s = *old
		t.ContainerID = old.ContainerID
		if l := endOf(old, old.ContainerID); l != nil {
			t.StartedAt = l.StartedAt
			s.LastTerminationState = v1.ContainerState{}
		} else if r := old.State.Running; r != nil {
			t.StartedAt = r.StartedAt
		}
	}
	s.State = keep(old, t)
}

func succeeded(t *v1.ContainerStateTerminated) bool { return t != nil && t.ExitCode == 0 }

// outdated says whether n is older than another incarnation that old knows.
func (c *computer) outdated(n *observed.Container, old *v1.ContainerStatus) bool {
	if n.State != observed.ContainerExited || c.isID(old.ContainerID, n.ID) ||
		int64(n.Attempt) >= int64(old.RestartCount) {
		return false
	}
	if r := old.State.Running; r != nil {
		return !n.CreatedAt.After(r.StartedAt.Time)
	}
	for _, t := range [...]*v1.ContainerStateTerminated{old.State.Terminated, old.LastTerminationState.Terminated} {
		if t != nil && !c.isID(t.ContainerID, n.ID) &&
			(!n.CreatedAt.After(t.StartedAt.Time) || !n.CreatedAt.After(t.FinishedAt.Time)) {
			return true
		}
	}
	return false
}

// mainMade says whether the runtime has a main container of the pod. Then the init containers were
// complete.
func (c *computer) mainMade() bool {
	for i := range c.pod.Spec.Containers {
		if n, _ := c.newest(c.pod.Spec.Containers[i].Name); n != nil {
			return true
		}
	}
	return false
}

// present fills the status of a container that the runtime has; n is its newest incarnation.
func (c *computer) present(
	s *v1.ContainerStatus, ct *v1.Container, n, before *observed.Container, old *v1.ContainerStatus,
) {
	s.ContainerID = c.containerID(n.ID, old)
	s.RestartCount = max(s.RestartCount, int32(min(n.Attempt, 1<<31-1)))
	s.Image, s.ImageID = n.Image, n.ImageRef
	same := old.ContainerID == s.ContainerID
	if same && old.ImageID != "" && (!n.Detailed || n.ImageRef == "") {
		s.Image, s.ImageID = old.Image, old.ImageID
	}
	if s.Image == "" {
		s.Image = ct.Image
	}
	s.User = userOf(n, old, same)
	s.Resources = c.resources(ct, n, old, same)
	s.AllocatedResources = ct.Resources.Requests
	s.State = c.state(ct, n, s.ContainerID, old)
	s.LastTerminationState = c.lastState(before, s.ContainerID, old)
}

// userOf is the user of a container's first process, as far as the runtime reports it (API
// ContainerStatus.user, KEP-3619). The kernel has IDs that an apiserver of v1.36 rejects, and the whole status with
// them: then none is shown.
func userOf(n *observed.Container, old *v1.ContainerStatus, same bool) *v1.ContainerUser {
	if same && (n.User == nil || old.User != nil && equalUsers(old.User.Linux, n.User)) {
		return old.User
	}
	outside := func(id int64) bool { return id < 0 || id > math.MaxInt32 }
	if u := n.User; u == nil || outside(u.UID) || outside(u.GID) || slices.ContainsFunc(u.SupplementalGroups, outside) {
		return nil
	}
	return &v1.ContainerUser{Linux: n.User}
}

// state is the state of the newest incarnation.
func (c *computer) state(
	ct *v1.Container, n *observed.Container, id string, old *v1.ContainerStatus,
) v1.ContainerState {
	dead := endOf(old, id)
	if dead != nil && n.State != observed.ContainerExited && dead.Reason != podspec.StatusUnknown {
		return keep(old, dead) // an ended container cannot live again, so this view is older
	}
	same := old.ContainerID == id
	switch n.State {
	case observed.ContainerCreated:
	case observed.ContainerRunning:
		shown := same && old.State.Running != nil // as by an agent that knew more
		if c.life() == podlife.Syncing && c.hookAhead(ct, n) && !shown {
			return c.hookWaits(n.ID, old)
		}
		return running(n, old, same)
	case observed.ContainerExited:
		switch {
		case n.Detailed:
			return keep(old, c.terminated(n, id, old))
		case dead != nil:
			return keep(old, dead)
		case same:
			return old.State // until its exit is read
		}
	case observed.ContainerUnknown:
		switch {
		case dead != nil:
			return keep(old, dead)
		case same && old.State.Running != nil:
			return keep(old, lost(old, notLocated))
		}
	}
	return c.defaultWaiting(old)
}

func running(n *observed.Container, old *v1.ContainerStatus, same bool) v1.ContainerState {
	if same && !n.Detailed && old.State.Running != nil {
		return old.State
	}
	at := n.StartedAt
	if at.IsZero() {
		at = n.CreatedAt
	}
	if r := old.State.Running; r != nil && r.StartedAt.Time.Equal(stamp(at).Time) {
		return old.State
	}
	return v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: stamp(at)}}
}

// lastState is how the previous incarnation ended.
func (c *computer) lastState(before *observed.Container, id string, old *v1.ContainerStatus) v1.ContainerState {
	best := old.LastTerminationState.Terminated
	if best != nil && best.ContainerID == id {
		best = nil
	}
	if t := old.State.Terminated; t != nil && old.ContainerID != id && t.ContainerID != id && old.ContainerID != "" {
		best = t
	}
	if old.State.Running != nil && old.ContainerID != id && old.ContainerID != "" && before == nil {
		best = lost(old, wasRunning) // it was replaced before anybody saw its end
	}
	if before != nil && before.Detailed {
		if best == nil || c.isID(best.ContainerID, before.ID) || !before.FinishedAt.Before(best.FinishedAt.Time) {
			best = c.terminated(before, "", old)
		}
	}
	if best == nil {
		return v1.ContainerState{}
	}
	if l := old.LastTerminationState.Terminated; l != nil && equalTerminated(l, best) {
		return old.LastTerminationState
	}
	return v1.ContainerState{Terminated: best}
}

// waitingOf is why a container waits, by the plan.
func (c *computer) waitingOf(name string) (podplan.Waiting, bool) {
	if len(c.in.Out.Waiting) <= smallmap.Few {
		return c.in.Out.Waiting.Get(name)
	}
	if c.waits == nil {
		c.waits = c.in.Out.Waiting.Index()
	}
	return c.waits(name)
}

// waiting fills why a container doesn't run, and makes its termination the last state. A container
// that was stopped to be restarted is shown as waiting as soon as it has ended: the apiserver lets
// no container leave the state Terminated unless its restart policy restarts it.
func (c *computer) waiting(s *v1.ContainerStatus, n *observed.Container, old *v1.ContainerStatus) {
	if c.life() != podlife.Syncing || s.State.Running != nil {
		return
	}
	w, ok := c.waitingOf(s.Name)
	if !ok && (s.State.Terminated == nil || n == nil || !c.in.Plan.EndedForRestart(n)) {
		return
	}
	if s.State.Terminated != nil {
		s.LastTerminationState = s.State
		if l := old.LastTerminationState.Terminated; l != nil && equalTerminated(l, s.State.Terminated) {
			s.LastTerminationState = old.LastTerminationState
		}
	}
	if !ok {
		s.State = c.defaultWaiting(old)
		return
	}
	s.State = waitingState(old, w.Reason, w.Message)
}

func (c *computer) defaultWaiting(old *v1.ContainerStatus) v1.ContainerState {
	if c.life() != podlife.Syncing && old.State.Waiting != nil {
		return old.State
	}
	return waitingState(old, podplan.DefaultReason(c.pod), "")
}

func waitingState(old *v1.ContainerStatus, reason, message string) v1.ContainerState {
	if w := old.State.Waiting; w != nil && w.Reason == reason && w.Message == message {
		return old.State
	}
	return v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: reason, Message: message}}
}

// fillUnknownTerminations completes the status of a pod when nothing of it is left. A container that waited in a crash
// loop has ended as it did last. One without a known termination gets the reason ContainerStatusUnknown.
func (c *computer) fillUnknownTerminations() {
	if c.initialized() {
		c.out.ContainerStatuses = closed(c.out.ContainerStatuses, len(c.out.ContainerStatuses))
	}
	inits := c.out.InitContainerStatuses
	n := min(1, len(inits))
	for i := len(inits) - 1; i > 0; i-- {
		if inits[i].State.Waiting == nil || inits[i].LastTerminationState.Terminated != nil {
			n = i + 1
			break
		}
	}
	c.out.InitContainerStatuses = closed(inits, n)
}

// closed returns list with a termination for each of the first n that has none.
func closed(list []v1.ContainerStatus, n int) []v1.ContainerStatus {
	owned := false
	for i := range n {
		if list[i].State.Terminated != nil {
			continue
		}
		if !owned {
			list, owned = append([]v1.ContainerStatus(nil), list...), true
		}
		s := &list[i]
		if l := s.LastTerminationState.Terminated; l != nil && s.State.Waiting != nil {
			// It waited to be made again, or was made and never started.
			s.State, s.LastTerminationState = s.LastTerminationState, v1.ContainerState{}
			if l.ContainerID != "" {
				s.ContainerID = l.ContainerID
			}
		} else {
			s.State = v1.ContainerState{Terminated: lost(s, notLocated)}
		}
		s.Ready, s.Started = false, ptr.To(false)
	}
	return list
}
