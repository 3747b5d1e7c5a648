package kernel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
)

func equal(t *testing.T, what string, got, want []string) {
	t.Helper()
	check.Same(t, got, want, "%s:\n got", what)
}

func TestOneMessageAStepInOrder(t *testing.T) {
	b := newBench(t)
	r := b.root(b.spec("a"))
	b.took()
	for i := range 5 {
		r.Tell(b.say(fmt.Sprint(i)))
	}
	for i := range 5 {
		if !b.Step() || len(b.log) != i+1 {
			t.Fatalf("step %d: %d messages handled", i, len(b.log))
		}
	}
	if b.Step() {
		t.Error("a step with nothing to do")
	}
	equal(t, "order", b.took(), []string{"0", "1", "2", "3", "4"})
}

func TestSendersAreFIFOWhoeverRuns(t *testing.T) {
	for seed := range uint64(50) {
		v := NewVirtual(seed, start)
		b := newBench(t, func(c *Config) { c.Clock = v })
		b.Virtual = v
		sink := b.root(b.spec("sink"))
		seen := map[string]int{}
		for _, name := range []string{"x", "y", "z"} {
			src := b.root(b.spec(name))
			for i := range 20 {
				src.Tell(func(ctx *Context[do]) {
					sink.Tell(func(*Context[do]) {
						check.Fatal(t, check.Is(seen[name], i, "seed %d: %s sent %d, and %d was due", seed, name, i, seen[name]))
						seen[name]++
					})
				})
			}
		}
		b.Settle()
		if len(seen) != 3 || seen["x"] != 20 {
			t.Fatal("messages lost", seen)
		}
	}
}

func TestOverflowIsToldFirstAndOnce(t *testing.T) {
	b := newBench(t)
	spec := b.spec("a")
	spec.MailboxLimit = 3
	r := b.root(spec)
	b.took()
	for i := range 6 {
		r.Tell(b.say(fmt.Sprint(i)))
	}
	if d := b.info(r); d.Depth != 3 || d.Dropped != 3 || b.sys.Dropped() != 3 {
		t.Errorf("depth %d, dropped %d and %d", d.Depth, d.Dropped, b.sys.Dropped())
	}
	b.Settle()
	equal(t, "handled", b.took(), []string{"a overflowed", "0", "1", "2"})
}

// What an actor has asked for itself finds room in a full mailbox.
func TestOverflowSparesTimersAndResults(t *testing.T) {
	b := newBench(t)
	run, _ := NewRunner(b.sys)
	spec := b.spec("a")
	spec.MailboxLimit = 1
	spec.Runner = run
	r := b.root(spec)
	var done func(do)
	r.Tell(func(ctx *Context[do]) {
		ctx.After(time.Second, b.say("timer"))
		ctx.Do(Effect[do]{
			Kind: "k", Lane: "l", Deadline: time.Hour, Expired: func(EffectID) do { return b.say("expired") },
			Run: func(_ context.Context, _ EffectID, d func(do)) { done = d },
		})
	})
	b.Settle()
	b.took()
	r.Tell(func(ctx *Context[do]) {}) // fills it
	done(b.say("result"))
	b.next(start.Add(time.Hour))
	b.Settle()
	equal(t, "handled", b.took(), []string{"result", "timer"})
	if b.sys.Dropped() != 0 {
		t.Error("dropped", b.sys.Dropped())
	}
}

// An actor that crashes on being told of an overflow handles nothing more.
type fragile struct{ got *[]string }

func (f fragile) Start(*Context[int])                {}
func (f fragile) Receive(_ *Context[int], m int)     { *f.got = append(*f.got, fmt.Sprint(m)) }
func (f fragile) Overflowed(ctx *Context[int])       { panic("overflowed") }
func (f fragile) ChildStopped(*Context[int], string) {}

func TestCrashInOverflowed(t *testing.T) {
	b := newBench(t)
	var got []string
	r, err := SpawnRoot(b.sys, Spec[int]{Name: "f", MailboxLimit: 2, New: func() Behavior[int] { return fragile{&got} }})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		r.Tell(i)
	}
	b.Settle()
	if len(got) != 0 || len(b.crashes) != 1 || b.crashes[0].Message != "Overflowed" {
		t.Fatalf("handled %v, crashes %v", got, b.crashes)
	}
	b.Advance(time.Second)
	equal(t, "after the restart", got, []string{"0", "1"})
	check.Equal(t, len(b.crashes), 1, "%v", b.crashes)
}

type keyed struct {
	key string
	n   int
}

func (k keyed) MailboxKey() string { return k.key }

type other keyed

func (k other) MailboxKey() string { return k.key }

type sink struct{ got *[]string }

func (s sink) Start(*Context[any])            {}
func (s sink) Receive(_ *Context[any], m any) { *s.got = append(*s.got, fmt.Sprint(m)) }

func TestLatestWinsKeepsPlaceAndAge(t *testing.T) {
	b := newBench(t)
	var got []string
	r := check.Value(SpawnRoot(b.sys, Spec[any]{Name: "s", New: func() Behavior[any] { return sink{&got} }}))(t)
	b.Settle()
	// past the point where the queue is moved to its beginning
	for i := range 200 {
		r.Tell(i)
	}
	for range 150 {
		b.Step()
	}
	got = nil
	first := b.Now()
	r.Tell(keyed{"a", 1})
	b.now = first.Add(time.Second)
	r.Tell("plain")
	r.Tell(keyed{"b", 1})
	r.Tell(other{"a", 1}) // the same key, another type
	r.Tell(keyed{"a", 2})
	for range 50 {
		b.Step()
	}
	i := b.sys.Snapshot("")[0]
	if i.Coalesced != 1 || i.Depth != 4 || !i.Oldest.Equal(first) {
		t.Errorf("coalesced %d, depth %d, oldest %v", i.Coalesced, i.Depth, i.Oldest)
	}
	got = nil
	b.Settle()
	equal(t, "handled", got, []string{"{a 2}", "plain", "{b 1}", "{a 1}"})
	r.Tell(keyed{"a", 3}) // the key is free again
	r.Tell(keyed{"a", 4})
	got = nil
	b.Settle()
	equal(t, "handled", got, []string{"{a 4}"})
}

func TestKeyedMessageIsNotLostToADeadTimer(t *testing.T) {
	b := newBench(t)
	var got []string
	first := true
	r, err := SpawnRoot(b.sys, Spec[any]{Name: "s", New: func() Behavior[any] { return &timerSink{sink{&got}, &first} }})
	if err != nil {
		t.Fatal(err)
	}
	b.Settle()
	r.Tell("boom")
	b.next(b.Now().Add(time.Minute)) // the timer's message waits behind it
	r.Tell(keyed{"a", 2})
	b.Advance(time.Minute)
	equal(t, "handled", got, []string{"{a 2}"})
}

type timerSink struct {
	sink
	first *bool
}

func (s *timerSink) Start(ctx *Context[any]) {
	if *s.first {
		*s.first = false
		ctx.After(time.Second, keyed{"a", 1})
	}
}

func (s *timerSink) Receive(ctx *Context[any], m any) {
	if m == "boom" {
		panic(m)
	}
	s.sink.Receive(ctx, m)
}

func TestDepthAndAge(t *testing.T) {
	b := newBench(t)
	r := b.root(b.spec("a"))
	r.Tell(b.say("1"))
	b.now = b.now.Add(3 * time.Second)
	r.Tell(b.say("2"))
	if i := b.info(r); i.Depth != 2 || b.Now().Sub(*i.Oldest) != 3*time.Second {
		t.Errorf("depth %d, oldest %v", i.Depth, i.Oldest)
	}
	m := b.sys.Metrics()
	if len(m) != 1 || m[0].Depth != 2 || m[0].MaxDepth != 2 || m[0].MaxAge != 3*time.Second || m[0].Kind != "a" {
		t.Errorf("%+v", m)
	}
	b.Settle()
	if i := b.info(r); i.Depth != 0 || i.Oldest != nil || i.Handled != 2 {
		t.Errorf("%+v", i)
	}
}

func TestSnapshotSaysWhatIsInHand(t *testing.T) {
	b := newBench(t)
	r := b.root(b.spec("a"))
	r.Tell(func(*Context[do]) {
		if i := b.info(r); i.Handling != "kernel.do" || !i.Since.Equal(start) {
			t.Errorf("handling %q since %v", i.Handling, i.Since)
		}
	})
	b.Settle()
	if i := b.info(r); i.Handling != "" || i.Since != nil {
		t.Errorf("handling %q since %v", i.Handling, i.Since)
	}
}

func TestCrashReport(t *testing.T) {
	b := newBench(t, func(c *Config) { c.History = 3 })
	var got []string
	r, _ := SpawnRoot(b.sys, Spec[any]{Name: "s", New: func() Behavior[any] { return crasher{sink{&got}} }})
	for i := range 5 {
		r.Tell(i)
	}
	r.Tell(bomb{Name: "x", Err: errors.New("no"), Secret: map[string][]byte{"password": []byte("hunter2")}})
	b.Settle()
	check.Fatal(t, check.Is(len(b.crashes), 1, "%v", b.crashes))
	c := b.crashes[0]
	if c.Message != "kernel.bomb" || c.Reason != "bomb x" || c.Path != "s" || c.Incarnation != 1 || c.Decision != Restart {
		t.Errorf("%+v", c)
	}
	check.Equal(t, c.Detail, "Name:x Err:no Secret:map[string][]uint8(1)", "detail")
	if len(c.Last) != 3 || !strings.HasSuffix(c.Last[2], " int") {
		t.Errorf("last %q", c.Last)
	}
	if !strings.HasPrefix(c.Stack, "github.com/troupe-dev/troupe/actors/kernel.explode(") {
		t.Errorf("the stack does not begin at the panic:\n%s", c.Stack)
	}
	if strings.Contains(c.Stack, "protoactor") || strings.Contains(c.Stack, "debug.Stack") {
		t.Errorf("the stack has frames that say nothing:\n%s", c.Stack)
	}
	if got := b.sys.Crashes(); len(got) != 1 || got[0] != c {
		t.Error(got)
	}
}

type crasher struct{ sink }

type bomb struct {
	Name   string
	Err    error
	Secret map[string][]byte
}

func (c crasher) Receive(_ *Context[any], m any) {
	if m, ok := m.(bomb); ok {
		explode(m)
	}
}

//go:noinline
func explode(m bomb) { panic("bomb " + m.Name) }

func TestRuntimePanicStackBeginsAtTheCode(t *testing.T) {
	b := newBench(t)
	r := b.root(b.spec("a"))
	r.Tell(func(*Context[do]) {
		m := noMap()
		m["x"] = 1
	})
	r.Tell(b.say("next"))
	b.Settle()
	if s := b.crashes[0].Stack; !strings.HasPrefix(s, "github.com/troupe-dev/troupe/actors/kernel.TestRuntimePanic") {
		t.Error(s)
	}
	b.Advance(time.Second)
	r.Tell(func(*Context[do]) {
		b.say(noBomb().Name)
	})
	b.Settle()
	if s := b.crashes[1].Stack; !strings.HasPrefix(s, "github.com/troupe-dev/troupe/actors/kernel.TestRuntimePanic") {
		t.Error(s)
	}
}

// They are nil in a way that vet does not see.
func noMap() map[string]int { return nil }
func noBomb() *bomb         { return nil }

func TestCrashesKeepsTheLast32(t *testing.T) {
	b := newBench(t)
	spec := b.spec("a")
	spec.Policy = ForPods
	r := b.root(spec)
	for i := range 40 {
		r.Tell(boom(fmt.Sprint(i)))
		b.Advance(2 * time.Minute)
	}
	got := b.sys.Crashes()
	if len(got) != 32 || got[0].Reason != "8" || got[31].Reason != "39" {
		t.Errorf("%d, from %v to %v", len(got), got[0].Reason, got[len(got)-1].Reason)
	}
}

func TestStopLeavesDeadLetters(t *testing.T) {
	b := newBench(t)
	r := b.root(b.spec("a"))
	kid := b.child(r, b.spec("kid"))
	b.took()
	r.Tell(func(ctx *Context[do]) { ctx.Stop() })
	r.Tell(b.say("unread"))
	kid.Tell(b.say("also"))
	b.RunUntil(start, func() bool { return b.info(r).Status == "Stopping" })
	r.Tell(b.say("late"))
	b.Settle()
	if got := b.took(); slices.Contains(got, "unread") || slices.Contains(got, "late") {
		t.Error("handled after Stop:", got)
	}
	r.Tell(b.say("after"))
	kid.Tell(b.say("after"))
	if n := b.sys.DeadLetters(); n < 4 || n > 5 { // the kid may have read its one
		t.Errorf("%d dead letters", n)
	}
	if by := b.sys.DeadLettersByName(); by["kernel.do"] != b.sys.DeadLetters() {
		t.Error(by)
	}
	check.Equal(t, len(b.sys.Snapshot("")), 0, "%v", b.sys.Snapshot(""))
}

func TestZeroRef(t *testing.T) {
	var r Ref[int]
	r.Tell(1)
	StopRoot(r)
	KillRoot(r)
	if !r.IsZero() || r.Path() != "" {
		t.Error(r)
	}
}

func TestSpawnTakenName(t *testing.T) {
	b := newBench(t)
	r := b.root(b.spec("a"))
	if _, err := SpawnRoot(b.sys, b.spec("a")); !errors.Is(err, ErrNameTaken) {
		t.Error(err)
	}
	kid := b.child(r, b.spec("kid"))
	grandkid := b.child(kid, b.spec("g"))
	var whileThere, whileStopping error
	r.Tell(func(ctx *Context[do]) {
		_, whileThere = Spawn(ctx, b.spec("kid"))
		StopChild(ctx, kid)
		_, whileStopping = Spawn(ctx, b.spec("kid"))
	})
	b.Settle()
	if !errors.Is(whileThere, ErrNameTaken) || !errors.Is(whileStopping, ErrNameTaken) {
		t.Error(whileThere, whileStopping)
	}
	_ = grandkid
	if !slices.Contains(b.took(), "a lost kid") {
		t.Error("the parent was not told that the name is free")
	}
	again := b.child(r, b.spec("kid"))
	b.took()
	kid.Tell(b.say("by the old ref")) // a Ref is a place
	again.Tell(b.say("by the new"))
	b.Settle()
	equal(t, "handled", b.took(), []string{"by the old ref", "by the new"})
}

func TestNamesakeOfAnotherProtocol(t *testing.T) {
	b := newBench(t)
	r := b.root(b.spec("a"))
	kid := b.child(r, b.spec("kid"))
	r.Tell(func(ctx *Context[do]) { StopChild(ctx, kid) })
	b.Settle()
	var got []string
	r.Tell(func(ctx *Context[do]) {
		if _, err := Spawn(ctx, Spec[any]{Name: "kid", New: func() Behavior[any] { return sink{&got} }}); err != nil {
			t.Error(err)
		}
	})
	b.Settle()
	kid.Tell(b.say("x"))
	b.Settle()
	if len(got) != 0 || b.sys.DeadLetters() != 1 || len(b.crashes) != 0 {
		t.Error(got, b.sys.DeadLetters(), b.crashes)
	}
	if _, ok := Lookup[do](b.sys, "a/kid"); ok {
		t.Error("found by a protocol that it does not have")
	}
	if l, ok := Lookup[any](b.sys, "a/kid"); !ok || l.Path() != "a/kid" {
		t.Error(l, ok)
	}
}

func TestBadSpecs(t *testing.T) {
	b := newBench(t)
	ok := b.spec("a")
	for name, change := range map[string]func(*Spec[do]){
		"no name":        func(s *Spec[do]) { s.Name = "" },
		"slash":          func(s *Spec[do]) { s.Name = "a/b" },
		"no constructor": func(s *Spec[do]) { s.New = nil },
		"limit":          func(s *Spec[do]) { s.MailboxLimit = -1 },
		"policy":         func(s *Spec[do]) { s.Policy = Policy{Restarts: 3} },
	} {
		s := ok
		change(&s)
		check.Fails(t, check.Err(SpawnRoot(b.sys, s)), "%s: no error", name)
	}
}

func TestStopChildThatIsNoChild(t *testing.T) {
	b := newBench(t)
	r, o := b.root(b.spec("a")), b.root(b.spec("other"))
	r.Tell(func(ctx *Context[do]) { StopChild(ctx, o) })
	b.Settle()
	if len(b.crashes) != 1 || b.info(o).Status != "Running" {
		t.Error(b.crashes, b.info(o))
	}
}
