package kernel

import (
	"sync"
	"time"
	"unsafe"
)

// NodeClock is the clock of one machine of a simulation. Like a real one it has two readings: the
// wall clock, which can be set, and the monotonic one, by which timers go and durations are
// measured. Its times have both, like those of time.Now: Sub and Before between two of them go by
// the monotonic reading, while Unix and comparisons with other times go by the wall clock.
//
// It belongs to its Virtual, and is as little safe for concurrent use.
type NodeClock struct {
	v *Virtual
	// ahead is what the wall clock is ahead of the Virtual.
	ahead time.Duration
	// slept is how long the machine was suspended in all, until wakes at last.
	slept time.Duration
	wakes time.Time
}

// NodeClock makes a clock that shows the time of v until it is changed.
func (v *Virtual) NodeClock() *NodeClock {
	checkReadings()
	return &NodeClock{v: v, wakes: v.start}
}

// Now implements Clock.
func (c *NodeClock) Now() time.Time {
	return withMonotonic(c.v.now.Add(c.ahead), c.awake().Sub(c.v.start)-c.slept)
}

// awake is now, or the end of the machine's sleep if that is later.
func (c *NodeClock) awake() time.Time {
	if c.wakes.After(c.v.now) {
		return c.wakes
	}
	return c.v.now
}

// AfterFunc implements Clock. Timers go by the monotonic reading.
func (c *NodeClock) AfterFunc(d time.Duration, f func()) func() bool {
	return c.v.timers.set(c.v.offset(c.awake())+max(d, 0), c, f)
}

// Step sets the wall clock forward by d, or back if d is negative. No timer notices.
func (c *NodeClock) Step(d time.Duration) { c.ahead += d }

// Suspend lets the machine sleep for d from now: the wall clock goes on, the monotonic reading and
// all timers stand still. See Runner.Pause for what else stands still then.
func (c *NodeClock) Suspend(d time.Duration) {
	d = max(d, 0)
	c.wakes = c.awake().Add(d)
	c.slept += d
	c.v.timers.postpone(c, d)
}

// timeBits is a time.Time of Go 1.9 and later. No function of package time makes one with a chosen
// monotonic reading, and without it no simulation behaves as a machine whose clock was set.
type timeBits struct {
	wall uint64 // a flag, 33 bits of seconds since 1885, 30 of nanoseconds
	ext  int64  // the monotonic reading
	loc  *time.Location
}

const (
	monotonicFlag = 1 << 63
	// since1885 is the Unix time 0, in seconds since 1885.
	since1885 = 2682288000
)

// withMonotonic is wall with a monotonic reading. A wall time before 1885 or after 2157 has no room
// for one.
func withMonotonic(wall time.Time, monotonic time.Duration) time.Time {
	seconds := wall.Unix() + since1885
	if seconds < 0 || seconds >= 1<<33 {
		return wall
	}
	b := (*timeBits)(unsafe.Pointer(&wall))
	b.wall = monotonicFlag | uint64(seconds)<<30 | uint64(wall.Nanosecond())
	b.ext = int64(monotonic)
	return wall
}

// checkReadings panics if package time no longer has the layout of timeBits.
var checkReadings = sync.OnceFunc(func() {
	at := time.Date(2030, 1, 2, 3, 4, 5, 6, time.UTC)
	a, b := withMonotonic(at, 7*time.Second), withMonotonic(at.Add(-time.Hour), 9*time.Second)
	switch {
	case unsafe.Sizeof(at) != unsafe.Sizeof(timeBits{}), !a.Equal(at), a.UnixNano() != at.UnixNano(),
		b.Sub(a) != 2*time.Second, !a.Before(b), b.Round(0).Sub(at) != -time.Hour, a.Location() != time.UTC:
		panic("kernel: this version of Go keeps the readings of a time.Time in another way: see timeBits")
	}
})
