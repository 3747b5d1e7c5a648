package chaos

import (
	"context"
	"iter"

	"github.com/troupe-dev/troupe/supervisor/chaos/plan"
)

// Pairing is what a sweep of pairs went through.
type Pairing struct {
	// Singles are the cases of one fault, Pairs all pairs of a fault and a later one.
	Singles, Pairs int
	// Run are the pairs that were run. The others were pruned: their second fault strikes a node in a
	// state in which the same fault struck it before, in another pair or alone.
	Run int
}

// pairs are the cases of a life with two faults each: after every single fault, every effect at every
// point that is left, but those that would strike a node in a state in which it was struck like that
// before.
func pairs(l Life, count *Pairing) iter.Seq[*plan.Case] {
	type second struct {
		state   uint64
		subject string
		role    plan.Role
		Kind
	}
	return func(yield func(*plan.Case) bool) {
		*count = Pairing{}
		seen := map[second]bool{}
		// later gives the points of a run after its fault has struck, with the effects that can strike there.
		later := func(r *Result, tell func(f plan.Fault, fresh bool) bool) bool {
			for i := r.struck; i < len(r.Points); i++ {
				p := r.Points[i]
				for _, e := range p.Stream.Effects() {
					if !p.Stream.Can(p.Subject, e) {
						continue
					}
					key := second{r.states[i], p.Subject, p.Role, Kind{p.Stream, e}}
					fresh := !seen[key]
					seen[key] = true
					if !tell(p.fault(e), fresh) {
						return false
					}
				}
			}
			return true
		}
		later(Run(l.Case, withStates()), func(plan.Fault, bool) bool { return true })
		for _, first := range Singles(l) {
			count.Singles++
			if r := Run(first, withStates()); r.struck > 0 && !later(r, func(f plan.Fault, fresh bool) bool {
				count.Pairs++
				if !fresh {
					return true
				}
				count.Run++
				return yield(withFault(first, f))
			}) {
				return
			}
		}
	}
}

// Pairs runs every pair of faults on a life, pruned by the state of the node, as Each does.
func Pairs(ctx context.Context, l Life, workers int, told func(*Result) bool) (count Pairing) {
	each(ctx, pairs(l, &count), workers, func(c *plan.Case) *Result { return Run(c) }, told)
	return count
}
