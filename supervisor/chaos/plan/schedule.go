package plan

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Schedule is which actor handles its message next, and how long that takes. The zero value draws
// among all that have one, and takes no time.
type Schedule struct {
	// Starve is an actor that is next only when no other has a message.
	Starve string
	// Priorities: each actor has a random one, and the highest is next. At Depth random messages
	// the one that would be next falls below all others.
	Priorities bool
	Depth      int
	// Cost is how long each message of the actor Slow takes; EveryActor is all.
	Slow string
	Cost time.Duration
}

// EveryActor is the name of all actors, for Schedule.Slow.
const EveryActor = "*"

func (s *Schedule) String() string {
	var b strings.Builder
	if s.Starve != "" {
		fmt.Fprintf(&b, "schedule starve=%s\n", s.Starve)
	}
	if s.Priorities {
		fmt.Fprintf(&b, "schedule priorities depth=%d\n", s.Depth)
	}
	if s.Cost > 0 {
		fmt.Fprintf(&b, "cost %s=%s\n", s.Slow, s.Cost)
	}
	return b.String()
}

// parse reads what is after the word schedule.
func (s *Schedule) parse(rest string) (err error) {
	actor, starves := strings.CutPrefix(rest, "starve=")
	depth, priorities := strings.CutPrefix(rest, "priorities depth=")
	switch {
	case starves && len(strings.Fields(actor)) == 1:
		s.Starve = strings.TrimSpace(actor)
	case priorities:
		s.Priorities = true
		s.Depth, err = strconv.Atoi(strings.TrimSpace(depth))
	default:
		return errors.New("want: schedule starve=ACTOR, or schedule priorities depth=N")
	}
	return err
}

// parseCost reads the word of a line cost.
func (s *Schedule) parseCost(word string) (err error) {
	actor, cost, _ := strings.Cut(word, "=")
	if actor == "" || len(strings.Fields(word)) != 1 {
		return errors.New("want: cost ACTOR=DURATION, with * for every actor")
	}
	s.Slow = actor
	s.Cost, err = time.ParseDuration(cost)
	return err
}

func (s *Schedule) validate() error {
	switch {
	case s.Depth < 0:
		return fmt.Errorf("schedule: depth=%d: must not be negative", s.Depth)
	case s.Cost < 0 || s.Cost > time.Second:
		return fmt.Errorf("cost %s=%s: want more than 0s, and 1s at most", s.Slow, s.Cost)
	case s.Slow != "" && s.Cost == 0:
		return fmt.Errorf("cost %s=0s: want more than 0s, and 1s at most", s.Slow)
	default:
		return nil
	}
}

// busy are actors that it is worth while to starve, or to slow down.
var busy = []string{
	"podset", "pleg", "status", "sources", "apipods", "images", "volumes", "cgroups", "probes", "gc", "mirrors",
}

// schedule draws that of a seed: for three of four the usual one.
func schedule(seed uint64) (s Schedule) {
	r := Rand(seed, "schedule")
	if r.IntN(4) > 0 {
		return s
	}
	switch r.IntN(4) {
	case 0:
		s.Starve = busy[r.IntN(len(busy))]
	case 1:
		s.Priorities, s.Depth = true, r.IntN(5)
	case 2:
		s.Slow, s.Cost = EveryActor, time.Duration(1+r.IntN(4))*time.Millisecond
	default:
		s.Slow, s.Cost = busy[r.IntN(len(busy))], time.Duration(1+r.IntN(50))*time.Millisecond
	}
	return s
}
