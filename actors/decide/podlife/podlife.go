// Package podlife is the lifecycle of a pod on its node: three states, never back.
package podlife

import "fmt"

// State is the state of a pod on this node.
//
//	           stop wanted, or done by itself        all dead, volumes down
//	Syncing ───────────────────────────────► Terminating ───────────────────► Terminated
//
// Syncing: containers are started and kept running as the spec says.
// Terminating: nothing is started any more; hooks, stop signals and kills run.
// Terminated: nothing of the pod runs or is mounted; only records are left.
type State uint8

const (
	Syncing State = iota
	Terminating
	Terminated
)

func (s State) String() string {
	switch s {
	case Syncing:
		return "Syncing"
	case Terminating:
		return "Terminating"
	case Terminated:
		return "Terminated"
	default:
		return fmt.Sprintf("State(%d)", uint8(s))
	}
}

// Event is an event that may change the state.
type Event uint8

const (
	// StopWanted: the pod was deleted, evicted, rejected or replaced.
	StopWanted Event = iota
	// Completed: by its restart policy or its deadline the pod has ended.
	Completed
	// AllDown: no container lives, the sandbox is stopped, volumes are unmounted.
	AllDown
)

func (e Event) String() string {
	switch e {
	case StopWanted:
		return "StopWanted"
	case Completed:
		return "Completed"
	case AllDown:
		return "AllDown"
	default:
		return fmt.Sprintf("Event(%d)", uint8(e))
	}
}

// Next returns the state after e. It never goes back. It panics for AllDown while Syncing, which is
// a bug of the caller.
func Next(s State, e Event) State {
	switch e {
	case StopWanted, Completed:
		if s == Syncing {
			return Terminating
		}
		return s
	case AllDown:
		if s == Syncing {
			panic("podlife: a syncing pod can't be all down")
		}
		return Terminated
	default:
		panic(fmt.Sprintf("podlife: no event %v", e))
	}
}
