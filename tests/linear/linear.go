// Package linear measures how the cost of work grows with how much there is to do: in one run, by the CPU that it uses,
// so that a busy machine changes nothing.
package linear

import (
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"time"
)

// Bar is the most that four times as much may cost: linear is 4 and quadratic 16.
const Bar = 7.0

// bar is that of Held, which measures work of less than a millisecond: it is greater, because what does not fit in the
// processor's cache any more costs twice as much (7.9 × was measured of work that sorts and fills maps). It is greater
// still with the race detector, which has memory of its own for all memory.
var bar = 9.0

// Measured does the work of f on one thread, without a collection of garbage, which would count for whoever it is in.
func Measured(f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	runtime.GC()
	before := debug.SetGCPercent(-1)
	limit := debug.SetMemoryLimit(2 << 30)
	defer func() { debug.SetGCPercent(before); debug.SetMemoryLimit(limit) }()
	f()
}

// held is how many calls of Held are under way.
var held atomic.Int32

// Measures says whether Held is being called: what is made meanwhile must not cost more than what is measured.
func Measures() bool { return held.Load() > 0 }

// Held fails the test if work with four times as much takes more than linear work does. prepare is called anew for each
// measure, and its work must be done on the goroutine that calls it. The least of several measures counts, and one that
// fails is made again, so that only what is always so fails.
func Held(t testing.TB, n int, prepare func(n int) (work func())) {
	t.Helper()
	held.Add(1)
	defer held.Add(-1)
	const tries, measures = 3, 3
	took := func(n int) time.Duration {
		least := time.Duration(0)
		for range measures {
			work := prepare(n)
			Measured(func() {
				begun := CPU()
				work()
				if d := CPU() - begun; least == 0 || d < least {
					least = d
				}
			})
		}
		return least
	}
	took(4 * n) // memory that is new
	for i := range tries {
		much, little := took(4*n), took(n)
		grew := float64(much) / float64(max(little, time.Microsecond))
		t.Logf("%d take %v, %d take %v: %.1f ×", n, little, 4*n, much, grew)
		if grew <= bar {
			return
		}
		if i == tries-1 {
			t.Errorf("four times as much takes %.1f × as long, want at most %v ×", grew, bar)
		}
	}
}
