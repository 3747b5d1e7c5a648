package simcri

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

// heard are the events that a runtime sends from now on, with their times after now.
func (w *world) heard() *[]string {
	var said []string
	begin := w.clock.Now()
	w.Events(w.ending(), func() {}, func(e port.RuntimeEvent) {
		said = append(said, fmt.Sprintf("%v %v", w.clock.Now().Sub(begin), e.Kind))
	}, func(error) {})
	w.clock.Advance(time.Second)
	return &said
}

// TestLoseTask: a container whose task is lost is Unknown, makes no event, and cannot be removed
// before the runtime restarts.
func TestLoseTask(t *testing.T) {
	var seen []Transition
	w := newWorld(t, func(c *Config) { c.Observe = func(t Transition) { seen = append(seen, t) } })
	w.MakeImagePresent(testImage, RegistryImage{})
	sandbox, id := w.running(aPod("p", "run-for", "1m"))
	said := w.heard()
	check.Fatal(t, w.LoseTask(id))
	if last := seen[len(seen)-1]; last.Cause != Lost || last.ID != id {
		t.Errorf("the transition is %+v", last)
	}
	check.Equal(t, check.Value(w.status(id))(t).State, observed.ContainerUnknown, "it")
	check.Fails(t, w.LoseTask(id), "it was lost twice")
	check.Error(t, w.stop(id, time.Second))
	wantKind(t, "remove", w.removeSync(id), port.Stuck)
	wantKind(t, "remove its sandbox", w.removeSandboxSync(sandbox), port.Stuck)
	if got := fmt.Sprint(*said); got != "[1.004s stopped]" { // of its sandbox
		t.Errorf("events: %v", got)
	}
	w.Kill()
	w.Restart()
	check.Equal(t, check.Value(w.status(id))(t).State, observed.ContainerUnknown, "after a restart it")
	check.Error(t, w.removeSandboxSync(sandbox))
	if truth := w.Truth(); len(truth.Runtime.Pods) != 0 {
		t.Errorf("left: %+v", truth.Runtime)
	}
}

// TestVanish: what vanishes is gone without an event, a lost task too.
func TestVanish(t *testing.T) {
	w := newWorld(t)
	w.MakeImagePresent(testImage, RegistryImage{})
	p := aPod("p")
	sandbox, id := w.running(p)
	said := w.heard()
	check.Fatal(t, w.Vanish(id))
	if _, err := w.status(id); port.KindOf(err) != port.NotFound {
		t.Errorf("its status is %v", err)
	}
	check.Equal(t, len(w.list("").Pods[0].Sandboxes), 1, "its sandbox is gone too")
	again := check.Value(w.create(p, sandbox, 0))(t)
	check.Fatal(t, w.startSync(again))
	check.Fatal(t, w.LoseTask(again))
	*said = nil
	check.Fatal(t, w.Vanish(sandbox))
	w.clock.Advance(time.Second)
	if truth := w.Truth(); len(truth.Runtime.Pods) != 0 || truth.Addresses != 0 || len(*said) != 0 {
		t.Errorf("left: %+v, events: %v", truth, *said)
	}
	if w.Vanish(sandbox) == nil || w.Vanish(id) == nil {
		t.Error("they vanished twice")
	}
}

// TestRestartLoading: a runtime that reads its state refuses every call, and works afterwards.
func TestRestartLoading(t *testing.T) {
	w := newWorld(t)
	w.MakeImagePresent(testImage, RegistryImage{})
	w.running(aPod("p"))
	w.Kill()
	w.RestartLoading(10 * time.Second)
	a, done := give[observed.Runtime](w)
	w.List(context.Background(), "", done)
	_, err := await(w, a)
	wantKind(t, "while it loads", err, port.Unavailable)
	if want := "List: unavailable: server is not initialized yet"; err.Error() != want {
		t.Errorf("it said %q, want %q", err, want)
	}
	w.clock.Advance(10 * time.Second)
	check.Count(t, len(w.list("").Pods), 1, "it lists %d pods")
	w.Kill()
	w.RestartLoading(time.Hour)
	w.Kill()
	w.Restart()
	check.Count(t, len(w.list("").Pods), 1, "after another restart it lists %d pods")
}

// TestEventFate: a single event is lost, doubled or late, and all others are as they were.
func TestEventFate(t *testing.T) {
	var others []string // with random delays, and nothing wrong
	for _, c := range []struct {
		fate EventFate
		want string
	}{
		{EventFate{}, "[1.001s created 1.002s started 1.003s stopped 1.004s deleted]"},
		{EventFate{Drop: true}, "[1.001s created 1.002s started 1.004s deleted]"},
		{EventFate{Twice: true}, "[1.001s created 1.002s started 1.003s stopped 1.003s stopped 1.004s deleted]"},
		{EventFate{Delay: time.Second}, "[1.001s created 1.002s started 1.004s deleted 2.003s stopped]"},
	} {
		for _, delay := range []Dist{{}, Lognormal(time.Millisecond, 5*time.Millisecond)} {
			w := newWorld(t, func(cfg *Config) {
				cfg.Events.Delay = delay
				cfg.Events.Fate = func(e port.RuntimeEvent) EventFate {
					if e.Kind == observed.ContainerStoppedEvent && e.Pod.Name == "p" {
						return c.fate
					}
					return EventFate{}
				}
			})
			w.MakeImagePresent(testImage, RegistryImage{})
			p := aPod("p")
			sandbox := check.Value(w.run(p, 0))(t)
			said := w.heard()
			id := check.Value(w.create(p, sandbox, 0))(t)
			check.Fatal(t, w.startSync(id))
			check.Fatal(t, w.stop(id, 0))
			check.Fatal(t, w.removeSync(id))
			w.clock.Advance(10 * time.Second)
			if got := fmt.Sprint(*said); delay.IsZero() && got != c.want {
				t.Errorf("%+v: events %v", c.fate, got)
			}
			if delay.IsZero() {
				continue
			}
			rest := slices.DeleteFunc(*said, func(e string) bool { return strings.HasSuffix(e, "stopped") })
			if others == nil {
				others = rest
			}
			if len(rest) != 3 || !slices.Equal(rest, others) {
				t.Errorf("%+v: the others are %v, without it %v", c.fate, rest, others)
			}
		}
	}
}
