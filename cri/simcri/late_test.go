package simcri

import (
	"context"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/actortest"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestAnswerLate: an answer that is late says what was true when the call took effect.
func TestAnswerLate(t *testing.T) {
	w, set := faulty(t)
	p := aPod("p")
	_, id := w.running(p)

	set(List, Fault{AnswerLate: time.Second})
	listed, done := give[observed.Runtime](w)
	w.List(context.Background(), "", done)
	set(ContainerStatus, Fault{AnswerLate: time.Second})
	inspected, gave := give[observed.Container](w)
	w.ContainerStatus(context.Background(), id, gave)
	w.clock.Advance(500 * time.Millisecond)
	if listed.n != 0 || inspected.n != 0 {
		t.Fatal("they are answered already")
	}
	check.Fatal(t, w.EndContainer(id, Exit{Code: 3}))
	w.clock.Advance(time.Second)
	check.Equal(t, listed.value.Pods[0].Containers[0].State, observed.ContainerRunning, "listed as")
	check.Equal(t, inspected.value.State, observed.ContainerRunning, "inspected as")
	check.Count(t, w.list("").Pods[0].Containers[0].State, observed.ContainerExited, "it is %v now")
	check.Count(t, w.Truth().InFlight, 0, "%d calls are left")
}

// TestEventBeforeAnswer: the runtime tells of the end of a container before it answers the
// call that stopped it.
func TestEventBeforeAnswer(t *testing.T) {
	w, set := faulty(t)
	_, id := w.running(aPod("p"))
	var ended time.Time
	w.Events(w.ending(), func() {}, func(e port.RuntimeEvent) {
		if e.Kind == observed.ContainerStoppedEvent {
			ended = w.clock.Now()
		}
	}, func(error) {})
	w.clock.Advance(time.Second)
	set(StopContainer, Fault{AnswerLate: 50 * time.Millisecond})
	check.Error(t, w.stop(id, 0))
	if late := w.clock.Now().Sub(ended); ended.IsZero() || late != 50*time.Millisecond {
		t.Errorf("the answer came %v after the event", late)
	}
}

// TestAnswerLateGivenUp: a late answer is lost when the caller gives up, and when the runtime
// is killed. The work is done in any case, and a refusal is late too.
func TestAnswerLateGivenUp(t *testing.T) {
	late := Fault{AnswerLate: time.Minute}
	for _, c := range []struct {
		name string
		end  func(*world, actortest.Ending)
		want port.ErrorKind
	}{
		{"given up", func(_ *world, ctx actortest.Ending) { ctx.End(context.DeadlineExceeded) }, port.Deadline},
		{"killed", func(w *world, _ actortest.Ending) { w.Kill() }, port.Unavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, set := faulty(t)
			set(RunPodSandbox, late)
			ctx := w.ending()
			a, done := give[string](w)
			w.RunPodSandbox(ctx, port.RunPodSandbox{Pod: aPod("p")}, done)
			w.clock.Advance(time.Second)
			if n := len(w.Truth().Runtime.Pods); n != 1 || a.n != 0 {
				t.Errorf("%d pods, answered %d times", n, a.n)
			}
			c.end(w, ctx)
			w.clock.Advance(time.Hour)
			wantKind(t, "the answer", a.err, c.want)
			if truth := w.Truth(); a.n != 1 || len(truth.Runtime.Pods) != 1 || truth.InFlight != 0 {
				t.Errorf("answered %d times: %+v", a.n, truth)
			}
		})
	}
	w, set := faulty(t)
	set(ContainerStatus, late)
	begun := w.clock.Now()
	_, err := w.status("none")
	wantKind(t, "of none", err, port.NotFound)
	check.AtLeast(t, w.clock.Now().Sub(begun), time.Minute, "it was refused after")
}

// TestWorkLate: a call works late although it was given up, and at once if the runtime is
// killed.
func TestWorkLate(t *testing.T) {
	for _, c := range []struct {
		name  string
		end   func(*world, actortest.Ending)
		after time.Duration // from the end to the work
		want  port.ErrorKind
	}{
		{"given up", func(_ *world, ctx actortest.Ending) { ctx.End(context.Canceled) }, 59 * time.Second, port.Canceled},
		{"killed", func(w *world, _ actortest.Ending) { w.Kill() }, 0, port.Unavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, set := faulty(t)
			set(RunPodSandbox, Fault{WorkLate: time.Minute})
			ctx := w.ending()
			a, done := give[string](w)
			w.RunPodSandbox(ctx, port.RunPodSandbox{Pod: aPod("p")}, done)
			w.clock.Advance(time.Second + time.Millisecond) // the latency is 1 ms
			if n := len(w.Truth().Runtime.Pods); n != 0 {
				t.Fatalf("there are %d pods already", n)
			}
			c.end(w, ctx)
			w.clock.Advance(0)
			wantKind(t, "the answer", a.err, c.want)
			w.clock.Advance(c.after)
			truth := w.Truth()
			if len(truth.Runtime.Pods) != 1 || truth.InFlight != 0 || a.n != 1 {
				t.Errorf("answered %d times: %+v", a.n, truth)
			}
		})
	}
	w, set := faulty(t)
	set(RunPodSandbox, Fault{WorkLate: time.Minute})
	begun := w.clock.Now()
	check.Value(w.run(aPod("p"), 0))(t)
	check.AtLeast(t, w.clock.Now().Sub(begun), time.Minute, "it took")
}
