package podresize

import (
	"fmt"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/observed"
)

// Input is how far the limits of a pod are from what is allocated to it.
type Input struct {
	Now time.Time
	// Own says that the pod has a cgroup of its own; Want is what that is to have.
	Own  bool
	Want observed.Resources
	// Seen is what was read last of the pod's cgroup and of the memory in use, nil
	// for nothing.
	Seen *Seen
	// Containers are those that run and are resized in place, in the order of the spec.
	Containers []Container
	// Restarting: a container that has limits to be lowered is being restarted for it.
	Restarting bool
}

// Seen is a look at a pod's cgroup and at the memory that is in use.
type Seen struct {
	At time.Time
	// Pod are its limits, and then those that it was given since. Usage is the
	// memory in use in it.
	Pod   observed.Resources
	Usage int64
	// Containers is the memory in use by containers, by ID.
	Containers map[string]int64
}

// Container is one that runs.
type Container struct {
	Name, ID   string
	Have, Want observed.Resources
}

// fresh is how long a look at memory in use counts.
const fresh = 10 * time.Second

// Step is the one thing to do next.
//
//sumtype:decl
type Step interface{ isStep() }

type (
	// Done: everything has the limits that it is to have.
	Done struct{}
	// Wait: what has to be done first is under way.
	Wait struct{}
	// Look: the pod's cgroup and the memory in use, by the containers with these
	// IDs too, have to be read.
	Look struct{ IDs []string }
	// SetPod gives the pod's cgroup limits.
	SetPod struct{ To observed.Resources }
	// Update gives a container limits.
	Update struct {
		Name, ID string
		To       observed.Resources
	}
	// Blocked: a limit can't be lowered now, because more memory is in use. It is
	// looked at again at Again.
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

// Next is the step that brings a pod nearer to its limits. What may be more of a
// pod comes first and what may be less last, so that at no time its containers
// may use more together than the pod:
//
//	pod up ─► containers down ─► containers up ─► pod down
//
// Each step is made of what is seen, and is none if it was made before: an agent
// that ends anywhere in between goes on from there. Before anything is made less,
// no memory limit is to be lowered below what is in use: the kernel would kill. The
// pod is not kept narrow for that: a container that ended is made again meanwhile.
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

// lowering are the IDs of the containers whose memory limit is to be lowered.
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

// inUse says what uses more memory than it is to have; empty for nothing. Scripts look
// for these words: they are the kubelet's.
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

// lessMemory says whether a may use less memory than b.
func lessMemory(a, b observed.Resources) bool {
	return a.Memory != 0 && (b.Memory == 0 || a.Memory < b.Memory)
}

// lessCPU says whether a may run for less of the time than b.
func lessCPU(a, b observed.Resources) bool {
	if a.CPUQuota == 0 || b.CPUQuota == 0 {
		return a.CPUQuota != 0 && b.CPUQuota == 0
	}
	return a.CPUQuota*max(b.CPUPeriod, 1) < b.CPUQuota*max(a.CPUPeriod, 1)
}

// Most is the higher of the limits of both, with the weight of want: a weight
// limits nobody.
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

// Least is the lower of the limits of both, with the weight of have.
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
