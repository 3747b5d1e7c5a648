// Package gate lists what a container waits for that is to be created, and what people are told meanwhile. It is for
// the plan, which looks at the gates, and for all that show what the plan says.
package gate

// Gate is one of the conditions for creating a container: it may be created when all gates are open. The plan
// (podplan), the status (by podplan.Waiting) and people (AdviceOn, by whynot) have the answer from this one list.
//
//	gate       it is shut until                                       the status says
//	Older      no earlier incarnation of the container lives
//	Backoff    the delay after its last end is over                   CrashLoopBackOff, PostStartHookError
//	Image      its image is there, and those that it mounts           ErrImagePull, ImagePullBackOff, …
//	Volumes    the volumes of the pod are mounted                     which of them are not, and why
//	Cgroup     the pod has its cgroup, before its sandbox             why it can't be made
//	Claims     its devices are known; before the sandbox, prepared    why they are not
//	Sandbox    there is a sandbox that can be used                    why the last one could not be made
//	Turn       the init containers before it are done; the target
//	           of an ephemeral container runs                         that the target does not run
//	Hook       no postStart hook of a container before it is ahead    which container has that hook
//	Objects    what its variables, or the sandbox, need is known
//	Address    the pod has an address, if its variables need it
//	Room       the pod's cgroup is large enough for its limits
//	Restart    it is known if all containers are to be restarted
//	Retry      the delay after a failed try is over                   CreateContainerError, RunContainerError, …
//
// While Older or Backoff is shut, nothing is fetched for the container, so the plan looks at them first. All others are
// looked at in this order. The status has one reason: of the first gate with a reason of its own, else the default one
// with the message of the first gate that has one.
//
// A new gate is a constant, a case in podplan.planner.look and, if the status says something of it, an entry in advice.
type Gate uint8

const (
	// None is shut: the container may be created.
	None Gate = iota
	Older
	Backoff
	Image
	Volumes
	Cgroup
	Claims
	Sandbox
	Turn
	Hook
	Objects
	Address
	Room
	Restart
	Retry
)

func (g Gate) String() string {
	return [...]string{
		"none", "older", "backoff", "image", "volumes", "cgroup", "claims", "sandbox", "turn", "hook", "objects", "address",
		"room", "restart", "retry",
	}[g]
}

// Silent says whether a gate has nothing to say to people.
func (g Gate) Silent() bool { return g >= Objects && g <= Restart }
