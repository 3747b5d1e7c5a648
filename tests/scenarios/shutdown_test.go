package scenarios

import (
	"context"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/nodeobject"
	"github.com/troupe-dev/troupe/actors/decide/shutdown"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/agent"
)

// power is the machine's switch: a port.Inhibitor. The lock of an agent that is killed is lost.
type power struct {
	w        *world
	down     bool
	event    func(bool)
	released time.Time
}

func (p *power) soon(f func()) { p.w.v.AfterFunc(time.Millisecond, f) }

// Watch implements port.Inhibitor.
func (p *power) Watch(_ context.Context, event func(bool), _ func(error)) {
	p.soon(func() { p.event = event; event(p.down) })
}

// Inhibit implements port.Inhibitor.
func (p *power) Inhibit(_ context.Context, done func(error)) {
	p.soon(func() {
		if p.down {
			done(&port.Error{Kind: port.StateConflict, Verb: "Inhibit"})
			return
		}
		done(nil)
	})
}

// Release implements port.Inhibitor.
func (p *power) Release(_ context.Context, done func(error)) {
	p.soon(func() { p.released = p.w.v.Now(); done(nil) })
}

// MaxDelay implements port.Inhibitor.
func (p *power) MaxDelay(_ context.Context, done func(time.Duration, error)) {
	p.soon(func() { done(time.Hour, nil) })
}

// RaiseMaxDelay implements port.Inhibitor.
func (p *power) RaiseMaxDelay(_ context.Context, _ time.Duration, done func(error)) {
	p.soon(func() { done(nil) })
}

func (p *power) off() { p.down = true; p.event(true) }

// TestShutdown: in the middle of starts, with and without a killed agent, all pods end in order, and the apiserver
// knows it before the machine goes down.
func TestShutdown(t *testing.T) {
	t.Parallel()
	for _, killAfter := range []time.Duration{0, 50 * time.Millisecond, time.Second, 3 * time.Second, 6 * time.Second} {
		for _, begin := range []time.Duration{300 * time.Millisecond, time.Second, 20 * time.Second} {
			t.Run(fmt.Sprintf("after %v, killed after %v", begin, killAfter), func(t *testing.T) { shutDown(t, begin, killAfter) })
		}
	}
}

func shutDown(t *testing.T, begin, killAfter time.Duration) {
	p := &power{}
	w, c := newClusterNode(t, 1, withConfig(func(a *agent.Config) {
		a.Ports.Inhibitor = p
		a.Shutdown = shutdown.Groups{{Priority: 0, Period: 5 * time.Second}, {Priority: 10, Period: 4 * time.Second}, {Priority: 100, Period: 6 * time.Second}}
	}))
	p.w = w
	w.run(100 * time.Millisecond)
	priorities := map[string]int32{}
	for i := range 12 {
		name, priority := fmt.Sprint("p", i), []int32{0, 50, 1000}[i%3]
		s := emptyPod(name).main("app").script("app", "term-delay", "1500ms")
		s.Spec.Priority = &priority
		priorities[name] = priority
		c.create(s)
	}
	w.run(begin)
	p.off()
	began := w.v.Now()
	if killAfter > 0 {
		w.run(killAfter)
		w.restart()
	}
	ended := map[string]time.Time{}
	w.until(time.Minute, "the lock is released", func() bool {
		for name := range priorities { // order-free: a map again
			if o := c.get(name); ended[name].IsZero() && finished(o) {
				ended[name] = w.v.Now()
			}
		}
		return !p.released.IsZero()
	})
	if took := w.v.Now().Sub(began); took > 25*time.Second {
		t.Errorf("it took %v", took)
	}
	for name, priority := range priorities { // order-free: each by itself
		o := c.get(name)
		if o.Status.Phase != v1.PodFailed || o.Status.Reason != shutdown.Reason && o.Status.Reason != "NodeShutdown" {
			t.Errorf("%s is %s %s when the lock is released", name, o.Status.Phase, o.Status.Reason)
		}
		for other, lower := range priorities { // order-free: each by itself
			a, b := c.get(other), o
			if lower < priority && a.Status.Reason == shutdown.Reason && b.Status.Reason == shutdown.Reason && ended[other].After(ended[name]) {
				t.Errorf("%s of priority %d ended before %s of priority %d", name, priority, other, lower)
			}
		}
	}
	late := emptyPod("late").main("app")
	c.create(late)
	w.until(time.Minute, "a new pod is refused", func() bool { o := c.get("late"); return finished(o) && o.Status.Reason == "NodeShutdown" })
	if n := c.node(); n == nil || nodeobject.Ready(&n.Status) {
		t.Errorf("the node is ready")
	}
}
