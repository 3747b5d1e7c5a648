package chaos

import (
	"slices"
	"time"

	"github.com/troupe-dev/troupe/supervisor/chaos/plan"
)

// Shrink takes away from a case that broke a rule what it does not need to break the same
// rule for the same pod: faults, operations, words of pods, times, the schedule and
// nodes. It ends after limit, or when nothing more can go, and gives the smallest case that was found and its result.
func Shrink(r *Result, limit time.Duration) *Result {
	if len(r.Violations) == 0 || slices.Contains([]string{isolated, frugal, sameAgain}, r.Violations[0].ID) {
		return r // these are differences of two runs
	}
	s := &shrinker{best: r, end: time.Now().Add(limit), tried: map[uint64]bool{r.Case.Hash(): true}}
	for s.round() {
	}
	return s.best
}

type shrinker struct {
	best  *Result
	end   time.Time
	tried map[uint64]bool
}

// same says whether a result breaks the same rule for the same pod.
func (s *shrinker) same(r *Result) bool {
	if len(r.Violations) == 0 {
		return false
	}
	a, b := s.best.Violations[0], r.Violations[0]
	return a.ID == b.ID && a.Pod.Name == b.Pod.Name
}

// try keeps a case if it breaks the same rule.
func (s *shrinker) try(change func(*plan.Case)) bool {
	c := clone(s.best.Case)
	change(c)
	if s.tried[c.Hash()] || time.Now().After(s.end) || c.Validate() != nil {
		return false
	}
	s.tried[c.Hash()] = true
	r := Run(c)
	if !s.same(r) {
		return false
	}
	s.best = r
	return true
}

// round tries each thing once, and reports whether something could go.
func (s *shrinker) round() (smaller bool) {
	smaller = s.without(func(c *plan.Case) int { return len(c.Faults) }, func(c *plan.Case, i, n int) {
		c.Faults = slices.Delete(c.Faults, i, i+n)
	})
	smaller = s.without(func(c *plan.Case) int { return len(c.Ops) }, func(c *plan.Case, i, n int) {
		c.Ops = slices.Delete(c.Ops, i, i+n)
	}) || smaller
	for i := 0; i < len(s.best.Case.Ops); i++ {
		smaller = s.without(func(c *plan.Case) int { return len(c.Ops[i].Args) }, func(c *plan.Case, k, n int) {
			c.Ops[i].Args = slices.Delete(c.Ops[i].Args, k, k+n)
		}) || smaller
		smaller = s.simpler(i) || smaller
	}
	return s.plainer() || smaller
}

// plainer tries the usual schedule, parts of the one there is, and fewer nodes.
func (s *shrinker) plainer() (smaller bool) {
	for _, change := range []func(*plan.Case){
		func(c *plan.Case) { c.Schedule = plan.Schedule{} },
		func(c *plan.Case) { c.Schedule.Starve = "" },
		func(c *plan.Case) { c.Schedule.Priorities, c.Schedule.Depth = false, 0 },
		func(c *plan.Case) { c.Schedule.Depth = 0 },
		func(c *plan.Case) { c.Schedule.Slow, c.Schedule.Cost = "", 0 },
		func(c *plan.Case) { c.NoEvents = false },
	} {
		smaller = s.try(change) || smaller
	}
	for s.best.Case.Nodes > 1 && s.try(func(c *plan.Case) { c.Nodes-- }) {
		smaller = true
	}
	return smaller
}

// without tries to take away parts of a list: halves, quarters, … single ones.
func (s *shrinker) without(size func(*plan.Case) int, cut func(c *plan.Case, i, n int)) (smaller bool) {
	for n := size(s.best.Case); n > 0; n /= 2 {
		for i := 0; i+n <= size(s.best.Case); {
			if s.try(func(c *plan.Case) { cut(c, i, n) }) {
				smaller = true
			} else {
				i += n
			}
		}
	}
	return smaller
}

// simpler tries to do an operation at once, or at a round time.
func (s *shrinker) simpler(i int) (smaller bool) {
	when := s.best.Case.Ops[i].When
	if when == (plan.When{}) {
		return false
	}
	if s.try(func(c *plan.Case) { c.Ops[i].When = plan.When{} }) {
		return true
	}
	for _, unit := range []time.Duration{time.Minute, 10 * time.Second, time.Second, 100 * time.Millisecond} {
		at, after := when.At.Round(unit), when.After.Round(unit)
		if at == when.At && after == when.After {
			return false
		}
		if s.try(func(c *plan.Case) { c.Ops[i].When.At, c.Ops[i].When.After = at, after }) {
			return true
		}
	}
	return false
}

func clone(c *plan.Case) *plan.Case {
	out := *c
	out.Ops, out.Faults = slices.Clone(c.Ops), slices.Clone(c.Faults)
	for i := range out.Ops {
		out.Ops[i].Args = slices.Clone(out.Ops[i].Args)
	}
	return &out
}
