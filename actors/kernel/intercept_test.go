package kernel

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/tests/check"
)

// noted is message n of a sender.
type noted struct {
	from string
	n    int
}

// notes writes down what it gets.
type notes struct {
	got  map[string][]int
	lost *int
}

func (notes) Start(*Context[noted])                {}
func (s notes) Receive(_ *Context[noted], m noted) { s.got[m.from] = append(s.got[m.from], m.n) }
func (s notes) Overflowed(*Context[noted])         { *s.lost++ }

// TestIntercept: whatever becomes of messages, those of one sender to one receiver come in order, and
// none is lost or doubled but as asked.
func TestIntercept(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var fate Fate
		asked := 0
		b := newBench(t, func(c *Config) {
			c.Intercept = func(from, to string, _ any) Fate {
				if asked++; to != "sink" || from != "a" && from != "b" {
					rt.Fatalf("asked about a message from %q to %q", from, to)
				}
				return fate
			}
		})
		s := notes{got: map[string][]int{}, lost: new(int)}
		ref := check.Value(SpawnRoot(b.sys, Spec[noted]{Name: "sink", New: func() Behavior[noted] { return s }}))(rt)
		want, dropped := map[string][]int{}, 0
		senders := map[string]Ref[do]{"a": b.root(b.spec("a")), "b": b.root(b.spec("b"))}
		for n := range 40 {
			name := rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "from")
			f := Fate{Twice: rapid.Bool().Draw(rt, "twice"), Drop: rapid.IntRange(0, 3).Draw(rt, "drop") == 0}
			f.Delay = time.Duration(rapid.SampledFrom([]int{0, 0, 50, 100, 1000}).Draw(rt, "delay")) * time.Millisecond
			senders[name].Tell(func(ctx *Context[do]) {
				ctx.Self().Tell(func(*Context[do]) {}) // to oneself, which is no business of others
				fate = f
				ref.Tell(noted{name, n})
			})
			switch {
			case f.Drop:
				dropped++
			case f.Twice:
				want[name] = append(want[name], n, n)
			default:
				want[name] = append(want[name], n)
			}
			b.Advance(time.Duration(rapid.SampledFrom([]int{0, 0, 50}).Draw(rt, "pause")) * time.Millisecond)
		}
		ref.Tell(noted{"outside", 1})
		b.Advance(time.Hour)
		for _, name := range []string{"a", "b"} {
			check.Same(rt, s.got[name], want[name], "from %s came", name)
		}
		if asked != 40 || len(s.got["outside"]) != 1 {
			rt.Errorf("asked %d times, want 40; from outside came %v", asked, s.got["outside"])
		}
		if (dropped > 0) != (*s.lost > 0) || b.sys.Dropped() != uint64(dropped) || len(b.sys.interceptor.lines) > 0 {
			rt.Errorf("%d were dropped, the receiver was told %d times, %d lines are busy", dropped, *s.lost, len(b.sys.interceptor.lines))
		}
	})
}

// TestDelayReorders: a delayed message is overtaken by those of others.
func TestDelayReorders(t *testing.T) {
	b := newBench(t, func(c *Config) {
		c.Intercept = func(from, _ string, _ any) Fate {
			if from == "a" {
				return Fate{Delay: time.Second}
			}
			return Fate{}
		}
	})
	var got []string
	to := b.root(b.spec("to"))
	for _, name := range []string{"a", "b"} {
		b.root(b.spec(name)).Tell(func(*Context[do]) { to.Tell(func(*Context[do]) { got = append(got, name) }) })
		b.Settle()
	}
	b.Advance(2 * time.Second)
	check.Same(t, got, []string{"b", "a"}, "came %v, want b before a", got)
	from, _ := Lookup[do](b.sys, "a")
	from.Tell(func(*Context[do]) { to.Tell(func(*Context[do]) { got = append(got, "after its death") }) })
	b.Settle()
	KillRoot(to)
	b.Settle()
	b.root(b.spec("to"))
	b.Advance(2 * time.Second)
	check.Equal(t, len(got), 2, "came %v: a message outlived its process", got)
}

// TestWithin: an actor that panics between two sends has sent the first, and not the second.
func TestWithin(t *testing.T) {
	at := 0
	var asked []string
	b := newBench(t, func(c *Config) {
		c.Within = func(actor string, m any, k int) {
			if _, is := m.(do); !is {
				t.Errorf("actor %s handles %T", actor, m)
			}
			if asked = append(asked, actor); k == at {
				panic("planted")
			}
		}
	})
	runner := check.Value(NewRunner(b.sys))(t)
	var got []string
	to := b.root(b.spec("to"))
	spec := b.spec("a")
	spec.Runner = runner
	from := b.root(spec)
	say := func(what string) do { return func(*Context[do]) { got = append(got, what) } }
	for at = range 4 {
		got, asked = nil, nil
		from.Tell(func(ctx *Context[do]) {
			to.Tell(say("first"))
			ctx.Do(Effect[do]{Kind: "Call", Lane: "l", Deadline: time.Second,
				Run:     func(_ context.Context, _ EffectID, done func(do)) { done(say("second")) },
				Expired: func(EffectID) do { return say("expired") }})
			to.Tell(say("third"))
		})
		b.Advance(time.Minute)
		slices.Sort(got)
		want := map[int]string{0: "first second third", 1: "", 2: "first", 3: "first second"}[at]
		check.Equal(t, strings.Join(got, " "), want, "with a panic at send %d came", at)
		check.Count(t, len(asked), map[int]int{0: 3, 1: 1, 2: 2, 3: 3}[at], "with a panic at send %d asked %d times", at)
	}
	check.Equal(t, len(b.crashes), 3, "%d crashes, want 3", len(b.crashes))
}

// TestMeddlingNeedsASimulation: the hooks are not for goroutines.
func TestMeddlingNeedsASimulation(t *testing.T) {
	if _, err := NewSystem(Config{Clock: WallClock{}, Within: func(string, any, int) {}}); err == nil {
		t.Error("a system on the wall clock takes Within")
	}
}
