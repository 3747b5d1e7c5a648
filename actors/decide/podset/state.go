// Package podset decides which pods a node runs, and which of them begins, stops and comes back when. It
// knows the desired pods of all sources, what the runtime has, and how far each pod is. It does not know
// how a pod is run: that is podplan.
package podset

import "fmt"

// State is how far a pod of this node is.
//
//	waiting ──Begun──► running ──Ended──► finished ──Removed──► collecting ──► (gone)
//	 ▲ │ ▲              ▲                  │                      │
//	 │ │ └──────────────┼───Returned───────┴──────────────────────┘
//	 │ └──Refused──► rejected ──not wanted──► (gone)
//	 └─────Changed──────┘
//
// Waiting: it has no actor yet.
// Running: it has an actor. It may be stopping.
// Finished: nothing of it runs or is mounted, and a source still wants it or has to be heard.
// Collecting: garbage collection removes what is left of it.
// Rejected: it was not admitted, and nothing of it runs.
//
// A pod that waits for another life, or was rejected for one, has remains of its earlier life: it is
// Removed too.
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

// Event is what moves a pod on.
type Event uint8

const (
	// Begun: its actor was made.
	Begun Event = iota
	// Refused: it was not admitted.
	Refused
	// Changed: its manifest is another one than the rejected one.
	Changed
	// Ended: its actor says that nothing of it runs or is mounted.
	Ended
	// Removed: no source wants it, and what is left of it is given to garbage collection.
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

// Next returns the state after e. An event that is impossible in s is a bug of the caller, and panics.
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
