package actortest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/tests/actortest"
	"github.com/troupe-dev/troupe/tests/check"
)

// failures are how a test of a test fails.
type failures []string

func (*failures) Helper() {}

func (*failures) Logf(string, ...any) {}

func (f *failures) Errorf(format string, args ...any) { *f = append(*f, fmt.Sprintf(format, args...)) }

func (f *failures) Fatalf(format string, args ...any) { f.Errorf(format, args...) }

// want compares how often it failed, and what each failure says.
func (f *failures) want(t *testing.T, texts ...string) {
	t.Helper()
	check.Fatal(t, check.Is(len(*f), len(texts), "%d failures %q, want %d", len(*f), *f, len(texts)))
	for i, text := range texts {
		check.Has(t, (*f)[i], text, "failure %q does not say %q", (*f)[i], text)
	}
	*f = nil
}

// echo is an actor that calls a port with what it is told, and says the answer.
type echo struct {
	rig   *actortest.Rig
	calls *actortest.Calls
}

func (*echo) Start(*kernel.Context[string]) {}

func (e *echo) Receive(ctx *kernel.Context[string], m string) {
	switch {
	case m == "panic":
		panic("by itself")
	case strings.HasPrefix(m, "call "):
		ctx.Do(kernel.Effect[string]{Kind: "Call", Lane: m, Deadline: time.Minute,
			Run: func(c context.Context, _ kernel.EffectID, done func(string)) {
				e.calls.Called(c, m, func(err error) { done(fmt.Sprint(err)) })
			},
			Expired: func(kernel.EffectID) string { return "expired" }})
	default:
		e.rig.Say("echo: %s", m)
	}
}

// Overflowed implements kernel.OverflowHandler.
func (e *echo) Overflowed(*kernel.Context[string]) { e.rig.Say("echo: overflowed") }

// Stop implements kernel.Stopper.
func (e *echo) Stop(*kernel.Context[string]) { e.rig.Say("echo: stopped") }

func newEcho(t *testing.T) (*actortest.Rig, *actortest.Actor[string], *actortest.Calls, *failures) {
	t.Helper()
	f := &failures{}
	r := actortest.New(f)
	c := r.NewCalls("port")
	a := actortest.Spawn(r, kernel.Spec[string]{Name: "echo", MailboxLimit: 2, New: func() kernel.Behavior[string] {
		return &echo{r, c}
	}})
	return r, a, c, f
}

// TestTranscript: a comparison fails if a line is missing, is there besides, or is in another order.
func TestTranscript(t *testing.T) {
	r, a, _, f := newEcho(t)
	say := func(messages ...string) {
		for _, m := range messages {
			a.Tell(m)
			r.Settle()
		}
	}
	say("1", "2")
	r.Want("as it is", "echo: 1", "echo: 2")
	r.Want("nothing is left")
	f.want(t)
	for _, want := range [][]string{{"echo: 2", "echo: 1"}, {"echo: 1"}, {"echo: 1", "echo: 2", "echo: 3"}, nil} {
		say("1", "2")
		r.Want("exact", want...)
		f.want(t, "exact: at 0s was said\n  echo: 1\n  echo: 2\nwant\n  "+strings.Join(want, "\n  "))
		say("1", "2")
		r.WantByListener("by listener", want...)
		f.want(t, "by listener: at 0s was said")
	}
	say("1")
	r.Say("other: 1")
	say("2")
	r.WantByListener("two listeners", "other: 1", "echo: 1", "echo: 2")
	f.want(t)
	r.AfterFunc(time.Minute, func() { a.Tell("late") })
	r.WantAfter("too early", time.Minute-1)
	r.WantAfter("in time", 1, "echo: late")
	say("1", "2")
	check.Count(t, r.Count("echo: 1"), 1, "said %d times, want once")
	r.Keep("other", "echo: 2")
	r.Want("what was kept", "echo: 2")
	f.want(t)
}

// TestCalls: a call waits for its answer, and one that nobody made cannot be answered.
func TestCalls(t *testing.T) {
	r, a, c, f := newEcho(t)
	a.Tell("call 1")
	a.Tell("call 2")
	r.Want("two calls", "port: call 1", "port: call 2")
	c.Answer(errors.New("no"), "call 2")
	r.Want("answered", "echo: no")
	c.Answer(nil, "call 2")
	f.want(t, `the port was not asked to "call 2"; not answered are ["call 1"]`)
	r.WantAfter("not answered in time", time.Minute, "port: call 1: given up", "echo: expired")
	c.Answer(nil, "call 1")
	r.Want("late", "echo: <nil>")
	f.want(t)
}

// TestCrash: an ordered crash is no failure, any other is.
func TestCrash(t *testing.T) {
	r, a, _, f := newEcho(t)
	a.CrashAt(2)
	for range 3 {
		a.Tell("hello")
		r.Advance(time.Second)
	}
	r.Want("the second is lost", "echo: hello", "echo: hello")
	f.want(t)
	a.Tell("panic")
	r.Advance(time.Second)
	f.want(t, "by itself")
	for range 3 {
		a.Tell("hello")
	}
	r.Want("passed on", "echo: overflowed", "echo: hello", "echo: hello")
	kernel.StopRoot(a.Ref)
	r.Want("stopped", "echo: stopped")
	f.want(t)
}

// TestAnswers: they come soon, or when the test says so.
func TestAnswers(t *testing.T) {
	r, a, _, f := newEcho(t)
	answers := r.NewAnswers()
	answers.Give(func() { a.Tell("soon") })
	r.Want("not yet")
	r.WantAfter("soon", time.Millisecond, "echo: soon")
	answers.Silent = true
	answers.Give(func() { a.Tell("1") })
	answers.Give(func() { a.Tell("2") })
	r.WantAfter("silent", time.Hour)
	answers.Give(func() { a.Tell("3") })
	answers.Release(1)
	r.Want("one of them", "echo: 2")
	answers.Release(0)
	r.Want("the oldest", "echo: 1")
	check.Count(t, answers.Kept(), 1, "%d are kept")
	f.want(t)
	answers.Release(1)
	f.want(t, "1 answers are kept, and number 1 is to be given")
}
