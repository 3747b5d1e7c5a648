package podresize

import (
	"fmt"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/observed"
)

// Input compares the limits of a pod with its allocation.
type Input struct {
	Now time.Time
	// Own: the pod has its own cgroup. Want is its desired limits.
	Own  bool
	Want observed.Resources
	// Seen is the last reading of the pod's cgroup and the memory in use; nil for none.
	Seen *Seen
	// Containers are the running containers that are resized in place, in the order of the spec.
	Containers []Container
	// Restarting: a container whose limits decrease is being restarted for that.
	Restarting bool
}

// Seen is a reading of a pod's cgroup and of the memory in use.
type Seen struct {
	At time.Time
	// Pod are its limits as read, updated with those set since. Usage is the memory in use.
	Pod   observed.Resources
	Usage int64
	// Containers is the memory in use by container, by ID.
	Containers map[string]int64
}

// Container is a running container.
type Container struct {
	Name, ID   string
	Have, Want observed.Resources
}

// fresh is how long a reading of memory in use is valid.
const fresh = 10 * time.Second

// Step is the next step.
//
//sumtype:decl
type Step interface{ isStep() }

type (
	// Done: everything has its desired limits.
	Done struct{}
	// Wait: an earlier step is still under way.
	Wait struct{}
	// Look: read the pod's cgroup and the memory in use, also by the containers with these IDs.
	Look struct{ IDs []string }
	// SetPod sets the limits of the pod's cgroup.
	SetPod struct{ To observed.Resources }
	// Update sets the limits of a container.
	Update struct {
		Name, ID string
		To       observed.Resources
	}
	// Blocked: a limit can't be lowered now, because more memory is in use. It is checked again at
	// Again.
	Blocked struct {
		Message string
		Again   time.Time
	}
)

func (Done) isStep()    {}
func (Wait) isStep()    {}
func (Look) isStep()    {}
func (SetPod) isStep()  {}
func (Update) isStep()  {}
func (Blocked) isStep() {}

// Next is the next step towards the desired limits. The pod's increases come first and its
// decreases last, so that the containers together never have more than the pod:
//
//	pod up ─► containers down ─► containers up ─► pod down
//
// Steps follow from what was read, and a step that is done is not repeated, so another agent can
// continue at any point. No limit is lowered while a memory limit would fall below the memory in
// use, because the kernel would kill. The pod's limits are not kept low for that: a container that
// ended may be restarted meanwhile.
func Next(in Input) Step {
	lowered := lowering(&in)
	if in.Own && in.Seen == nil {
		return Look{IDs: lowered}
	}
	if in.Own {
		if most := Most(in.Seen.Pod, in.Want); most != in.Seen.Pod {
			return SetPod{most}
		}
	}
	if len(lowered) > 0 || in.Own && lessMemory(in.Want, in.Seen.Pod) {
		switch {
		case in.Seen == nil || in.Now.Sub(in.Seen.At) >= fresh || in.Now.Before(in.Seen.At) || !has(in.Seen, lowered):
			return Look{IDs: lowered}
		default:
			if why := inUse(&in); why != "" {
				return Blocked{Message: "cannot decrease memory limits: " + why, Again: in.Seen.At.Add(fresh)}
			}
		}
	}
	for _, c := range in.Containers {
		if least := Least(c.Have, c.Want); least != c.Have {
			return Update{c.Name, c.ID, least}
		}
	}
	for _, c := range in.Containers {
		if c.Have != c.Want {
			return Update{c.Name, c.ID, c.Want}
		}
	}
	if in.Restarting {
		return Wait{}
	}
	if in.Own && in.Seen.Pod != in.Want {
		return SetPod{in.Want}
	}
	return Done{}
}

// lowering are the IDs of the containers whose memory limit decreases.
func lowering(in *Input) (ids []string) {
	for _, c := range in.Containers {
		if lessMemory(c.Want, c.Have) {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

func has(s *Seen, ids []string) bool {
	for _, id := range ids {
		if _, ok := s.Containers[id]; !ok {
			return false
		}
	}
	return true
}

// inUse names what uses more memory than its desired limit; empty for nothing. The words are the
// kubelet's, because scripts look for them.
func inUse(in *Input) string {
	var all []string
	if in.Own && lessMemory(in.Want, in.Seen.Pod) && in.Seen.Usage >= in.Want.Memory {
		all = append(all,
			fmt.Sprintf("attempting to set pod memory limit (%d) below current usage (%d)", in.Want.Memory, in.Seen.Usage))
	}
	for _, c := range in.Containers {
		if lessMemory(c.Want, c.Have) && in.Seen.Containers[c.ID] >= c.Want.Memory {
			all = append(all, fmt.Sprintf("attempting to set container %q memory limit (%d) below current usage (%d)", c.Name,
				c.Want.Memory, in.Seen.Containers[c.ID]))
		}
	}
	if len(all) > 1 {
		return "[" + strings.Join(all, ", ") + "]"
	}
	return strings.Join(all, "")
}

// lessMemory says whether a has a lower memory limit than b.
func lessMemory(a, b observed.Resources) bool {
	return a.Memory != 0 && (b.Memory == 0 || a.Memory < b.Memory)
}

// lessCPU says whether a has a lower CPU limit than b.
func lessCPU(a, b observed.Resources) bool {
	if a.CPUQuota == 0 || b.CPUQuota == 0 {
		return a.CPUQuota != 0 && b.CPUQuota == 0
	}
	return a.CPUQuota*max(b.CPUPeriod, 1) < b.CPUQuota*max(a.CPUPeriod, 1)
}

// Most is the higher of each limit, with the weight of want: a weight is no limit.
func Most(have, want observed.Resources) observed.Resources {
	out := want
	if lessCPU(want, have) {
		out.CPUQuota, out.CPUPeriod = have.CPUQuota, have.CPUPeriod
	}
	if lessMemory(want, have) {
		out.Memory = have.Memory
	}
	return out
}

// Least is the lower of each limit, with the weight of have.
func Least(have, want observed.Resources) observed.Resources {
	out := have
	if lessCPU(want, have) {
		out.CPUQuota, out.CPUPeriod = want.CPUQuota, want.CPUPeriod
	}
	if lessMemory(want, have) {
		out.Memory = want.Memory
	}
	return out
}
