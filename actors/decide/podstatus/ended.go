package podstatus

import (
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// Ending is the end of a container. That of a sidecar has the kind Init.
type Ending struct {
	Kind   podspec.Kind
	Code   int32
	Reason string
}

// Ended are the ends of containers that a status of a pod has and the one before it had not: in the state, or in the
// last state of a container that was shown before. So that of a container which ends and runs again in between counts.
func Ended(before, after *v1.PodStatus) (out []Ending) {
	if before == nil || after == nil {
		return nil
	}
	for _, l := range [...]struct {
		kind     podspec.Kind
		old, now []v1.ContainerStatus
	}{
		{podspec.Init, before.InitContainerStatuses, after.InitContainerStatuses},
		{podspec.Main, before.ContainerStatuses, after.ContainerStatuses},
		{podspec.Ephemeral, before.EphemeralContainerStatuses, after.EphemeralContainerStatuses},
	} {
		olds := newStatusList(l.old)
		for i := range l.now {
			if t := newEnd(olds.old(l.now[i].Name, i), &l.now[i]); t != nil {
				out = append(out, Ending{l.kind, t.ExitCode, t.Reason})
			}
		}
	}
	return out
}

// newEnd is the newest termination that now has and old has not; nil if there is none.
func newEnd(old, now *v1.ContainerStatus) *v1.ContainerStateTerminated {
	t := now.State.Terminated
	if old == nil {
		return t
	}
	if t == nil {
		t = now.LastTerminationState.Terminated
	}
	if t == nil || endOf(old, t.ContainerID) != nil {
		return nil
	}
	return t
}
