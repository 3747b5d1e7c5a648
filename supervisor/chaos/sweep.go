package chaos

import (
	"cmp"
	"context"
	"iter"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/supervisor/chaos/plan"
	"github.com/troupe-dev/troupe/supervisor/invariants"
)

// slow is how long a slow call takes: longer than anything that an actor waits for in its
// usual course, shorter than a deadline.
const slow = 3 * time.Second

// Singles are the cases of a life with one fault each: every effect at every point that the
// life comes through without faults.
func Singles(l Life) []*plan.Case {
	base := Run(l.Case, WithPoints())
	var out []*plan.Case
	for _, p := range base.Points {
		for _, e := range p.Stream.Effects() {
			if !p.Stream.Can(p.Subject, e) || e == plan.Allocate { // without a twin it shows nothing
				continue
			}
			out = append(out, withFault(l.Case, p.fault(e)))
		}
	}
	return out
}

// fault is an effect at the point.
func (p *Point) fault(e plan.EffectKind) plan.Fault {
	f := plan.Fault{Stream: p.Stream, Subject: p.Subject, Role: p.Role, N: p.N, Effect: plan.Effect{Do: e}}
	if e.TakesTime() {
		f.Effect.For = slow
	}
	return f
}

// withFault is a case with another fault.
func withFault(of *plan.Case, f plan.Fault) *plan.Case {
	c := *of
	c.Faults = append(slices.Clip(c.Faults), f)
	return &c
}

// Summary is what came of many cases.
type Summary struct {
	Cases, Held, Violated, Stale int
	// Last is the result that was added last.
	Last *Result
	// Failures are the results that were violated.
	Failures  []*Result
	Simulated time.Duration
	Messages  uint64
	// Sometimes has how many cases came through each rare state, all of them by name.
	Sometimes map[string]int
	covered   coverage
	// Hash is over the hashes of all results, in the order in which they were added.
	Hash uint64
}

// Kind is a kind of fault.
type Kind struct {
	Stream plan.Stream
	Effect plan.EffectKind
}

// Each runs cases on as many threads as workers (one for each CPU if zero), and tells of
// each result in the order of the cases, whatever the number of workers; it stops when told
// returns false or ctx ends.
func Each(ctx context.Context, cases []*plan.Case, workers int, told func(*Result) bool) {
	each(ctx, slices.Values(cases), workers, func(c *plan.Case) *Result {
		if len(c.Faults) == 0 {
			return Run(c, WithRest())
		}
		return Run(c)
	}, told)
}

// Replay runs cases as Each does, each beside its twin without faults.
func Replay(ctx context.Context, cases []*plan.Case, workers int, told func(*Result) bool) {
	each(ctx, slices.Values(cases), workers, func(c *plan.Case) *Result { return Twinned(c) }, told)
}

// Twinned runs a case, and if it has faults also its twin without them: some rules compare the two.
func Twinned(c *plan.Case, options ...Option) *Result {
	r := Run(c, options...)
	if len(c.Faults) == 0 || len(r.Violations) > 0 {
		return r
	}
	twin := *c
	twin.Faults = nil
	return compared(r, Run(&twin))
}

// like runs cases as the one of a result has to be run to violate its rule.
func like(r *Result) func(*plan.Case, ...Option) *Result {
	if len(r.Violations) > 0 {
		switch r.Violations[0].ID {
		case isolated, frugal, unchanged:
			return Twinned
		case atRest:
			return func(c *plan.Case, options ...Option) *Result { return Run(c, append(options, WithRest())...) }
		}
	}
	return Run
}

// Again runs the case of a result once more, so that it violates what it violated.
func Again(r *Result, options ...Option) *Result { return like(r)(r.Case, options...) }

// Seeds runs the cases of the seeds first to last, each beside its twin without faults, as
// Each does, and one in two hundred once more. That a twin violates a rule is told too.
func Seeds(ctx context.Context, first, last uint64, workers int, p plan.Profile, told func(*Result) bool) {
	seeds := func(yield func(uint64) bool) {
		for s := first; ; s++ {
			if !yield(s) || s == last {
				return
			}
		}
	}
	each(ctx, seeds, workers, func(seed uint64) *Result {
		c, twin := Draw(seed, p)
		if len(twin.Violations) > 0 {
			return twin
		}
		r := compared(Run(c), twin)
		if seed%again == 0 {
			return repeated(c, r)
		}
		return r
	}, told)
}

func each[T any](ctx context.Context, all iter.Seq[T], workers int, run func(T) *Result, told func(*Result) bool) {
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	type numbered struct {
		n int
		x T
	}
	next := make(chan numbered)
	var mu sync.Mutex
	// waiting are results of cases after the one that is due to be told of.
	due, waiting := 0, map[int]*Result{}
	var done sync.WaitGroup
	for range workers {
		done.Go(func() {
			for c := range next {
				r := run(c.x)
				mu.Lock()
				waiting[c.n] = r
				for r := waiting[due]; r != nil && ctx.Err() == nil; r = waiting[due] {
					delete(waiting, due)
					due++
					if !told(r) {
						stop()
					}
				}
				mu.Unlock()
			}
		})
	}
	n := 0
	for x := range all {
		select {
		case next <- numbered{n, x}:
			n++
			continue
		case <-ctx.Done():
		}
		break
	}
	close(next)
	done.Wait()
}

// Add counts a result.
func (t *Summary) Add(r *Result) {
	t.Cases++
	t.Simulated += r.Simulated
	t.Messages += r.Messages
	t.Hash = (t.Hash ^ r.Hash) * 1099511628211 // as FNV does it
	t.Last = r
	if t.Sometimes == nil {
		t.Sometimes = map[string]int{}
		for _, name := range invariants.Sometimes() {
			t.Sometimes[name] = 0
		}
	}
	for _, name := range r.Sometimes {
		t.Sometimes[name]++
	}
	t.covered.add(r)
	switch r.Verdict() {
	case Violated:
		t.Violated++
		t.Failures = append(t.Failures, r)
	case Stale:
		t.Stale++
	default:
		t.Held++
	}
}

// Rarest are the names of the rare states, those that the fewest cases came through first, and how
// many of them were reached at all.
func (t *Summary) Rarest() (reached int, names []string) {
	names = sorted(t.Sometimes)
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(t.Sometimes[a], t.Sometimes[b]) })
	for _, n := range t.Sometimes { // order-free: a sum
		if n > 0 {
			reached++
		}
	}
	return reached, names
}
