package apipod

import (
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/podstatus"
	"github.com/troupe-dev/troupe/actors/smallmap"
)

// Coalesce is the minimum time between two writes of one pod, unless the status
// has a change that others wait for. A status of a pod that is being deleted is
// delayed by Coalesce too, because a later status soon supersedes it. A status
// that only acknowledges the deletion is delayed by CoalesceSeen: within that
// time a container of most pods terminates.
//
// A status with many containers is large, and each of them changes it a few times. So it takes its
// time: CoalesceEach for each, and at most CoalesceMost.
const (
	Coalesce     = 100 * time.Millisecond
	CoalesceSeen = time.Second
	CoalesceEach = 2500 * time.Microsecond
	CoalesceMost = time.Second
)

func coalesce(s *v1.PodStatus) time.Duration {
	return max(Coalesce, min(time.Duration(containersOf(s))*CoalesceEach, CoalesceMost))
}

func containersOf(s *v1.PodStatus) int {
	return len(s.InitContainerStatuses) + len(s.ContainerStatuses) + len(s.EphemeralContainerStatuses)
}

// Gathered says that a status that replaces another one need not be looked at: of a pod with many
// containers there will be a look at until anyway, which is soon enough for what is new in it.
func Gathered(object *v1.Pod, next *v1.PodStatus, now, until time.Time) bool {
	return containersOf(next) > smallmap.Few && object != nil && !Urgent(&object.Status, next) &&
		until.After(now) && until.Sub(now) <= coalesce(next)
}

// Under write load, patches that only report progress are delayed, because a later
// patch supersedes them. They are checked again every Relook, and delayed by at
// most Hold. ContainerCreating is visible in kubectl get, so it is delayed only if
// WriteInput.Crowded, by at most HoldShown: as soon as the events of the pod.
//
// A status of a pod that is being deleted is delayed by at most HoldEnd: it says
// that the pod is not ready, which a client may wait for. A status that only
// acknowledges the deletion is delayed by HoldSeen, the default grace period, in
// which most pods terminate.
const (
	Hold      = 5 * time.Second
	HoldShown = 2 * time.Second
	HoldEnd   = 2 * time.Second
	HoldSeen  = 30 * time.Second
	Relook    = time.Second
)

// MostRejected is how often the last status of a pod may be rejected as invalid before the pod is deleted
// without it: after half a minute of the actor's backoff. From the first time on only its phase is written,
// which controllers wait for. Whatever else is in the status must not keep the pod for ever.
const MostRejected = 7

// WriteInput is everything known about one pod.
type WriteInput struct {
	Now time.Time
	// Object is the newest known version of the pod in the apiserver, nil if it does
	// not exist or is unknown. For a static pod it is the mirror pod.
	Object *v1.Pod
	// Unread: the apiserver may have a newer version, and no watch will deliver it.
	Unread bool
	// Want is the status computed by this node; nil if there is none yet.
	Want *v1.PodStatus
	// Settled: Want was written against Object, and no other client has changed
	// Object since. A remaining difference is one that the apiserver does not keep.
	Settled bool
	// Final: the pod is being deleted, nothing of it is left on this node, and Want
	// is its last status.
	Final bool
	// Rejected is how often in succession the apiserver has rejected the last status as invalid.
	Rejected uint8
	// Deleted: the apiserver acknowledged the DeletePod of this node.
	Deleted bool
	// Busy: there is write load on the apiserver. Crowded: there is so much that
	// ContainerCreating is delayed too.
	Busy, Crowded bool
	// Changed is when Want first differed from what was written (see Renews). LastWrite is when the
	// last write was begun, RetryAt when one may be tried again after a failure. Zero means never.
	Changed, LastWrite, RetryAt time.Time
}

// WriteVerb is what to do now.
type WriteVerb uint8

const (
	// Rest: nothing, until something changes.
	Rest WriteVerb = iota
	// Wait: nothing, until WriteStep.Until.
	Wait
	// Read the object from the apiserver.
	Read
	// Write WriteStep.Status.
	Write
	// Delete the object, with a grace period of 0.
	Delete
	// Replace the object, a mirror, by a new one: the phase of one API object never goes back.
	Replace
)

func (v WriteVerb) String() string {
	if v > Replace {
		return fmt.Sprintf("Verb(%d)", uint8(v))
	}
	return [...]string{"Rest", "Wait", "Read", "Write", "Delete", "Replace"}[v]
}

// WriteStep is what to do now.
type WriteStep struct {
	Do     WriteVerb
	Until  time.Time
	Status v1.PodStatus
}

// NextWrite decides what to do for a pod without a call under way.
//
//	no computed status, or no object ───────────────────► Rest
//	the object may have changed ────────────────────────► Read
//	this node has deleted it ───────────────────────────► Rest
//	a mirror has ended, and its static pod runs ────────► Replace
//	its status differs from the computed one ───────────► Write, if it is worth it; only the phase of a last
//	                                                      status that was rejected, and not for ever
//	its status is final, and nothing is left ───────────► Delete
func NextWrite(in WriteInput) WriteStep {
	if in.Object == nil || in.Want == nil || in.Deleted && !in.Unread {
		return WriteStep{}
	}
	if in.Unread {
		return in.after(in.RetryAt, WriteStep{Do: Read})
	}
	if podspec.Mirror(in.Object) && podspec.Finished(in.Object) && !podspec.Terminal(in.Want.Phase) {
		return WriteStep{Do: Replace} // MergeStatus would show it as Failed and ready
	}
	status, differs := MergeStatus(in.Object, in.Want)
	if in.Final && in.Rejected > 0 {
		status, differs = onlyPhase(in.Object, in.Want)
		differs = differs && in.Rejected < MostRejected
	}
	if differs && !in.Settled && (in.Final || !passing(&in.Object.Status, &status)) {
		at := in.RetryAt
		if soon := in.coalesced(&status); soon.After(at) {
			at = soon
		}
		return in.after(at, WriteStep{Do: Write, Status: status})
	}
	if in.Final {
		return in.after(in.RetryAt, WriteStep{Do: Delete})
	}
	return WriteStep{}
}

// onlyPhase is the status of object with the phase of want, and whether that is another one.
func onlyPhase(object *v1.Pod, want *v1.PodStatus) (v1.PodStatus, bool) {
	out := object.Status
	if !podspec.Terminal(out.Phase) {
		out.Phase = want.Phase
	}
	return out, out.Phase != object.Status.Phase
}

// coalesced is until when a write waits for the next change, to be sent together with it. Of a pod
// that is being deleted, clients wait only for the end, which comes soon.
func (in *WriteInput) coalesced(next *v1.PodStatus) time.Time {
	since, wait := in.LastWrite, coalesce(next)
	switch {
	case in.Final:
		return time.Time{}
	case in.Object.DeletionTimestamp != nil:
		most := HoldEnd
		if onlySeen(&in.Object.Status, next) {
			most, wait = HoldSeen, CoalesceSeen
		}
		if in.holds(most) {
			return earlier(in.Changed.Add(most), in.Now.Add(Relook))
		}
		since = in.Changed
	case Urgent(&in.Object.Status, next):
		return time.Time{}
	case in.Busy:
		if most := in.holdOnItsWay(next); in.holds(most) {
			return earlier(in.Changed.Add(most), in.Now.Add(Relook))
		}
	}
	if since.IsZero() || since.After(in.Now) { // the clock was set back
		return time.Time{}
	}
	return since.Add(wait)
}

// holdOnItsWay is how long the status of a pod that has not started yet may wait; 0 if it says more
// than that, or must not wait.
func (in *WriteInput) holdOnItsWay(next *v1.PodStatus) time.Duration {
	switch {
	case !onItsWay(next):
		return 0
	case sameShown(&in.Object.Status, next):
		return Hold
	case in.Crowded:
		return HoldShown
	}
	return 0
}

// holds says whether a write that may wait for most must still wait.
func (in *WriteInput) holds(most time.Duration) bool {
	return in.Busy && in.Now.Before(in.Changed.Add(most)) && !in.Changed.After(in.Now)
}

// Renews says whether next, which replaces want before want was written, counts as changed now.
// That is so if want only acknowledged the deletion of the pod.
func Renews(object *v1.Pod, want, next *v1.PodStatus) bool {
	return object != nil && object.DeletionTimestamp != nil && want != nil &&
		onlySeen(&object.Status, want) && !onlySeen(&object.Status, next)
}

// onlySeen says whether next differs from have only in its generation. For a pod that is being
// deleted, it only acknowledges the deletion.
func onlySeen(have, next *v1.PodStatus) bool {
	if have.ObservedGeneration >= next.ObservedGeneration {
		return false
	}
	out := *next
	out.ObservedGeneration = have.ObservedGeneration
	if len(have.Conditions) == len(next.Conditions) {
		out.Conditions = slices.Clone(next.Conditions)
		for i := range out.Conditions {
			out.Conditions[i].ObservedGeneration = have.Conditions[i].ObservedGeneration
		}
	}
	return podstatus.Equal(have, &out)
}

// sameShown says whether kubectl get shows the same for two statuses of a pod that has not started
// yet: the states of its containers.
func sameShown(have, next *v1.PodStatus) bool {
	for _, lists := range [...][2][]v1.ContainerStatus{
		{have.InitContainerStatuses, next.InitContainerStatuses}, {have.ContainerStatuses, next.ContainerStatuses},
	} {
		if !slices.EqualFunc(lists[0], lists[1], func(a, b v1.ContainerStatus) bool {
			return a.State.Waiting != nil && a.State.Waiting.Reason == b.State.Waiting.Reason
		}) {
			return false
		}
	}
	return true
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// onItsWay says whether a status only reports that nothing of the pod has run yet, without a reason
// or message.
func onItsWay(s *v1.PodStatus) bool {
	if s.Phase != v1.PodPending || s.Reason != "" || s.Message != "" {
		return false
	}
	for _, list := range [...][]v1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses,
		s.EphemeralContainerStatuses} {
		for i := range list {
			c := &list[i]
			if c.RestartCount > 0 || c.LastTerminationState.Terminated != nil {
				return false
			}
			w := c.State.Waiting
			if w == nil || w.Message != "" || w.Reason != "ContainerCreating" && w.Reason != "PodInitializing" {
				return false
			}
		}
	}
	return true
}

// after is s if at has come, and otherwise waits for it. An at later than MaxWait is from before
// the clock was set back.
func (in *WriteInput) after(at time.Time, s WriteStep) WriteStep {
	if !at.After(in.Now) || at.Sub(in.Now) > MaxWait {
		return s
	}
	return WriteStep{Do: Wait, Until: at}
}

// MaxWait bounds how far RetryAt may be ahead of Now.
const MaxWait = 5 * time.Minute

// passing says whether next differs from have only in passing details: what the runtime made of
// containers that have not started, or the first value of allocatedResources. They are written with
// the next real change: the containers run, or there is a reason why they don't. So an apiserver
// that does not keep allocatedResources does not get the same status again and again.
func passing(have, next *v1.PodStatus) bool {
	out := *next
	made := len(have.AllocatedResources) == 0 && len(next.AllocatedResources) > 0
	if made {
		out.AllocatedResources = have.AllocatedResources
	}
	for _, lists := range [...]struct {
		have []v1.ContainerStatus
		out  *[]v1.ContainerStatus
	}{{have.InitContainerStatuses, &out.InitContainerStatuses}, {have.ContainerStatuses, &out.ContainerStatuses}} {
		own := false
		for i := range *lists.out {
			n := &(*lists.out)[i]
			if i >= len(lists.have) || n.Name != lists.have[i].Name || n.State.Waiting == nil ||
				n.ContainerID == lists.have[i].ContainerID {
				continue
			}
			anew := over(&lists.have[i]) && n.State.Waiting.Reason == "ContainerCreating"
			if !anew && lists.have[i].ContainerID != "" {
				continue
			}
			if !own {
				*lists.out, own, made = slices.Clone(*lists.out), true, true
				n = &(*lists.out)[i]
			}
			h := &lists.have[i]
			if anew {
				*n = *h
				continue
			}
			n.ContainerID, n.ImageID, n.Image = h.ContainerID, h.ImageID, h.Image
			n.Resources, n.AllocatedResources = h.Resources, h.AllocatedResources
		}
	}
	return made && podstatus.Equal(have, &out)
}

// over says whether a container is known to have ended and waits for its restart.
func over(c *v1.ContainerStatus) bool {
	return c.State.Terminated != nil || c.State.Waiting != nil && c.State.Waiting.Reason == "CrashLoopBackOff"
}

// Urgent says whether clients wait for the change: of the phase or of readiness.
func Urgent(have, next *v1.PodStatus) bool {
	return have.Phase != next.Phase || podstatus.Ready(have) != podstatus.Ready(next)
}
