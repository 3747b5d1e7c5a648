package podset

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// A pod that is stopped because no source wants it may be wanted again before it has ended: the upgrade of
// a control plane moves manifests away and back. A stop is never taken back, so the pod ends first. Then it
// begins another life under the same UID: its containers count as never run, and their restart counts go on.
//
//	Running ──not wanted──► stopping ──Ended──► wanted? ──Returned──► Waiting
//	                                             └─no─► Collecting ──► wanted? ──Returned──► Waiting
//	                                                                    └─no─► (gone)

// Returns says whether a pod that has stopped begins another life.
func (e *Entry) Returns(round uint64) bool {
	if e.Removal == Kept || e.Wanted != round || e.Again == nil {
		return false
	}
	p := e.Again.Pod
	return e.Again.Origin != podspec.API || p.DeletionTimestamp == nil && !podspec.Finished(p)
}

// Return begins another life of a pod of which nothing runs.
func (e *Entry) Return() {
	e.Pod, e.Origin, e.State = e.Again.Pod, e.Again.Origin, Next(e.State, Returned)
	e.Stop, e.Again, e.Removal, e.Deleted, e.Earlier = nil, nil, Kept, time.Time{}, true
}

// NextLife is the attempt number of the first sandbox of another life: next is what the pod's actor said
// of it, if it said anything, and first that of this life.
func NextLife(next, first uint32) uint32 { return max(next, first+1) }

// EarlierStatus is all that counts of the status of a pod's earlier life: how often its containers were
// restarted, and how they ended last. nil if that is nothing.
func EarlierStatus(inits, mains []v1.ContainerStatus) *v1.PodStatus {
	if len(inits)+len(mains) == 0 {
		return nil
	}
	return &v1.PodStatus{InitContainerStatuses: Endings(inits), ContainerStatuses: Endings(mains)}
}

// Endings is what counts of containers in a later life of their pod.
func Endings(list []v1.ContainerStatus) []v1.ContainerStatus {
	out := slices.Clone(list)
	for i := range out {
		s := &out[i]
		last := s.LastTerminationState
		if s.State.Terminated != nil {
			last = s.State
		}
		*s = v1.ContainerStatus{
			Name: s.Name, ContainerID: s.ContainerID, Image: s.Image, ImageID: s.ImageID,
			RestartCount: s.RestartCount, LastTerminationState: last,
		}
	}
	return out
}

// BegunSince says whether a pod began again after it was asked to stop at since: another agent has ended
// that stop, or could not write down that it did.
func BegunSince(rp observed.RuntimePod, since time.Time) bool {
	s, ready := rp.ReadySandbox()
	return ready && s.CreatedAt.After(since)
}
