package podset

import (
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/smallmap"
)

// A pod that was removed from its source may return before it has ended: the upgrade of a control
// plane moves manifests away and back. A stop is never taken back, so the pod ends first. Then it
// begins another life under the same UID. Its containers count as never run, but keep their restart
// counts.
//
//	Running ──not wanted──► stopping ──Ended──► wanted? ──Returned──► Waiting
//	                                             └─no─► Collecting ──► wanted? ──Returned──► Waiting
//	                                                                    └─no─► (gone)

// Returns says whether a stopped pod begins another life.
func (e *Entry) Returns(round uint64) bool {
	if e.Removal == Kept || e.Wanted != round || e.DesiredAgain == nil {
		return false
	}
	p := e.DesiredAgain.Pod
	return e.DesiredAgain.Origin != podspec.API || p.DeletionTimestamp == nil && !podspec.Finished(p)
}

// Return begins another life of a pod that has stopped.
func (e *Entry) Return() {
	e.Pod, e.Origin, e.State = e.DesiredAgain.Pod, e.DesiredAgain.Origin, Next(e.State, Returned)
	e.Stops, e.DesiredAgain, e.Deleted = Stops{}, nil, time.Time{}
	e.Down, e.GivenUp, e.HasPreviousLife = false, false, true
}

// NextLife is the attempt number of the first sandbox of the next life. next is the number from the
// pod's actor, 0 for none; first is that of this life.
func NextLife(next, first uint32) uint32 { return max(next, first+1) }

// EarlierStatus is the part of the status of an earlier life that still counts: the restart counts
// and last terminations of its containers. It is nil if there is none.
func EarlierStatus(inits, mains []v1.ContainerStatus) *v1.PodStatus {
	if len(inits)+len(mains) == 0 {
		return nil
	}
	return &v1.PodStatus{InitContainerStatuses: Endings(inits), ContainerStatuses: Endings(mains)}
}

// Endings is the part of container statuses that counts in a later life of the pod.
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

// OfLife says whether a status is of the life that began with the sandbox of attempt first: it shows a container there.
// After a restore from a backup, an apiserver may show a pod as it was in the life before.
func OfLife(s *v1.PodStatus, rp observed.RuntimePod, first uint32) bool {
	return slices.ContainsFunc(rp.Sandboxes, func(box observed.Sandbox) bool {
		return box.Attempt >= first && slices.ContainsFunc(rp.Containers, func(c observed.Container) bool {
			shown := func(of v1.ContainerStatus) bool { return strings.HasSuffix(of.ContainerID, "://"+c.ID) }
			return c.SandboxID == box.ID &&
				(slices.ContainsFunc(s.ContainerStatuses, shown) || slices.ContainsFunc(s.InitContainerStatuses, shown))
		})
	})
}

// Over are the statuses of a pod's regular containers that have ended for good. A static pod has no other status
// than this agent's: without them, one whose record is removed from the runtime would run again after a restart of
// the agent.
func Over(p *v1.Pod, s *v1.PodStatus) (out []v1.ContainerStatus) {
	if s == nil {
		return nil
	}
	specs := smallmap.LookupIn(p.Spec.Containers, func(c *v1.Container) string { return c.Name })
	for i := range s.ContainerStatuses {
		of := &s.ContainerStatuses[i]
		if at := specs.Place(of.Name, i); at >= 0 && podspec.OverForGood(&p.Spec.Containers[at], p, of) {
			out = append(out, *of)
		}
	}
	return out
}

// WithOver is the status of a pod with those of containers that have ended for good in this life. s is nil if there is
// none.
func WithOver(s *v1.PodStatus, over []v1.ContainerStatus) *v1.PodStatus {
	if len(over) == 0 {
		return s
	}
	out := &v1.PodStatus{}
	if s != nil {
		out = s.DeepCopy()
	}
	ended := smallmap.LookupIn(over, func(o *v1.ContainerStatus) string { return o.Name })
	out.ContainerStatuses = slices.DeleteFunc(out.ContainerStatuses, func(s v1.ContainerStatus) bool {
		return ended.Get(s.Name) != nil
	})
	out.ContainerStatuses = append(out.ContainerStatuses, over...)
	return out
}

// BegunSince says whether a pod began again after it was asked to stop at since: another agent
// completed that stop, or could not record that it did.
func BegunSince(rp observed.RuntimePod, since time.Time) bool {
	s, ready := rp.ReadySandbox()
	return ready && s.CreatedAt.After(since)
}
