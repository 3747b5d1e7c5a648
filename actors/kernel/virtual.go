package kernel

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Virtual is a clock and a scheduler in one. Everything runs on the goroutine that calls its
// methods. A seeded draw picks the next actor among those with a message, and time jumps to the
// next timer when there is none.
//
// Not safe for concurrent use: nothing that it runs may post from another
// goroutine.
type Virtual struct {
	start    time.Time
	now      time.Time
	rng      *rand.Rand
	runnable []*cell
	timers   timers
	steps    uint64
	moved    uint64 // steps when now last moved
	// paused is how many runners are.
	paused   int
	schedule *schedule // nil: uniform
}

// livelock bounds the messages handled without time moving. A simulation of 150,000 actors that all
// start at once needs a hundredth of it.
const livelock = 50_000_000

// NewVirtual starts at start. The same seed picks the same order.
func NewVirtual(seed uint64, start time.Time) *Virtual {
	return &Virtual{start: start, now: start, rng: rand.New(rand.NewPCG(seed, 0x7363686564756c65))}
}

// Now implements Clock.
func (v *Virtual) Now() time.Time { return v.now }

// AfterFunc implements Clock. Timers of the same time fire in the order in which they were set.
func (v *Virtual) AfterFunc(d time.Duration, f func()) func() bool {
	return v.timers.set(v.offset(v.now)+max(d, 0), nil, f)
}

// offset is t as the time since the start.
func (v *Virtual) offset(t time.Time) time.Duration { return t.Sub(v.start) }

// Timers is the number of set timers.
func (v *Virtual) Timers() int { return v.timers.len() }

func (v *Virtual) ready(c *cell) {
	if v.paused > 0 && c.runner.hold(c) {
		return
	}
	v.runnable = append(v.runnable, c)
}

// Step lets one actor handle one message, and reports whether there was one. Time moves by what the
// message costs.
func (v *Virtual) Step() bool {
	n := len(v.runnable)
	if n == 0 {
		return false
	}
	i := 0
	switch {
	case v.schedule != nil:
		i = v.schedule.pick(v.runnable, v.steps)
	case n > 1:
		i = v.rng.IntN(n)
	}
	c := v.runnable[i]
	v.runnable[i] = v.runnable[n-1]
	v.runnable[n-1] = nil
	v.runnable = v.runnable[:n-1]
	if v.steps++; v.steps-v.moved > livelock {
		panic(fmt.Sprintf("kernel: %d messages without time moving, the next to %s: actors keep one another busy for ever",
			livelock, c.path))
	}
	if c.step() {
		v.ready(c)
	}
	if s := v.schedule; s != nil && (s.Slow == nil || s.Slow(c.path)) {
		v.spend(s.Cost)
	}
	return true
}

// spend lets d pass for a message.
func (v *Virtual) spend(d time.Duration) {
	if d <= 0 {
		return
	}
	end := v.now.Add(d)
	for v.next(end) {
	}
	v.now, v.moved = end, v.steps
}

// Steps is the number of messages handled so far.
func (v *Virtual) Steps() uint64 { return v.steps }

// next fires the earliest timer not later than limit.
func (v *Virtual) next(limit time.Time) bool {
	at, f := v.timers.pop(v.offset(limit))
	if f == nil {
		return false
	}
	if t := v.start.Add(at); t.After(v.now) {
		v.now, v.moved = t, v.steps
	}
	f()
	return true
}

// Advance runs everything due within d, and moves the clock by d.
func (v *Virtual) Advance(d time.Duration) {
	end := v.now.Add(d)
	v.RunUntil(end, func() bool { return false })
	if end.After(v.now) {
		v.now, v.moved = end, v.steps
	}
}

// RunUntil runs until cond holds (true) or nothing is left to do before end (false). It checks cond
// after every message and every timer. Unlike Advance it leaves the clock at the last event.
func (v *Virtual) RunUntil(end time.Time, cond func() bool) bool {
	for {
		if cond() {
			return true
		}
		if v.now.After(end) || !v.Step() && !v.next(end) {
			return false // messages that cost time may end later
		}
	}
}

// Settle handles messages until no actor has one, without moving time, whatever messages cost.
func (v *Virtual) Settle() {
	if s := v.schedule; s != nil {
		cost := s.Cost
		s.Cost = 0
		defer func() { s.Cost = cost }()
	}
	for v.Step() {
	}
}
