package live

import (
	"cmp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// fromStatus is what the runtime of a node has of a pod, as the pod's status in the
// API tells it: that is all that is left when the process that ran it is gone.
//
//	status                                        runtime
//	running                                       running, with that ID, start and attempt
//	terminated                                    exited, likewise
//	waiting after a crash                         the last incarnation, exited
//	running or terminated, with one before        that one as well
//	waiting, never started                        nothing: it is started again
//
// The attempt is the restart count. What was created and not started is not in any
// status, and is lost. found is false if there is nothing.
func fromStatus(p *v1.Pod) (seen observed.RuntimePod, found bool) {
	ref := observed.PodRef{UID: p.UID, Namespace: p.Namespace, Name: p.Name}
	seen.Ref = ref
	for _, list := range [...][]v1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses,
		p.Status.EphemeralContainerStatuses} {
		for i := range list {
			seen.Containers = append(seen.Containers, incarnations(ref, &list[i])...)
		}
	}
	if len(seen.Containers) == 0 && p.Status.PodIP == "" {
		return seen, false
	}
	sandbox := observed.Sandbox{Pod: ref, State: observed.SandboxReady, HostNetwork: p.Spec.HostNetwork}
	if t := p.Status.StartTime; t != nil {
		sandbox.CreatedAt = t.Time
	} else {
		sandbox.CreatedAt = p.CreationTimestamp.Time
	}
	for _, ip := range p.Status.PodIPs {
		sandbox.IPs = append(sandbox.IPs, ip.IP)
	}
	if podspec.Finished(p) {
		sandbox.State = observed.SandboxNotReady
	}
	seen.Sandboxes = []observed.Sandbox{sandbox}
	seen.Sort()
	return seen, true
}

// incarnations are those of one container that its status tells of.
func incarnations(ref observed.PodRef, s *v1.ContainerStatus) (out []observed.Container) {
	attempt := uint32(max(0, s.RestartCount))
	newest := observed.Container{Pod: ref, Name: s.Name, Attempt: attempt, ImageRef: s.ImageID, ID: bareID(s.ContainerID)}
	switch {
	case s.State.Running != nil:
		newest.State, newest.StartedAt, newest.CreatedAt = observed.ContainerRunning, s.State.Running.StartedAt.Time,
			s.State.Running.StartedAt.Time
		out = append(out, newest)
	case s.State.Terminated != nil:
		out = append(out, exited(newest, s.State.Terminated))
	}
	last := s.LastTerminationState.Terminated
	if last == nil {
		return out
	}
	before := observed.Container{Pod: ref, Name: s.Name, Attempt: attempt, ImageRef: s.ImageID}
	if len(out) > 0 {
		if attempt == 0 {
			return out // not of this container: attempt 0 has no predecessor
		}
		before.Attempt--
	}
	return append(out, exited(before, last))
}

func exited(c observed.Container, t *v1.ContainerStateTerminated) observed.Container {
	c.State, c.ID = observed.ContainerExited, cmp.Or(bareID(t.ContainerID), c.ID)
	c.CreatedAt, c.StartedAt, c.FinishedAt = t.StartedAt.Time, t.StartedAt.Time, t.FinishedAt.Time
	c.ExitCode, c.Reason, c.Message = t.ExitCode, t.Reason, t.Message
	return c
}

// bareID is a container's ID without the name of its runtime.
func bareID(id string) string {
	if _, bare, ok := strings.Cut(id, "://"); ok {
		return bare
	}
	return id
}

// imagesOf are the names of the images that a node shows, by name.
func imagesOf(n *v1.Node) map[string]uint64 {
	out := map[string]uint64{}
	for i := range n.Status.Images {
		img := &n.Status.Images[i]
		// The last name is the one with a tag, where there is one.
		if names := img.Names; len(names) > 0 {
			at := slices.IndexFunc(names, func(s string) bool { return !strings.Contains(s, "@") })
			out[names[max(at, 0)]] = uint64(max(0, img.SizeBytes))
		}
	}
	return out
}
