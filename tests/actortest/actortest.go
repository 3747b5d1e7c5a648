// Package actortest is what the tests of actors have in common. A test runs one actor alone, on a
// virtual clock, and plays all that the actor talks to: other actors, and what is behind its ports.
// What they are told and asked is written to a transcript, which the test compares.
//
// The tests of an actor embed a Rig in a type of their own, which implements the actor's ports:
//
//	type rig struct {
//		*actortest.Rig
//		actor *actortest.Actor[images.Message]
//	}
//
// All runs on the goroutine of the test, so nothing has to be closed at the end.
package actortest

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/tests/linear"
)

// Begin is when each test begins.
var Begin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// TB is what a Rig needs of a test. *testing.T and *rapid.T have it.
type TB interface {
	Helper()
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Rig is a system of actors on a virtual clock, with the transcript of a test.
type Rig struct {
	*kernel.Virtual
	*Transcript
	T      TB
	System *kernel.System
	// Log is what actors have logged.
	Log bytes.Buffer
}

// New makes a Rig. change may make the configuration of its system another. A panic of an actor fails
// the test, unless the test ordered it by Actor.Crash, and so does an invariant that does not hold.
func New(t TB, change ...func(*kernel.Config)) *Rig {
	t.Helper()
	r := &Rig{T: t, Virtual: kernel.NewVirtual(1, Begin)}
	r.Transcript = r.NewTranscript()
	c := kernel.Config{Clock: r.Virtual, Seed: 1, Log: zerolog.New(&r.Log)}
	if _, benchmark := t.(*testing.B); !benchmark && !linear.Measures() { // checks cost more than what is measured
		c.Violated = func(v *kernel.Violation) { t.Errorf("at %v: %s", r.Since(), v) }
	}
	for _, f := range change {
		f(&c)
	}
	told := c.OnCrash
	c.OnCrash = func(crash *kernel.CrashReport) {
		if crash.Reason != Ordered {
			t.Errorf("at %v: %s\n%s", r.Since(), crash, crash.Stack)
		}
		if told != nil {
			told(crash)
		}
	}
	var err error
	r.System, err = kernel.NewSystem(c)
	r.Must(err)
	return r
}

// Must ends the test if err is not nil. It is for what a rig is made of.
func (r *Rig) Must(err error) {
	if err != nil {
		r.T.Helper()
		r.T.Fatalf("%v", err)
	}
}

// Runner makes a runner of effects with these pools.
func (r *Rig) Runner(pools ...kernel.Pool) *kernel.Runner {
	r.T.Helper()
	runner, err := kernel.NewRunner(r.System, pools...)
	r.Must(err)
	return runner
}

// Since is the time since the test began.
func (r *Rig) Since() time.Duration { return r.Now().Sub(Begin) }

// Soon calls f after a millisecond: when what the test plays answers.
func (r *Rig) Soon(f func()) { r.AfterFunc(time.Millisecond, f) }

// Logged is how many lines of the log have all these words.
func (r *Rig) Logged(words ...string) int {
	n := 0
lines:
	for line := range strings.Lines(r.Log.String()) {
		for _, w := range words {
			if !strings.Contains(line, w) {
				continue lines
			}
		}
		n++
	}
	return n
}
