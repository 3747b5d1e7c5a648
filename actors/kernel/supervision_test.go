package kernel

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/tests/check"
)

var quick = Policy{
	Base: time.Second, Max: 4 * time.Second, Restarts: 4, Window: time.Minute, Beyond: Quarantine, Retry: 5 * time.Minute,
}

func TestPolicyDecide(t *testing.T) {
	at := func(s ...int) []time.Time {
		var out []time.Time
		for _, s := range s {
			out = append(out, start.Add(time.Duration(s)*time.Second))
		}
		return out
	}
	escalating := quick
	escalating.Beyond = Escalate
	never := escalating
	never.Restarts = 0
	for _, c := range []struct {
		name   string
		policy Policy
		before []time.Time
		now    int
		want   Decision
		delay  time.Duration
		kept   int
	}{
		{"first", quick, nil, 0, Restart, time.Second, 1},
		{"second", quick, at(0), 1, Restart, 2 * time.Second, 2},
		{"third", quick, at(0, 1), 3, Restart, 4 * time.Second, 3},
		{"at the maximum", quick, at(0, 1, 3), 7, Restart, 4 * time.Second, 4},
		{"beyond", quick, at(0, 1, 3, 7), 11, Quarantine, 5 * time.Minute, 5},
		{"beyond, up", escalating, at(0, 1, 3, 7), 11, Escalate, 0, 5},
		{"the first has left the window", quick, at(0, 1, 3, 7), 60, Restart, 4 * time.Second, 4},
		{"all have", quick, at(0, 1, 3, 7), 67, Restart, time.Second, 1},
		{"on the retry", quick, at(0, 1, 3, 7, 11), 311, Quarantine, 5 * time.Minute, 5},
		{"soon after it", quick, at(0, 1, 3, 7, 11), 370, Quarantine, 5 * time.Minute, 5},
		{"a window after it", quick, at(0, 1, 3, 7, 11), 371, Restart, time.Second, 1},
		{"no restarts", never, nil, 0, Escalate, 0, 1},
	} {
		d, delay, kept := c.policy.Decide(c.before, at(c.now)[0])
		if d != c.want || delay != c.delay || len(kept) != c.kept || !kept[len(kept)-1].Equal(at(c.now)[0]) {
			t.Errorf("%s: %s after %s, %d kept; want %s after %s, %d", c.name, d, delay, len(kept), c.want, c.delay, c.kept)
		}
	}
}

// However an actor crashes: the delay grows with each crash in the window and
// never leaves [Base, Max], what is remembered is bounded, and there are never
// more than Restarts fast restarts in a window.
func TestPolicyProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Policy{
			Base: time.Duration(rapid.IntRange(1, 1000).Draw(t, "base")) * time.Millisecond, Window: time.Minute,
			Restarts: rapid.IntRange(0, 6).Draw(t, "restarts"), Beyond: rapid.SampledFrom([]Decision{Quarantine, Escalate}).Draw(t, "beyond"),
			Retry: time.Duration(rapid.IntRange(1, 200).Draw(t, "retry")) * time.Second,
		}
		p.Max = p.Base + time.Duration(rapid.IntRange(0, 10_000).Draw(t, "max"))*time.Millisecond
		check.Fatal(t, p.Validate())
		now, before := start, []time.Time(nil)
		var restarts []time.Time
		for range 40 {
			d, delay, kept := p.Decide(before, now)
			if len(kept) > p.Restarts+1 {
				t.Fatalf("%d kept", len(kept))
			}
			if d == Restart {
				if delay < p.Base || delay > p.Max {
					t.Fatalf("delay %s", delay)
				}
				restarts = append(restarts, now)
				if n := len(restarts) - 1 - p.Restarts; n >= 0 && now.Sub(restarts[n]) < p.Window {
					t.Fatalf("%d restarts in %s", p.Restarts+1, now.Sub(restarts[n]))
				}
			}
			before = kept
			now = now.Add(delay + time.Duration(rapid.IntRange(0, 90).Draw(t, "lived"))*time.Second)
		}
	})
}

// The starts of an actor that crashes at each, on virtual time.
func TestBackoffQuarantineAndRecovery(t *testing.T) {
	b := newBench(t)
	var starts []time.Duration
	bad := true
	spec := b.spec("a", func(l *lab) {
		l.onStart = func(ctx *Context[do]) {
			starts = append(starts, ctx.Now().Sub(start))
			if bad {
				panic("bad")
			}
		}
	})
	spec.Policy = quick
	r := b.root(spec)
	b.Advance(12 * time.Minute)
	s := time.Second
	want := []time.Duration{0, 1 * s, 3 * s, 7 * s, 11 * s, 311 * s, 611 * s}
	check.Same(t, starts, want, "starts at")
	if i := b.info(r); i.Status != "Quarantined" || i.Crashes != 7 || i.Restarts != 6 || i.LastCrash.Message != "Start" {
		t.Errorf("%+v", i)
	}
	if m := b.sys.Metrics()[0]; m.Quarantined != 1 || m.Crashes != 7 {
		t.Errorf("%+v", m)
	}
	bad = false
	r.Tell(b.say("waited through quarantine"))
	b.took()
	b.Advance(5 * time.Minute)
	equal(t, "recovery", b.took(), []string{"a start 8", "waited through quarantine"})
	check.Equal(t, b.info(r).Status, "Running", "it")
	b.Advance(2 * time.Minute)
	r.Tell(boom("again")) // forgiven: it ran for a window
	b.Settle()
	if i := b.info(r); i.Status != "Restarting" || i.LastCrash.RetryAfter != time.Second {
		t.Errorf("%+v", i)
	}
}

func TestBackoffKeepsWhatWaitsAndLosesWhatIsInHand(t *testing.T) {
	b := newBench(t)
	r := b.root(b.spec("a"))
	b.took()
	r.Tell(func(*Context[do]) { b.log = append(b.log, "in hand"); panic("x") })
	r.Tell(b.say("waits"))
	b.Settle()
	r.Tell(b.say("came meanwhile"))
	b.Settle()
	equal(t, "before", b.took(), []string{"in hand"})
	b.Advance(time.Second)
	equal(t, "after", b.took(), []string{"a start 2", "waits", "came meanwhile"})
}

func TestEscalationLadder(t *testing.T) {
	b := newBench(t)
	once := Policy{Base: time.Second, Max: time.Second, Restarts: 1, Window: time.Hour, Beyond: Escalate}
	leaf := b.spec("leaf", func(l *lab) { l.onStart = func(*Context[do]) { panic("leaf is bad") } })
	leaf.Policy = once
	mid := b.spec("mid", func(l *lab) {
		l.onStart = func(ctx *Context[do]) {
			if _, err := Spawn(ctx, leaf); err != nil {
				t.Error(err)
			}
		}
	})
	mid.Policy = once
	top := b.spec("top", func(l *lab) {
		l.onStart = func(ctx *Context[do]) {
			if _, err := Spawn(ctx, mid); err != nil {
				t.Error(err)
			}
		}
	})
	top.Policy = once
	b.root(top)
	b.Advance(time.Minute)
	var got []string
	for _, l := range b.log {
		if strings.Contains(l, "start") {
			got = append(got, l)
		}
	}
	// Two incarnations each; restarts of the parent begin anew below it.
	equal(t, "starts", got, []string{
		"top start 1", "top/mid start 1", "top/mid/leaf start 1", "top/mid/leaf start 2",
		"top/mid start 2", "top/mid/leaf start 1", "top/mid/leaf start 2",
		"top start 2", "top/mid start 1", "top/mid/leaf start 1", "top/mid/leaf start 2",
		"top/mid start 2", "top/mid/leaf start 1", "top/mid/leaf start 2",
	})
	if len(b.fatal) != 1 || b.fatal[0].Path != "top/mid/leaf" || b.fatal[0].Reason != "leaf is bad" {
		t.Fatalf("fatal: %v", b.fatal)
	}
	for _, i := range b.sys.Snapshot("") {
		check.Equal(t, i.Status, "Failed", "%s", i.Path)
	}
	check.Fatal(t, b.sys.Shutdown(context.Background()))
}

func TestParentRestartRestartsChildren(t *testing.T) {
	b := newBench(t)
	kid := b.spec("kid")
	spec := b.spec("a", func(l *lab) {
		l.onStart = func(ctx *Context[do]) {
			if _, err := Spawn(ctx, kid); err != nil {
				t.Error(err)
			}
		}
	})
	r := b.root(spec)
	old, _ := Lookup[do](b.sys, "a/kid")
	b.took()
	r.Tell(boom("x"))
	b.Settle()
	old.Tell(b.say("the kid works on"))
	b.Advance(time.Second)
	equal(t, "conversation", b.took(), []string{"the kid works on", "a/kid stop", "a start 2", "a/kid start 1"})
	old.Tell(b.say("still reached"))
	b.Settle()
	equal(t, "old ref", b.took(), []string{"still reached"})
	if d := b.sys.DeadLetters(); d != 0 {
		t.Error(d, b.sys.DeadLettersByName())
	}
}

// protoactor turns a Restart that meets a stopping actor into a resurrection.
func TestStoppedInBackoffStaysStopped(t *testing.T) {
	for _, withChild := range []bool{false, true} {
		b := newBench(t)
		r := b.root(b.spec("a"))
		kid := b.child(r, b.spec("kid"))
		if withChild {
			b.child(kid, b.spec("g"))
		}
		kid.Tell(boom("x"))
		b.Settle()
		var name Ref[do]
		r.Tell(func(ctx *Context[do]) { StopChild(ctx, kid) })
		b.Settle()
		check.Fatal(t, check.Is(b.info(kid).Status, "gone", "it"))
		name = b.child(r, b.spec("kid"))
		b.took()
		b.Advance(time.Hour)
		equal(t, "after an hour", b.took(), nil)
		if i := b.info(name); i.Incarnation != 1 || i.Status != "Running" {
			t.Errorf("the namesake: %+v", i)
		}
	}
}

// The timer fires while the actor waits for its children to stop.
func TestRestartWhileStopping(t *testing.T) {
	b := newBench(t)
	r := b.root(b.spec("a"))
	kid := b.child(r, b.spec("kid"))
	b.child(kid, b.spec("g"))
	kid.Tell(boom("x"))
	b.Settle()
	b.took()
	r.Tell(func(ctx *Context[do]) { StopChild(ctx, kid) })
	if !b.RunUntil(b.Now(), func() bool { return b.info(kid).Status == "Stopping" }) {
		t.Fatal("not seen stopping")
	}
	kid.cell.restart(1)
	kid.cell.PostSystemMessage(&actor.Restart{}) // and one that was on its way
	b.Advance(time.Hour)
	equal(t, "end", b.took(), []string{"a/kid/g stop", "a lost kid"})
}

// A child crashes and ends before its parent hears of either: its name is taken
// until the parent has, or protoactor, which knows children by name, would
// forget the next one of that name: nobody would stop it.
func TestNameIsTakenUntilTheParentKnows(t *testing.T) {
	b := newBench(t, func(c *Config) { c.Violated = nil }) // the scheduler does not know of what follows
	r := b.root(b.spec("a"))
	kid := b.child(r, b.spec("kid"))
	kid.Tell(boom("x"))
	var early error
	r.Tell(func(ctx *Context[do]) {
		for kid.cell.step() { // as on another goroutine
		}
		kid.cell.stop()
		for kid.cell.step() {
		}
		check.Equal(t, b.info(kid).Status, "Stopped", "it")
		_, early = Spawn(ctx, b.spec("kid"))
	})
	b.runnable = []*cell{r.cell}
	b.Settle()
	if !errors.Is(early, ErrNameTaken) {
		t.Error(early)
	}
	b.child(r, b.spec("kid"))
	b.Advance(time.Hour)
	n, ok := Lookup[do](b.sys, "a/kid")
	if !ok || b.info(n).Status != "Running" || b.info(n).Incarnation != 1 {
		t.Errorf("%+v", b.info(n))
	}
	if len(b.crashes) != 1 || b.crashes[0].Decision != Ended {
		t.Errorf("%+v", b.crashes)
	}
	StopRoot(r)
	b.Settle()
	if got := b.sys.Snapshot(""); len(got) != 0 {
		t.Error("forgotten:", got)
	}
}

func TestEscalationToAParentThatHasFailed(t *testing.T) {
	b := newBench(t)
	r := b.root(b.spec("a"))
	mid := b.child(r, b.spec("mid"))
	kidSpec := b.spec("kid")
	kidSpec.Policy = Policy{Base: 1, Max: 1, Restarts: 0, Window: time.Minute, Beyond: Escalate}
	kid := b.child(mid, kidSpec)
	b.took()
	mid.Tell(boom("mid"))
	b.Settle()
	kid.Tell(boom("kid"))
	b.Settle()
	b.Advance(time.Minute)
	equal(t, "one restart", b.took(), []string{"a/mid/kid stop", "a/mid start 2"}[1:])
	if i := b.info(mid); i.Incarnation != 2 || i.Crashes != 1 {
		t.Errorf("%+v", i)
	}
}

func TestTimersDieWithTheirIncarnation(t *testing.T) {
	b := newBench(t)
	r := b.root(b.spec("a"))
	kid := b.child(r, b.spec("kid"))
	set := func(s string, d time.Duration) do {
		return func(ctx *Context[do]) { ctx.After(d, b.say(s)) }
	}
	kid.Tell(set("during the backoff", time.Millisecond))
	kid.Tell(set("after the restart", time.Minute))
	kid.Tell(func(*Context[do]) { b.now = b.now.Add(time.Microsecond); panic("x") })
	b.Advance(time.Second)
	kid.Tell(set("its own", time.Minute))
	b.Settle()
	b.took()
	b.Advance(time.Hour)
	equal(t, "timers", b.took(), []string{"its own"})

	kid.Tell(set("of one that was stopped", time.Minute))
	r.Tell(func(ctx *Context[do]) { StopChild(ctx, kid) })
	b.Settle()
	b.child(r, b.spec("kid"))
	b.took()
	b.Advance(time.Hour)
	equal(t, "timers of the namesake", b.took(), nil)
	if n := b.sys.DeadLetters(); n > 1 { // the one that set the timer may have been unread
		t.Error(n)
	}
}

func TestTimerCancel(t *testing.T) {
	b := newBench(t)
	r := b.root(b.spec("a"))
	b.took()
	r.Tell(func(ctx *Context[do]) {
		cancel := ctx.After(time.Second, b.say("no"))
		fired := ctx.After(time.Second, b.say("yes"))
		ctx.After(2*time.Second, func(*Context[do]) {
			if fired() {
				t.Error("cancelled what has fired")
			}
		})
		if !cancel() || cancel() {
			t.Error("cancel")
		}
	})
	b.Advance(time.Minute)
	equal(t, "timers", b.took(), []string{"yes"})
}

func TestPanicsOutsideReceive(t *testing.T) {
	t.Run("last words", func(t *testing.T) {
		b := newBench(t)
		r := b.root(b.spec("a"))
		kid := b.child(r, b.spec("kid", func(l *lab) { l.onStop = func(*Context[do]) { panic("last words") } }))
		b.child(kid, b.spec("g"))
		b.took()
		r.Tell(func(ctx *Context[do]) { StopChild(ctx, kid) })
		b.Advance(time.Hour)
		equal(t, "end", b.took(), []string{"a/kid stop", "a/kid/g stop", "a lost kid"})
		if len(b.crashes) != 1 || b.crashes[0].Message != "Stop" || b.crashes[0].Decision != Ended {
			t.Errorf("%+v", b.crashes)
		}
	})
	t.Run("constructor", func(t *testing.T) {
		b := newBench(t)
		r := b.root(b.spec("a"))
		n := 0
		spec := b.spec("kid")
		build := spec.New
		spec.New = func() Behavior[do] {
			if n++; n < 3 {
				panic("constructor")
			}
			return build()
		}
		kid := b.child(r, spec)
		b.took()
		b.Advance(time.Minute)
		equal(t, "starts", b.took(), []string{"a/kid start 3"})
		if i := b.info(r); i.Crashes != 0 || b.info(kid).Crashes != 2 {
			t.Errorf("%+v", i)
		}
	})
	t.Run("child stopped", func(t *testing.T) {
		b := newBench(t)
		n := 0
		r := check.Value(SpawnRoot(b.sys, Spec[int]{Name: "f", New: func() Behavior[int] { return &griever{n: &n} }}))(t)
		b.Settle()
		r.Tell(0)
		b.Advance(time.Minute)
		if n != 2 || len(b.crashes) != 1 || b.crashes[0].Message != "ChildStopped" {
			t.Error(n, b.crashes)
		}
		StopRoot(r)
		b.Settle()
		check.Equal(t, len(b.sys.Snapshot("")), 0, "it waits for ever")
	})
	t.Run("crashed actors have no last words", func(t *testing.T) {
		b := newBench(t)
		r := b.root(b.spec("a"))
		b.took()
		r.Tell(func(ctx *Context[do]) { ctx.Stop(); panic("x") })
		b.Advance(time.Hour)
		equal(t, "end", b.took(), nil)
		if len(b.sys.Snapshot("")) != 0 || b.crashes[0].Decision != Restart && b.crashes[0].Decision != Ended {
			t.Error(b.crashes)
		}
	})
}

type griever struct {
	n   *int
	kid Ref[int]
}

func (g *griever) Start(ctx *Context[int]) {
	*g.n++
	g.kid, _ = Spawn(ctx, Spec[int]{Name: "kid", New: func() Behavior[int] { return fragile{new([]string)} }})
}
func (g *griever) Receive(ctx *Context[int], m int)   { StopChild(ctx, g.kid) }
func (g *griever) ChildStopped(*Context[int], string) { panic("grief") }

func TestKillRoot(t *testing.T) {
	b := newBench(t)
	r := b.root(b.spec("a"))
	kid := b.child(r, b.spec("kid"))
	crashed := b.child(r, b.spec("crashed"))
	crashed.Tell(boom("x"))
	b.Settle()
	b.took()
	r.Tell(b.say("unread"))
	kid.Tell(b.say("unread"))
	KillRoot(r)
	b.Advance(time.Hour)
	equal(t, "end", b.took(), nil)
	if n := len(b.sys.Snapshot("")); n != 0 {
		t.Error(n, "are left")
	}
	b.root(b.spec("a"))
	equal(t, "the next process", b.took(), []string{"a start 1"})
}

func TestShutdown(t *testing.T) {
	b := newBench(t)
	for i := range 3 {
		r := b.root(b.spec(fmt.Sprint("n", i)))
		b.child(r, b.spec("kid"))
	}
	b.took()
	check.Fatal(t, b.sys.Shutdown(context.Background()))
	if got := b.took(); len(got) != 6 || len(b.sys.Snapshot("")) != 0 {
		t.Error(got)
	}
}

func TestShutdownGivesUp(t *testing.T) {
	sys := wallSystem(t)
	inHand, block := make(chan struct{}), make(chan struct{})
	r, _ := SpawnRoot(sys, Spec[do]{Name: "a", New: func() Behavior[do] { return &lab{} }})
	r.Tell(func(*Context[do]) { close(inHand); <-block })
	<-inHand
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	check.Says(t, sys.Shutdown(ctx), "1 actors", "the error")
	close(block)
	if !sys.Until("a", 5*time.Second) {
		t.Error("still there")
	}
}
