package kernel

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/tests/check"
)

// order makes actors a, b and c, tells each n messages, and gives the order in which they were
// handled.
func order(t testing.TB, s Schedule, seed uint64, n int) string {
	t.Helper()
	b := newBench(t)
	b.SetSchedule(s, seed)
	var got []string
	var refs []Ref[do]
	for _, name := range []string{"a", "b", "c"} {
		refs = append(refs, b.root(b.spec(name)))
	}
	b.Settle()
	for range n {
		for _, r := range refs {
			r.Tell(func(ctx *Context[do]) { got = append(got, ctx.Path()) })
		}
	}
	b.Advance(time.Hour)
	check.Fatal(t, check.Is(len(got), 3*n, "%d messages were handled, want %d", len(got), 3*n))
	return strings.Join(got, "")
}

// TestStarve: a starved actor is last.
func TestStarve(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := Schedule{
			Starve:     func(path string) bool { return path == "b" },
			Priorities: rapid.Bool().Draw(rt, "priorities"), Changes: 2, Span: 20,
		}
		got := order(t, s, rapid.Uint64().Draw(rt, "seed"), 5)
		if !strings.HasSuffix(got, "bbbbb") {
			rt.Errorf("the order is %s, want b last", got)
		}
	})
}

// TestPriorities: the order has as many switches as priorities change, all orders come, and the same
// seed draws the same.
func TestPriorities(t *testing.T) {
	seen, cut := map[string]bool{}, false
	for seed := range uint64(40) {
		plain := order(t, Schedule{Priorities: true}, seed, 4)
		if len(slices.Compact([]byte(plain))) != 3 {
			t.Fatalf("seed %d: the order is %s, want one actor after the other", seed, plain)
		}
		seen[plain] = true
		s := Schedule{Priorities: true, Changes: 1, Span: 18}
		changed := order(t, s, seed, 4)
		if len(slices.Compact([]byte(changed))) > 4 {
			t.Fatalf("seed %d: the order is %s, want at most one switch more", seed, changed)
		}
		cut = cut || len(slices.Compact([]byte(changed))) == 4
		if again := order(t, s, seed, 4); again != changed {
			t.Fatalf("seed %d: %s and then %s", seed, changed, again)
		}
	}
	if len(seen) != 6 || !cut {
		t.Errorf("of 6 orders there were %d; an actor was interrupted: %v", len(seen), cut)
	}
}

// TestCost: messages take time, so that a timer overtakes a chain of them.
func TestCost(t *testing.T) {
	b := newBench(t)
	b.SetSchedule(Schedule{Cost: 10 * time.Millisecond}, 1)
	var got []string
	note := func(what string) { got = append(got, fmt.Sprint(what, " ", b.Now().Sub(start))) }
	r := b.root(b.spec("a"))
	b.Settle()
	if !b.Now().Equal(start) {
		t.Fatalf("Settle took %v", b.Now().Sub(start))
	}
	r.Tell(func(ctx *Context[do]) {
		note("first")
		ctx.After(15*time.Millisecond, func(*Context[do]) { note("timer") })
		r.Tell(func(ctx *Context[do]) {
			note("second")
			r.Tell(func(*Context[do]) {
				note("third")
				r.Tell(func(*Context[do]) { note("fourth") })
			})
		})
	})
	b.Advance(5 * time.Millisecond)
	if d := b.Now().Sub(start); d != 10*time.Millisecond || len(got) != 1 {
		t.Errorf("after %v there were %q, want the first message alone, which ends at 10ms", d, got)
	}
	b.Advance(time.Second)
	want := []string{"first 0s", "second 10ms", "third 20ms", "timer 30ms", "fourth 40ms"}
	check.Same(t, got, want, "got")
	check.Equal(t, b.Now().Sub(start), 1010*time.Millisecond, "the clock is at")
}

// TestSlow: only the messages of slow actors take time.
func TestSlow(t *testing.T) {
	b := newBench(t)
	b.SetSchedule(Schedule{Cost: 10 * time.Millisecond, Slow: func(path string) bool { return path == "slow" }}, 1)
	slow, quick := b.root(b.spec("slow")), b.root(b.spec("quick"))
	b.Settle()
	took := func(r Ref[do]) (d time.Duration) {
		begin := b.Now()
		r.Tell(func(*Context[do]) {})
		for b.Step() {
		}
		return b.Now().Sub(begin)
	}
	if s, q := took(slow), took(quick); s != 10*time.Millisecond || q != 0 {
		t.Errorf("the slow one took %v, the other %v", s, q)
	}
}
