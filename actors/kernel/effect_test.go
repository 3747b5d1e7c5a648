package kernel

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/rescue"
	"github.com/troupe-dev/troupe/tests/check"
)

// calls is a world of calls that answer when the test says so.
type calls struct {
	b    *bench
	run  *Runner
	live map[string]*call
}

type call struct {
	ctx  context.Context
	id   EffectID
	done func(do)
}

func newCalls(t *testing.T, pools ...Pool) *calls {
	b := newBench(t)
	run := check.Value(NewRunner(b.sys, pools...))(t)
	return &calls{b, run, map[string]*call{}}
}

func (c *calls) root(name string, change ...func(*lab)) Ref[do] {
	spec := c.b.spec(name, change...)
	spec.Runner = c.run
	return c.b.root(spec)
}

// effect is one named object, that writes down its start, result and expiry.
func (c *calls) effect(object, lane string, change ...func(*Effect[do])) Effect[do] {
	e := Effect[do]{
		Kind: "Call", Object: object, Lane: lane, Tag: "tag of " + object, Deadline: time.Minute,
		Expired: func(EffectID) do { return c.b.say(object + " expired") },
		Run: func(ctx context.Context, id EffectID, done func(do)) {
			c.b.log = append(c.b.log, object+" runs")
			c.live[object] = &call{ctx, id, done}
		},
	}
	for _, f := range change {
		f(&e)
	}
	return e
}

func (c *calls) do(r Ref[do], es ...Effect[do]) {
	r.Tell(func(ctx *Context[do]) {
		for _, e := range es {
			ctx.Do(e)
		}
	})
	c.b.Settle()
}

func (c *calls) answer(object string) {
	c.live[object].done(c.b.say(object + " done"))
	c.b.Settle()
}

func TestLaneRunsOneAtATime(t *testing.T) {
	c := newCalls(t)
	r, o := c.root("a"), c.root("b")
	c.b.took()
	c.do(r, c.effect("1", "x"), c.effect("2", "x"), c.effect("3", "x"), c.effect("other lane", "y"))
	c.do(o, c.effect("other owner", "x"))
	equal(t, "first", c.b.took(), []string{"1 runs", "other lane runs", "other owner runs"})
	c.answer("1")
	equal(t, "then", c.b.took(), []string{"2 runs", "1 done"})
	c.answer("2")
	c.answer("3")
	equal(t, "then", c.b.took(), []string{"3 runs", "2 done", "3 done"})
	if n := c.run.Counts()["Call"]; n.Finished != 3 {
		t.Errorf("%+v", n)
	}
}

func TestDeadlineThenLate(t *testing.T) {
	c := newCalls(t, starts)
	r := c.root("a")
	c.do(r, c.effect("1", "x", pooled(0)), c.effect("2", "x", pooled(0)))
	c.b.took()
	c.b.Advance(time.Minute - 1)
	if c.live["1"].ctx.Err() != nil {
		t.Error("ended early")
	}
	c.b.Advance(1)
	equal(t, "at the deadline", c.b.took(), []string{"2 runs", "1 expired"})
	if c.live["1"].ctx.Err() == nil {
		t.Error("ctx goes on")
	}
	r.Tell(func(ctx *Context[do]) {
		if in := ctx.InFlight(); len(in) != 1 || in[0].Object != "2" {
			t.Errorf("%+v", in)
		}
	})
	c.b.Settle()
	if in := c.run.InFlight("a"); len(in) != 2 || in[0].Phase != EffectExpired || in[0].HoldsSlot != "" {
		t.Errorf("%+v", in)
	}
	c.answer("1")
	equal(t, "late", c.b.took(), []string{"1 done"})
	c.answer("1")
	equal(t, "twice", c.b.took(), nil)
	c.held(t, 1, 0)
	c.answer("2")
	c.held(t, 0, 0)
	if n := c.run.Counts()["Call"]; n.Finished != 1 || n.Expired != 1 || n.Late != 1 {
		t.Errorf("%+v", n)
	}
}

func TestDoneInsideRun(t *testing.T) {
	c := newCalls(t, Pool{Name: "start", Size: 1, MinHold: time.Second, MaxHold: time.Second})
	r := c.root("a")
	c.b.took()
	now := func(e *Effect[do]) {
		pooled(0)(e)
		object := e.Object
		e.Run = func(_ context.Context, _ EffectID, done func(do)) {
			done(c.b.say(object + " done"))
			done(c.b.say("twice"))
		}
	}
	c.do(r, c.effect("slow", "x", pooled(0)), c.effect("2", "x", now), c.effect("3", "x", now), c.effect("4", "y", now))
	c.b.took()
	c.answer("slow")
	got := c.b.took()
	if len(got) != 4 || strings.Contains(strings.Join(got, " "), "twice") {
		t.Error(got)
	}
	c.held(t, 0, 0)
	if n := c.b.Timers(); n > 1 { // the one for slots that owners do not take
		t.Error(n, "timers are left")
	}
	c.b.Advance(keepFor)
	if n := c.b.Timers(); n != 0 {
		t.Error(n, "timers are left for ever")
	}
}

func TestCrashDropsWhatHasNotBegunAtOnce(t *testing.T) {
	c := newCalls(t, Pool{Name: "start", Size: 1, MinHold: time.Second, MaxHold: time.Second})
	var inherited []EffectInfo
	r := c.root("a", func(l *lab) {
		l.onStart = func(ctx *Context[do]) { inherited = ctx.InFlight() }
	})
	o := c.root("b")
	c.do(r, c.effect("running", "x", pooled(0)), c.effect("same lane", "x"), c.effect("for a slot", "y", pooled(0)))
	c.do(o, c.effect("of another", "x", pooled(0)))
	c.b.took()
	r.Tell(boom("x"))
	c.b.RunUntil(c.b.Now(), func() bool { return false })
	c.held(t, 1, 1)
	c.answer("running")
	c.b.Settle()
	equal(t, "during the backoff", c.b.took(), []string{"of another runs"})
	c.b.Advance(time.Second)
	equal(t, "the result reaches the next incarnation", c.b.took(), []string{"a start 2", "running done"})
	check.Equal(t, len(inherited), 0, "%+v", inherited)
	if n := c.run.Counts()["Call"]; n.Dropped != 2 {
		t.Errorf("%+v", n)
	}

	c.do(r, c.effect("slow", "x", func(e *Effect[do]) { e.Deadline = time.Hour }))
	r.Tell(boom("x"))
	c.b.Advance(time.Second)
	if len(inherited) != 1 || inherited[0].Object != "slow" || inherited[0].Tag != "tag of slow" || inherited[0].Phase != EffectStarted {
		t.Errorf("%+v", inherited)
	}
	c.b.took()
	c.do(r, c.effect("next", "x"))
	equal(t, "the lane is inherited", c.b.took(), nil)
	c.answer("slow")
	equal(t, "then", c.b.took(), []string{"next runs", "slow done"})
}

func TestEscalationDropsTheParentsQueue(t *testing.T) {
	c := newCalls(t)
	r := c.root("a")
	kid := c.b.spec("kid")
	kid.Policy = Policy{Base: 1, Max: 1, Window: time.Minute, Beyond: Escalate}
	k := c.b.child(r, kid)
	c.do(r, c.effect("1", "x"), c.effect("2", "x"))
	c.b.took()
	k.Tell(boom("x"))
	c.b.Settle()
	c.answer("1")
	equal(t, "in the parent's backoff", c.b.took(), nil)
}

func TestEffectsOfAStoppedOwner(t *testing.T) {
	c := newCalls(t, starts)
	r := c.root("a", func(l *lab) {
		l.onStop = func(ctx *Context[do]) { l.say("in flight %d", len(ctx.InFlight())) }
	})
	c.do(r, c.effect("1", "x", pooled(0)), c.effect("2", "x", pooled(0)), c.effect("3", "y"))
	c.b.took()
	StopRoot(r)
	c.b.Settle()
	equal(t, "stop", c.b.took(), []string{"a stop", "in flight 3"})
	c.answer("1")
	equal(t, "queued ones are dropped", c.b.took(), nil)
	check.Equal(t, c.b.sys.DeadLetters(), 1, "the result is no dead letter")
	c.held(t, 0, 0)

	again := c.root("a")
	c.do(again, c.effect("4", "y"))
	equal(t, "the place inherits the lane", c.b.took(), []string{"a start 1"})
	c.answer("3")
	equal(t, "and the result", c.b.took(), []string{"4 runs", "3 done"})
}

func TestCancel(t *testing.T) {
	c := newCalls(t, Pool{Name: "start", Size: 1, MinHold: time.Hour, MaxHold: time.Hour})
	r := c.root("a")
	var ids []EffectID
	r.Tell(func(ctx *Context[do]) {
		for _, e := range []Effect[do]{
			c.effect("1", "x", pooled(0)), c.effect("2", "y", pooled(0)), c.effect("3", "y"), c.effect("4", "x"),
		} {
			ids = append(ids, ctx.Do(e))
		}
	})
	c.b.Settle()
	c.b.took()
	cancel := func(id EffectID, drops bool) {
		t.Helper()
		r.Tell(func(ctx *Context[do]) {
			if dropped := ctx.Cancel(id); dropped != drops {
				t.Errorf("%d was dropped: %t", id, dropped)
			}
		})
		c.b.Settle()
	}
	cancel(ids[1], true)
	equal(t, "what waited behind it begins", c.b.took(), []string{"3 runs"})
	c.held(t, 1, 0)
	cancel(ids[0], false)
	if c.live["1"].ctx.Err() == nil {
		t.Error("ctx goes on")
	}
	equal(t, "the lane is kept", c.b.took(), nil)
	c.answer("1")
	equal(t, "until it answers", c.b.took(), []string{"4 runs", "1 done"})
	cancel(ids[0], false)
	cancel(9999, false)
	if n := c.run.Counts()["Call"]; n.Finished != 1 || n.Dropped != 1 {
		t.Errorf("%+v", n)
	}
}

func TestPanickingEffects(t *testing.T) {
	for name, change := range map[string]func(*Effect[do]){
		"Run of effect Call":     func(e *Effect[do]) { e.Run = func(context.Context, EffectID, func(do)) { panic("in the call") } },
		"Expired of effect Call": func(e *Effect[do]) { e.Expired = func(EffectID) do { panic("in the call") } },
	} {
		c := newCalls(t, starts)
		r := c.root("a")
		// The first is in the way, so that the bad one does not begin on the actor.
		c.do(r, c.effect("1", "x", pooled(0)), c.effect("2", "x", pooled(0), change), c.effect("3", "x", pooled(0)))
		c.answer("1")
		c.b.Advance(2 * time.Minute)
		c.held(t, 0, 0)
		if len(c.b.crashes) != 1 || c.b.crashes[0].Message != name || c.b.crashes[0].Reason != "in the call" ||
			!strings.Contains(c.b.crashes[0].Stack, "effect_test.go") {
			t.Errorf("%s: %+v", name, c.b.crashes)
		}
		if i := c.b.info(r); i.Status != "Running" || i.Incarnation != 2 {
			t.Errorf("%s: %+v", name, i)
		}
	}
}

// TestPanickingWork has a goroutine of a port panic. The call has failed. Who works for others goes on: the actor that it
// works for crashes, if there is one.
func TestPanickingWork(t *testing.T) {
	contains := ForPods
	contains.Contain = true
	for _, c := range []struct {
		name, of    string
		policy      Policy
		decision    Decision
		incarnation uint32
		ward        uint32
	}{
		{"its own", "", ForPods, Restart, 2, 1},
		{"its own, and more would end with it", "", ForSingletons, Contained, 1, 1},
		{"its own, and its policy says so", "", contains, Contained, 1, 1},
		{"another's", "ward", ForSingletons, Restart, 1, 2},
		{"of one that has gone", "gone", ForSingletons, Contained, 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			calls := newCalls(t, starts)
			calls.run.UseWards(func(of string) string { return "the/" + of })
			ward := calls.b.child(calls.root("the"), calls.b.spec("ward"))
			spec := calls.b.spec("a")
			spec.Runner, spec.Policy = calls.run, c.policy
			r := calls.b.root(spec)
			calls.do(r, calls.effect("1", "x", func(e *Effect[do]) {
				e.For = c.of
				e.Run = func(ctx context.Context, _ EffectID, done func(do)) {
					defer rescue.Call(ctx, func(why string) { done(calls.b.say("failed: " + why[:len("panic: in the call")])) })
					panic("in the call")
				}
			}))
			calls.b.Advance(time.Minute)
			if took := calls.b.took(); !slices.Contains(took, "failed: panic: in the call") {
				t.Errorf("the call has not failed: %q", took)
			}
			if n := len(calls.b.crashes); n != 1 {
				t.Fatalf("%d crashes; want 1", n)
			}
			crash := calls.b.crashes[0]
			if crash.Reason != "in the call" || crash.Message != "work of effect Call" || crash.Decision != c.decision ||
				!strings.Contains(crash.Stack, "effect_test.go") || !strings.Contains(crash.Detail, "Object:1") {
				t.Errorf("%+v", crash)
			}
			if i := calls.b.info(r); i.Status != "Running" || i.Incarnation != c.incarnation {
				t.Errorf("%+v", i)
			}
			if i := calls.b.info(ward); i.Status != "Running" || i.Incarnation != c.ward {
				t.Errorf("the other: %+v", i)
			}
		})
	}
}

func TestRunnerClose(t *testing.T) {
	c := newCalls(t, starts)
	r := c.root("a")
	c.do(r, c.effect("1", "x", pooled(0)), c.effect("2", "x", pooled(0)), c.effect("3", "y", pooled(0)), c.effect("4", "z", pooled(0)),
		c.effect("5", "w", func(e *Effect[do]) { e.Deadline = time.Second }))
	c.b.Advance(time.Second)
	c.b.took()
	c.run.Close()
	for _, o := range []string{"1", "3", "5"} {
		if c.live[o].ctx.Err() == nil {
			t.Error("ctx goes on:", o)
		}
		c.answer(o)
	}
	c.do(r, c.effect("6", "x"))
	c.b.Advance(time.Hour)
	equal(t, "after", c.b.took(), nil)
	c.held(t, 0, 0)
	check.Equal(t, len(c.run.InFlight("a")), 0, "%+v", c.run.InFlight("a"))
}

func TestBadEffectsAndPools(t *testing.T) {
	c := newCalls(t, starts)
	r := c.root("a")
	for i, change := range []func(*Effect[do]){
		func(e *Effect[do]) { e.Deadline = 0 },
		func(e *Effect[do]) { e.Run = nil },
		func(e *Effect[do]) { e.Expired = nil },
		func(e *Effect[do]) { e.Lane = "" },
		func(e *Effect[do]) { e.Pool = "nobody's" },
	} {
		c.do(r, c.effect("1", "x", change))
		check.Fatal(t, check.Is(len(c.b.crashes), i+1, "%d: no crash", i))
		c.b.Advance(time.Minute)
	}
	if len(c.live) != 0 || len(c.run.InFlight("a")) != 0 {
		t.Error("something is left")
	}
	for _, p := range [][]Pool{{{}}, {starts, starts}, {{Name: "x", Size: 1, MinHold: 2, MaxHold: 1}}} {
		check.Fails(t, check.Err(NewRunner(c.b.sys, p...)), "%+v: no error", p)
	}
}

// A stream stands without a deadline, answers in the end, and is let go of at
// the end of its runner.
func TestStandingEffect(t *testing.T) {
	standing := func(e *Effect[do]) { e.Standing, e.Deadline = true, 0 }
	c := newCalls(t)
	r := c.root("a")
	c.do(r, c.effect("stream", "s", standing), c.effect("other", "o", standing))
	c.b.Advance(1000 * time.Hour)
	if c.live["stream"].ctx.Err() != nil || len(c.b.sys.Snapshot("a")[0].Effects) != 2 {
		t.Fatal("a standing effect did not stand")
	}
	c.live["stream"].done(c.b.say("stream ended"))
	c.b.Settle()
	check.Equal(t, c.b.log[len(c.b.log)-1], "stream ended", "last")
	c.run.Close()
	if c.live["other"].ctx.Err() == nil {
		t.Error("the runner was closed and the stream goes on")
	}
}

func TestEffectsOf(t *testing.T) {
	b := newBench(t)
	runner := check.Value(NewRunner(b.sys))(t)
	spec := b.spec("a")
	spec.Runner = runner
	parent := b.root(spec)
	child := b.child(parent, b.spec("b"))
	child.Tell(func(ctx *Context[do]) {
		ctx.Do(Effect[do]{
			Kind: "Mount", Object: "x", Lane: "l", Deadline: time.Second,
			Run: func(context.Context, EffectID, func(do)) {}, Expired: func(EffectID) do { return b.say("expired") },
		})
	})
	b.Settle()
	var got []EffectInfo
	var panicked any
	parent.Tell(func(ctx *Context[do]) { got = append(EffectsOf(ctx, child), EffectsOf(ctx, Ref[do]{})...) })
	child.Tell(func(ctx *Context[do]) {
		defer func() { panicked = recover() }()
		EffectsOf(ctx, parent)
	})
	b.Settle()
	if len(got) != 1 || got[0].Kind != "Mount" || got[0].Phase != EffectStarted {
		t.Errorf("effects %+v", got)
	}
	if panicked == nil {
		t.Error("a child may ask for its parent's")
	}
}
