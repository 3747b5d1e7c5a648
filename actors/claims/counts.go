package claims

import (
	"time"

	"github.com/troupe-dev/troupe/actors/kernel"
)

// Counts is told what became of claims, for metrics. It must not block.
type Counts interface {
	// Prepared is told how long the claims of a pod took until all were prepared and, each time that people are told why a
	// pod waits, how long it has waited. Unprepared is its counterpart.
	Prepared(took time.Duration, failed bool)
	Unprepared(took time.Duration, failed bool)
	// InUse is told, after each change, how many claims are on record, and how many of them each driver has.
	InUse(all int, byDriver map[string]int)
}

// count counts what a pod is told.
func (a *actor) count(ctx *kernel.Context[Message], u *user, failed bool) {
	switch took := ctx.Now().Sub(u.since); {
	case a.deps.Counts == nil:
	case u.going:
		a.deps.Counts.Unprepared(took, failed)
	default:
		a.deps.Counts.Prepared(took, failed)
	}
}

func (a *actor) countInUse() {
	if a.deps.Counts == nil {
		return
	}
	by := map[string]int{}
	for _, c := range a.claims { // order-free: sums
		for name := range c.Drivers { // order-free: sums
			by[name]++
		}
	}
	a.deps.Counts.InUse(len(a.claims), by)
}
