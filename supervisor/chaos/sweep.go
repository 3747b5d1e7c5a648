package chaos

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/supervisor/chaos/plan"
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
			c := *l.Case
			f := plan.Fault{Stream: p.Stream, Subject: p.Subject, Role: p.Role, N: p.N, Effect: plan.Effect{Do: e}}
			if e == plan.Slow {
				f.Effect.For = slow
			}
			c.Faults = append(slices.Clip(c.Faults), f)
			out = append(out, &c)
		}
	}
	return out
}

// Tally is what came of many cases.
type Tally struct {
	Cases, Held, Violated, Stale int
	// Of has the cases of each stream and effect.
	Of map[Kind]int
	// Failures are the first results that were violated, one for each rule and point.
	Failures  []*Result
	Simulated time.Duration
	Messages  uint64
	Wall      time.Duration
}

// Kind is a kind of fault.
type Kind struct {
	Stream plan.Stream
	Effect plan.EffectKind
}

// Each runs cases on as many threads as workers (one for each CPU if zero), and tells of
// each result as it comes; it stops when told returns false or ctx ends.
func Each(ctx context.Context, cases []*plan.Case, workers int, told func(*Result) bool) {
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	next := make(chan *plan.Case)
	var mu sync.Mutex
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for c := range next {
				r := Run(c)
				mu.Lock()
				if ctx.Err() == nil && !told(r) {
					stop()
				}
				mu.Unlock()
			}
		})
	}
	for _, c := range cases {
		select {
		case next <- c:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(next)
	all.Wait()
}

// Add counts a result.
func (t *Tally) Add(r *Result) {
	if t.Of == nil {
		t.Of = map[Kind]int{}
	}
	t.Cases++
	t.Simulated += r.Simulated
	t.Messages += r.Messages
	for i := range r.Case.Faults {
		t.Of[Kind{r.Case.Faults[i].Stream, r.Case.Faults[i].Effect.Do}]++
	}
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

// Kinds are the kinds of faults that were tried, in order.
func (t *Tally) Kinds() []Kind {
	out := make([]Kind, 0, len(t.Of))
	for k := range t.Of {
		out = append(out, k)
	}
	slices.SortFunc(out, func(a, b Kind) int {
		return cmp.Or(cmp.Compare(a.Stream, b.Stream), cmp.Compare(a.Effect, b.Effect))
	})
	return out
}
