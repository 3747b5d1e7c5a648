package kernel

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
)

// summing is an actor with an invariant.
type summing struct {
	lab
	broken error
}

func (s *summing) Check() error { return s.broken }

// TestViolations: an invariant that does not hold is told after the message that broke it, with the actor and in its
// words; and none where nobody asks.
func TestViolations(t *testing.T) {
	for name, c := range map[string]struct {
		breaks func(*summing, *Runner, *Context[do])
		words  string
	}{
		"of the actor": {func(s *summing, _ *Runner, _ *Context[do]) {
			s.broken = errors.New("sum: it is the sum")
		}, "a, after kernel.do: sum: it is the sum"},
		"a slot that nobody holds": {func(_ *summing, r *Runner, _ *Context[do]) {
			r.pools["p"].held++
		}, "0 <= held <= Size, the number of effects whose HoldsSlot is Name: 2 of 1, and 1 have one"},
		"a free slot": {func(_ *summing, r *Runner, _ *Context[do]) {
			r.first.HoldsSlot, r.pools["p"].held = "", 0
		}, "empty if held < Size and ahead holds no slot"},
		"not in the queue": {func(_ *summing, r *Runner, _ *Context[do]) {
			r.last.waits = false
		}, "and has waits set: work second is queued"},
		"nobody reaps": {func(_ *summing, r *Runner, _ *Context[do]) {
			r.kept = append(r.kept, &effect{slots: r.pools["p"]})
		}, "if there are any, reaping, and a timer is set for the oldest: 1 are kept"},
		"in one list": {func(_ *summing, _ *Runner, ctx *Context[do]) {
			ctx.cell.effects = ctx.cell.effects[:1]
		}, "has e iff the list has: work second is in the list only"},
		"of nobody": {func(_ *summing, r *Runner, _ *Context[do]) {
			r.orphans["b"] = []*effect{{}}
		}, "has e iff the list has: it has 2, and they have 2, and 1 orphans more"},
		"twice in one list": {func(_ *summing, _ *Runner, ctx *Context[do]) {
			ctx.cell.effects = append(ctx.cell.effects, ctx.cell.effects[1])
		}, "has e iff the list has: it has 2, and they have 3, and 0 orphans more"},
		"not scheduled": {func(_ *summing, _ *Runner, ctx *Context[do]) {
			ctx.cell.scheduled = false
		}, "scheduled iff the scheduler holds the cell, or is in its step"},
	} {
		for _, asked := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				var got []string
				b := newBench(t, func(c *Config) {
					if c.Violated = nil; asked {
						c.Violated = func(v *Violation) { got = append(got, v.String()) }
					}
				})
				s := &summing{lab: lab{log: &b.log}}
				run := check.Value(NewRunner(b.sys, Pool{Name: "p", Size: 1, MinHold: time.Minute, MaxHold: time.Minute}))(t)
				a := b.root(Spec[do]{Name: "a", Runner: run, New: func() Behavior[do] { return s }})
				a.Tell(func(ctx *Context[do]) {
					for _, object := range []string{"first", "second"} {
						ctx.Do(Effect[do]{Kind: "work", Object: object, Lane: object, Pool: "p", Deadline: time.Hour,
							Run:     func(context.Context, EffectID, func(do)) {},
							Expired: func(EffectID) do { return b.say("expired") }})
					}
				})
				b.Settle()
				check.None(t, got, "before it was broken")
				a.Tell(func(ctx *Context[do]) { c.breaks(s, run, ctx) })
				b.Settle()
				if !asked {
					check.None(t, got, "nobody asked")
					return
				}
				check.Fatal(t, check.Is(len(got), 1, "told %q", got))
				check.Has(t, got[0], c.words, "%q, want %q", got[0], c.words)
				check.Has(t, got[0], "a, after kernel.do: ", "%q", got[0])
			})
		}
	}
}

// TestCheckedWhen: an actor is checked after its start, each message, an overflow and the end of a child.
func TestCheckedWhen(t *testing.T) {
	var got []string
	b := newBench(t, func(c *Config) {
		c.Violated = func(v *Violation) { got = append(got, v.Message) }
		c.MailboxLimit = 1
	})
	s := &summing{broken: errors.New("always")}
	a := b.root(Spec[do]{Name: "a", New: func() Behavior[do] { return s }})
	child := b.child(a, b.spec("b"))
	a.Tell(func(ctx *Context[do]) { StopChild(ctx, child) })
	b.Settle()
	for range 2 {
		a.Tell(func(*Context[do]) {})
	}
	b.Settle()
	check.Same(t, got, []string{"Start", "kernel.do", "kernel.do", "ChildStopped", "Overflowed", "kernel.do"}, "checked after")
}
