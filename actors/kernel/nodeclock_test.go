package kernel

import (
	"context"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
)

// TestNodeClockReadings: times compare as those of a machine whose clock was set.
func TestNodeClockReadings(t *testing.T) {
	v := NewVirtual(1, start)
	c := v.NodeClock()
	if !c.Now().Equal(v.Now()) || c.Now().UnixNano() != start.UnixNano() {
		t.Fatalf("it begins at %v, want %v", c.Now(), start)
	}
	before := c.Now()
	v.Advance(time.Minute)
	c.Step(-time.Hour)
	v.Advance(time.Second)
	after := c.Now()
	check.Count(t, after.Sub(before), 61*time.Second, "%v passed, want 61 s")
	if !before.Before(after) || !after.After(before) {
		t.Error("the later time is not after the earlier one")
	}
	check.Equal(t, after.Round(0).Sub(before), 61*time.Second-time.Hour, "the wall clock moved by")
	check.Equal(t, time.Duration(after.UnixNano()-before.UnixNano()), 61*time.Second-time.Hour, "Unix time moved by")
	check.Count(t, after.Add(time.Second).Sub(before), 62*time.Second, "a second later %v passed")
	check.Equal(t, v.Now().Sub(start), 61*time.Second, "the world's clock went to")
	check.Equal(t, NewVirtual(1, time.Date(1800, 1, 1, 0, 0, 0, 0, time.UTC)).NodeClock().Now().Year(), 1800, "the year")
}

// TestNodeClockTimers: they go by the monotonic reading.
func TestNodeClockTimers(t *testing.T) {
	v := NewVirtual(1, start)
	c := v.NodeClock()
	var fired []string
	set := func(on Clock, d time.Duration, name string) func() bool {
		return on.AfterFunc(d, func() { fired = append(fired, name+" "+v.Now().Sub(start).String()) })
	}
	set(c, 10*time.Second, "first")
	set(c, math.MaxInt64-1, "never")
	set(c, 11*time.Second, "second")
	set(v, 12*time.Second, "world's")
	stop := set(c, 10*time.Second, "stopped")
	c.Step(time.Hour)
	v.Advance(5 * time.Second)
	c.Suspend(time.Minute)
	if !stop() || stop() {
		t.Error("a timer can be stopped while the machine sleeps, and once")
	}
	asleep := c.Now()
	v.Advance(30 * time.Second)
	set(c, time.Second, "set asleep")
	if c.Now().Sub(asleep) != 0 || c.Now().Unix()-asleep.Unix() != 30 {
		t.Error("in its sleep, wall time passes and monotonic time does not")
	}
	v.Advance(time.Hour)
	check.Count(t, c.Now().Sub(asleep), time.Hour-30*time.Second, "after its sleep %v have passed")
	check.Same(t, fired, []string{"world's 12s", "set asleep 1m6s", "first 1m10s", "second 1m11s"}, "fired")
}

// TestPause: a paused process does nothing, and has all at once afterwards.
func TestPause(t *testing.T) {
	l := newBench(t)
	v := l.Virtual
	r := check.Value(NewRunner(l.sys))(t)
	c := v.NodeClock()
	c.Step(-time.Hour)
	r.UseClock(c)
	var got []string
	note := func(what string) { got = append(got, what+" "+v.Now().Sub(start).String()) }
	var answers []func(string)
	effect := func(deadline time.Duration) Effect[string] {
		return Effect[string]{Kind: "Call", Lane: "l", Deadline: deadline,
			Run: func(_ context.Context, _ EffectID, done func(string)) {
				note("begun")
				answers = append(answers, done)
			},
			Expired: func(EffectID) string { return "expired" }}
	}
	ref := check.Value(SpawnRoot(l.sys, Spec[string]{Name: "paused", Runner: r, New: func() Behavior[string] {
		return pausedActor{note: note, begin: func(ctx *Context[string]) {
			check.Equal(t, ctx.Now().Unix(), start.Add(-time.Hour).Unix(), "the actor reads %v", ctx.Now())
			ctx.Do(effect(time.Minute))
			ctx.Do(effect(5 * time.Second))
			ctx.After(2*time.Second, "timer")
		}}
	}}))(t)
	v.Settle()
	v.AfterFunc(time.Second, r.Pause)
	v.AfterFunc(3*time.Second, func() { ref.Tell("told"); answers[0]("answered") })
	v.AfterFunc(10*time.Second, r.Resume)
	v.Advance(20 * time.Second)
	slices.Sort(got[1:])
	want := []string{"begun 0s", "answered 10s", "begun 10s", "expired 15s", "timer 10s", "told 10s"}
	check.Same(t, got, want, "got")
	r.Pause()
	ref.Tell("lost")
	KillRoot(ref)
	r.Close()
	r.Resume()
	v.Settle()
	if n := len(l.sys.Snapshot("paused")); n != 0 || len(got) != len(want) {
		t.Errorf("%d actors are left of a process that was killed in a pause, and it did %q", n, got[len(want):])
	}
}

type pausedActor struct {
	note  func(string)
	begin func(*Context[string])
}

func (a pausedActor) Start(ctx *Context[string])              { a.begin(ctx) }
func (a pausedActor) Receive(_ *Context[string], what string) { a.note(what) }
