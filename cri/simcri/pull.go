package simcri

import (
	"math"
	"math/bits"
	"slices"
	"time"
)

// pulls are the running downloads, which share the bandwidth evenly.
//
// Instead of a countdown per download, share counts the bytes that each has received since the
// first one began. A download of n bytes that begins at share s is complete when share reaches s
// + n. All numbers are integers: rounding would depend on the processor.
type pulls struct {
	share     uint64        // in 1/shareUnit bytes
	at        time.Duration // when share was right
	active    []*pull
	stopTimer func() bool
}

// shareUnit is the number of parts of a byte that share counts in.
const shareUnit = 256

type pull struct {
	image   *image
	end     uint64 // complete when pulls.share is this
	waiters []*waiter
}

// pull downloads an image, or joins its running download, and calls complete under the lock at
// the end. cancel stops waiting; a download without a waiter is cancelled.
func (r *Runtime) pull(img *image, complete func()) (cancel func()) {
	if r.pulling == nil {
		r.pulling = &pulls{at: r.uptime()}
	}
	w := &waiter{complete}
	ps := r.pulling
	r.advancePulls()
	var p *pull
	if i := slices.IndexFunc(ps.active, func(p *pull) bool { return p.image.name == img.name }); i >= 0 {
		p = ps.active[i]
	} else {
		size := min(max(img.size, 1), math.MaxUint64/shareUnit/2)
		p = &pull{image: img, end: ps.share + size*shareUnit}
		ps.active = append(ps.active, p)
	}
	p.waiters = append(p.waiters, w)
	r.schedulePulls()
	return func() {
		r.advancePulls()
		p.waiters = slices.DeleteFunc(p.waiters, func(x *waiter) bool { return x == w })
		if len(p.waiters) == 0 {
			ps.active = slices.DeleteFunc(ps.active, func(x *pull) bool { return x == p })
		}
		r.schedulePulls()
	}
}

// advancePulls brings share up to now.
func (r *Runtime) advancePulls() {
	ps, now := r.pulling, r.uptime()
	elapsed := uint64(max(now-ps.at, 0))
	ps.at = now
	if n := uint64(len(ps.active)); n > 0 {
		ps.share += mulDiv(elapsed, r.cfg.Bandwidth*shareUnit, n*uint64(time.Second))
	} else {
		ps.share = 0 // no download refers to it
	}
}

// schedulePulls sets the timer to when the next download is complete.
func (r *Runtime) schedulePulls() {
	ps := r.pulling
	if ps.stopTimer != nil {
		ps.stopTimer()
		ps.stopTimer = nil
	}
	n := uint64(len(ps.active))
	if n == 0 {
		return
	}
	first := ps.active[0].end
	for _, p := range ps.active[1:] {
		first = min(first, p.end)
	}
	// Rounded up, so that share is there when the timer fires. A clock that is not ours may be late with that: one
	// that is complete already ends at once.
	wait := mulDiv(max(first, ps.share)-ps.share, n*uint64(time.Second), r.cfg.Bandwidth*shareUnit) + 1
	ps.stopTimer = r.after(time.Duration(min(wait, math.MaxInt64)), r.completePulls)
}

// completePulls ends the complete downloads, in the order of their start.
func (r *Runtime) completePulls() {
	ps := r.pulling
	ps.stopTimer = nil
	r.advancePulls()
	var complete []*pull
	ps.active = slices.DeleteFunc(ps.active, func(p *pull) bool {
		if p.end > ps.share {
			return false
		}
		complete = append(complete, p)
		return true
	})
	for _, p := range complete {
		r.addImage(p.image)
		for _, w := range p.waiters {
			w.f()
		}
	}
	r.schedulePulls()
}

// mulDiv is a*b/c, rounded down, MaxUint64 if it is more than that.
func mulDiv(a, b, c uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	if hi >= c {
		return math.MaxUint64
	}
	q, _ := bits.Div64(hi, lo, c)
	return q
}
