package kernel

import (
	"math/rand/v2"
	"time"
)

// Schedule says which actor of a Virtual is next. The zero value draws uniformly among those with a
// message, and messages take no time. Others reach orders that uniform draws hardly ever do.
type Schedule struct {
	// Priorities gives each actor a random priority: the highest that has a message is next. At
	// Changes random steps among the first Span the actor that would be next falls below all others.
	// (Probabilistic concurrency testing: an order that needs few such changes is soon found.)
	Priorities bool
	Changes    int
	Span       uint64
	// Starve names actors that are next only when no other has a message; nil for none.
	Starve func(path string) bool
	// Cost is how long each message takes. What is due by then happens before the next message, so that
	// timers overtake chains of messages, as on a busy machine. Slow names the actors whose messages
	// take so long; nil for all.
	Cost time.Duration
	Slow func(path string) bool
}

// schedule is a Schedule in use.
type schedule struct {
	Schedule
	rng *rand.Rand
	// priority is by path; lowest is the last one given at a change.
	priority map[string]int64
	lowest   int64
	changes  map[uint64]bool // steps
	eager    []int           // indexes of actors that are not starved
}

// SetSchedule changes the order from here on. The same seed draws the same.
func (v *Virtual) SetSchedule(s Schedule, seed uint64) {
	v.schedule = nil
	if s.Priorities || s.Starve != nil || s.Cost > 0 {
		v.schedule = newSchedule(s, rand.New(rand.NewPCG(seed, 0x7072696f72697479)), v.steps)
	}
}

func newSchedule(s Schedule, rng *rand.Rand, from uint64) *schedule {
	out := &schedule{Schedule: s, rng: rng, priority: map[string]int64{}, changes: map[uint64]bool{}}
	for range s.Changes {
		out.changes[from+rng.Uint64N(max(s.Span, 1))] = true
	}
	return out
}

// pick is the index of the next actor.
func (s *schedule) pick(runnable []*cell, step uint64) int {
	s.eager = s.eager[:0]
	for i, c := range runnable {
		if s.Starve == nil || !s.Starve(c.path) {
			s.eager = append(s.eager, i)
		}
	}
	if len(s.eager) == 0 {
		for i := range runnable {
			s.eager = append(s.eager, i)
		}
	}
	if !s.Priorities {
		return s.eager[s.rng.IntN(len(s.eager))]
	}
	i := s.highest(runnable)
	if s.changes[step] {
		s.lowest--
		s.priority[runnable[i].path] = s.lowest
		i = s.highest(runnable)
	}
	return i
}

func (s *schedule) highest(runnable []*cell) int {
	best := s.eager[0]
	for _, i := range s.eager[1:] {
		if s.of(runnable[i].path) > s.of(runnable[best].path) {
			best = i
		}
	}
	return best
}

// of is the priority of an actor, which is drawn when it first has a message.
func (s *schedule) of(path string) int64 {
	p, is := s.priority[path]
	if !is {
		p = s.rng.Int64()
		s.priority[path] = p
	}
	return p
}
