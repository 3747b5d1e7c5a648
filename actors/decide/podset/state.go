// Package podset decides which pods a node runs, and when each of them begins, stops and returns.
// It knows the desired pods of all sources, the runtime's view, and the state of each pod. It does
// not know how a pod is run: that is podplan.
package podset

import "fmt"

// State is the state of a pod on this node.
//
//	waiting ──Begun──► running ──Ended──► finished ──Removed──► collecting ──► (gone)
//	 ▲ │ ▲              ▲                  │                      │
//	 │ │ └──────────────┼───Returned───────┴──────────────────────┘
//	 │ └──Refused──► rejected ──not wanted──► (gone)
//	 └─────Changed──────┘
//
// Waiting: it has no actor yet.
// Running: it has an actor. It may be stopping.
// Finished: nothing of it runs or is mounted. A source still wants it, or has not reported yet.
// Collecting: garbage collection removes its remains, now or with its next sweep.
// Rejected: it was not admitted, and nothing of it runs.
//
// A pod that waits for another life, or was rejected for one, has remains of its earlier life, so
// it is Removed too.
type State uint8

const (
	Waiting State = iota
	Running
	Finished
	Collecting
	Rejected
)

func (s State) String() string {
	switch s {
	case Waiting:
		return "Waiting"
	case Running:
		return "Running"
	case Finished:
		return "Finished"
	case Collecting:
		return "Collecting"
	case Rejected:
		return "Rejected"
	default:
		return fmt.Sprintf("State(%d)", uint8(s))
	}
}

// HasActor says whether a pod in this state has an actor.
func (s State) HasActor() bool { return s == Running || s == Finished || s == Collecting }

// Event is an event that may change the state.
type Event uint8

const (
	// Begun: its actor was made.
	Begun Event = iota
	// Refused: it was not admitted.
	Refused
	// Changed: its manifest differs from the rejected one.
	Changed
	// Ended: its actor reports that nothing of it runs or is mounted.
	Ended
	// Removed: no source wants it, and garbage collection removes its remains.
	Removed
	// Returned: it is wanted again, and begins another life.
	Returned
)

func (e Event) String() string {
	switch e {
	case Begun:
		return "Begun"
	case Refused:
		return "Refused"
	case Changed:
		return "Changed"
	case Ended:
		return "Ended"
	case Removed:
		return "Removed"
	case Returned:
		return "Returned"
	default:
		return fmt.Sprintf("Event(%d)", uint8(e))
	}
}

// Next returns the state after e. It panics for an event that is impossible in s, which is a bug of
// the caller.
func Next(s State, e Event) State {
	switch {
	case s == Waiting && e == Begun:
		return Running
	case s == Waiting && e == Refused:
		return Rejected
	case s == Rejected && e == Changed:
		return Waiting
	case s == Running && e == Ended:
		return Finished
	case (s == Finished || s == Waiting || s == Rejected) && e == Removed:
		return Collecting
	case (s == Finished || s == Collecting) && e == Returned:
		return Waiting
	default:
		panic(fmt.Sprintf("podset: a pod that is %v can't be %v", s, e))
	}
}
