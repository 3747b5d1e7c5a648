package chaos

import (
	"context"
	"regexp"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/supervisor/chaos/plan"
)

// Shrink takes away from a case that broke a rule what it does not need to break the same
// rule for the same pod: pods, faults, operations, words of pods, times, the schedule
// and nodes. It ends after limit, with ctx, or when nothing more can go, and gives the smallest
// case that was found and its result.
func Shrink(ctx context.Context, r *Result, limit time.Duration) *Result {
	if len(r.Violations) == 0 || r.Violations[0].ID == sameAgain {
		return r
	}
	ctx, stop := context.WithTimeout(ctx, limit)
	defer stop()
	s := &shrinker{ctx: ctx, best: r, tried: map[uint64]bool{r.Case.Hash(): true}, run: like(r)}
	for s.round() {
	}
	return s.best
}

type shrinker struct {
	ctx   context.Context
	best  *Result
	tried map[uint64]bool
	run   func(*plan.Case, ...Option) *Result
}

// same says whether a result breaks the same rule for the same pod.
func (s *shrinker) same(r *Result) bool {
	if len(r.Violations) == 0 {
		return false
	}
	return s.best.Violations[0].ID == r.Violations[0].ID && victim(s.best) == victim(r)
}

var named = regexp.MustCompile(`\bpod (\S+)`)

// victim is the pod that the violation is about. One of the end of a case names it in its text only,
// or not at all: a UID there is another in every case.
func victim(r *Result) string {
	v := &r.Violations[0]
	if v.Pod.Name != "" {
		return v.Pod.Name
	}
	found := named.FindStringSubmatch(v.What)
	if found == nil || !slices.ContainsFunc(r.Case.Ops, func(o plan.Op) bool { return o.Role.Pod == found[1] }) {
		return ""
	}
	return found[1]
}

// try keeps a case if it breaks the same rule.
func (s *shrinker) try(change func(*plan.Case)) bool {
	c := clone(s.best.Case)
	change(c)
	if s.ctx.Err() != nil || s.tried[c.Hash()] || c.Validate() != nil {
		return false
	}
	s.tried[c.Hash()] = true
	r := s.run(c)
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
	smaller = s.pods() || smaller
	smaller = s.without(func(c *plan.Case) int { return len(c.Ops) }, func(c *plan.Case, i, n int) {
		c.Ops = slices.Delete(c.Ops, i, i+n)
	}) || smaller
	for i := 0; i < len(s.best.Case.Ops); i++ {
		smaller = s.without(func(c *plan.Case) int { return len(c.Ops[i].Args) }, func(c *plan.Case, k, n int) {
			c.Ops[i].Args = slices.Delete(c.Ops[i].Args, k, k+n)
		}) || smaller
		smaller = s.simpler(i) || smaller
	}
	for i := 0; i < len(s.best.Case.Faults); i++ {
		smaller = s.milder(i) || smaller
	}
	smaller = s.plainer() || smaller
	return smaller || s.pairs()
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
		func(c *plan.Case) { c.Disks = min(c.Disks, 1) },
		func(c *plan.Case) { c.Devices = min(c.Devices, 1) },
		func(c *plan.Case) {
			if c.CSI != "" {
				c.CSI = plan.Plain
			}
		},
	} {
		smaller = s.try(change) || smaller
	}
	for s.best.Case.Nodes > 1 && s.try(func(c *plan.Case) { c.Nodes-- }) {
		smaller = true
	}
	return smaller
}

// pods tries to go without a pod: what is done to it, and what goes wrong with it.
func (s *shrinker) pods() (smaller bool) {
	tried := map[string]bool{}
	for i := 0; i < len(s.best.Case.Ops); i++ {
		pod := s.best.Case.Ops[i].Role.Pod
		if pod == "" || tried[pod] {
			continue
		}
		tried[pod] = true
		if s.try(func(c *plan.Case) {
			c.Ops = slices.DeleteFunc(c.Ops, func(o plan.Op) bool { return o.Role.Pod == pod || o.When.Of.Pod == pod })
			c.Faults = slices.DeleteFunc(c.Faults, func(f plan.Fault) bool { return f.Role.Pod == pod })
		}) {
			smaller, i = true, -1
		}
	}
	return smaller
}

// pairs tries to go without any two lines: a pod that was made, deleted and made again needs
// neither of the first two. There must be few lines: their pairs are many more.
func (s *shrinker) pairs() bool {
	const few = 12
	lines := len(s.best.Case.Ops) + len(s.best.Case.Faults)
	if lines > few {
		return false
	}
	for i := range lines {
		for k := range i {
			if s.try(func(c *plan.Case) { cut(c, i); cut(c, k) }) {
				return true
			}
		}
	}
	return false
}

// cut takes a line away: an operation, or a fault behind them.
func cut(c *plan.Case, line int) {
	if n := len(c.Ops); line >= n {
		c.Faults = slices.Delete(c.Faults, line-n, line-n+1)
		return
	}
	c.Ops = slices.Delete(c.Ops, line, line+1)
}

// milder tries to let a fault strike the first of its kind, and for a round time.
func (s *shrinker) milder(i int) (smaller bool) {
	smaller = s.try(func(c *plan.Case) { c.Faults[i].N = 1 })
	if took := s.best.Case.Faults[i].Effect.For; took.Round(time.Second) != took {
		smaller = s.try(func(c *plan.Case) { c.Faults[i].Effect.For = max(time.Second, took.Round(time.Second)) }) || smaller
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
