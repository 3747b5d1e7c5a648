package kernel

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/troupe-dev/troupe/tests/check"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// do is a message that is its own handler, so that a test can say in one place
// what an actor does.
type do func(*Context[do])

// lab is an actor that does as it is told, and writes down what befalls it.
type lab struct {
	log     *[]string
	onStart func(*Context[do])
	onStop  func(*Context[do])
}

func (l *lab) say(format string, args ...any) {
	if l.log != nil {
		*l.log = append(*l.log, fmt.Sprintf(format, args...))
	}
}

func (l *lab) Start(ctx *Context[do]) {
	l.say("%s start %d", ctx.Path(), ctx.Incarnation())
	if l.onStart != nil {
		l.onStart(ctx)
	}
}

func (l *lab) Receive(ctx *Context[do], m do) { m(ctx) }

func (l *lab) Stop(ctx *Context[do]) {
	l.say("%s stop", ctx.Path())
	if l.onStop != nil {
		l.onStop(ctx)
	}
}

func (l *lab) Overflowed(ctx *Context[do]) { l.say("%s overflowed", ctx.Path()) }

func (l *lab) ChildStopped(ctx *Context[do], name string) {
	l.say("%s lost %s", ctx.Path(), name)
}

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// bench is a system on virtual time.
type bench struct {
	*Virtual
	t       testing.TB
	sys     *System
	log     []string
	crashes []*CrashReport
	fatal   []*CrashReport
}

func newBench(t testing.TB, change ...func(*Config)) *bench {
	t.Helper()
	b := &bench{t: t, Virtual: NewVirtual(1, start)}
	c := Config{
		Clock: b.Virtual, Seed: 1, Log: zerolog.Nop(),
		OnCrash:  func(r *CrashReport) { b.crashes = append(b.crashes, r) },
		OnFatal:  func(r *CrashReport) { b.fatal = append(b.fatal, r) },
		Violated: func(v *Violation) { t.Errorf("%s", v) },
	}
	for _, f := range change {
		f(&c)
	}
	sys := check.Value(NewSystem(c))(t)
	b.sys = sys
	return b
}

func (b *bench) spec(name string, change ...func(*lab)) Spec[do] {
	return Spec[do]{Name: name, New: func() Behavior[do] {
		l := &lab{log: &b.log}
		for _, f := range change {
			f(l)
		}
		return l
	}}
}

func (b *bench) root(spec Spec[do]) Ref[do] {
	b.t.Helper()
	r := check.Value(SpawnRoot(b.sys, spec))(b.t)
	b.Settle()
	return r
}

// child spawns below parent, which has to be idle.
func (b *bench) child(parent Ref[do], spec Spec[do]) Ref[do] {
	b.t.Helper()
	var out Ref[do]
	var err error
	parent.Tell(func(ctx *Context[do]) { out, err = Spawn(ctx, spec) })
	b.Settle()
	if err != nil {
		b.t.Fatal(err)
	}
	return out
}

func (b *bench) info(r Ref[do]) ActorInfo {
	b.t.Helper()
	for _, i := range b.sys.Snapshot(r.Path()) {
		if i.Path == r.Path() {
			return i
		}
	}
	return ActorInfo{Status: "gone"}
}

// took is what was written down since it was last asked.
func (b *bench) took() []string {
	l := b.log
	b.log = nil
	return l
}

func (b *bench) say(s string) do {
	return func(*Context[do]) { b.log = append(b.log, s) }
}

func boom(s string) do { return func(*Context[do]) { panic(s) } }

func wallSystem(t testing.TB, change ...func(*Config)) *System {
	t.Helper()
	c := Config{Clock: WallClock{}, Log: zerolog.Nop()}
	for _, f := range change {
		f(&c)
	}
	sys := check.Value(NewSystem(c))(t)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		check.Error(t, sys.Shutdown(ctx))
	})
	return sys
}
