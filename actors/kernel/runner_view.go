package kernel

import (
	"cmp"
	"slices"
	"time"
)

// KindCount counts the effects of one kind. Expired includes Late.
type KindCount struct {
	Finished, Expired, Late, Dropped uint64
	// Total is the sum of the run times of finished effects. Within counts those in each bucket of
	// EffectBuckets: at most that bound, and longer than the one before. The others took longer than
	// all bounds.
	Total  time.Duration
	Within [len(EffectBuckets)]uint64
}

// EffectBuckets are the bounds of the histogram of run times.
var EffectBuckets = [...]time.Duration{
	time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2500 * time.Millisecond,
	5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute,
}

func (k *KindCount) finished(took time.Duration) {
	k.Finished++
	k.Total += took
	for i, limit := range EffectBuckets {
		if took <= limit {
			k.Within[i]++
			return
		}
	}
}

func (r *Runner) inFlight(c *cell, overdue bool) []EffectInfo {
	r.mu.Lock()
	defer r.mu.Unlock()
	return infos(c.effects, overdue)
}

func infos(effects []*effect, overdue bool) (out []EffectInfo) {
	for _, e := range effects {
		if e.Phase <= EffectStarted || overdue {
			out = append(out, e.EffectInfo)
		}
	}
	return out
}

// InFlight are the unfinished effects of a path, including overdue ones.
func (r *Runner) InFlight(path string) []EffectInfo {
	c := r.sys.cell(path)
	r.mu.Lock()
	defer r.mu.Unlock()
	if c != nil && c.runner == r && len(c.effects) > 0 {
		return infos(c.effects, true)
	}
	return infos(r.orphans[path], true)
}

// Pools are the states of the runner's pools, by name.
func (r *Runner) Pools() []PoolState {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]PoolState, 0, len(r.pools))
	for _, p := range r.pools { // order-free: sorted below
		out = append(out, PoolState{p.Name, p.Size, p.held, len(p.waiting)})
	}
	slices.SortFunc(out, func(a, b PoolState) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// Counts are the totals by kind of effect.
func (r *Runner) Counts() map[string]KindCount {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make(map[string]KindCount, len(r.counts))
	for k, c := range r.counts { // order-free: a map again
		out[k] = *c
	}
	return out
}

// KindInFlight sums up the unfinished effects of one kind.
type KindInFlight struct {
	Kind                     string
	Queued, Started, Overdue int
	// Oldest is how long the oldest effect has been in its phase, 0 if all are Standing.
	Oldest time.Duration
}

// UnderWay sums up the unfinished effects by kind, in order of kind.
func (r *Runner) UnderWay() []KindInFlight {
	now := r.clock.Now()
	by := map[string]*KindInFlight{}
	r.mu.Lock()
	for e := r.first; e != nil; e = e.next {
		k := by[e.Kind]
		if k == nil {
			k = &KindInFlight{Kind: e.Kind}
			by[e.Kind] = k
		}
		switch e.Phase {
		case EffectQueued:
			k.Queued++
		case EffectStarted:
			k.Started++
		default:
			k.Overdue++
		}
		if !e.Standing {
			k.Oldest = max(k.Oldest, now.Sub(e.Since))
		}
	}
	r.mu.Unlock()
	out := make([]KindInFlight, 0, len(by))
	for _, k := range by { // order-free: sorted below
		out = append(out, *k)
	}
	slices.SortFunc(out, func(a, b KindInFlight) int { return cmp.Compare(a.Kind, b.Kind) })
	return out
}

func (r *Runner) countLocked(kind string) *KindCount {
	c := r.counts[kind]
	if c == nil {
		c = &KindCount{}
		r.counts[kind] = c
	}
	return c
}
