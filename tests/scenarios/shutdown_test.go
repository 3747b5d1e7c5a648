package scenarios

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/nodeobject"
	"github.com/troupe-dev/troupe/actors/decide/shutdown"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/agent"
	"github.com/troupe-dev/troupe/tests/check"
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

func (p *power) cancel() { p.down = false; p.event(false) }

// newPoweredNode is a node of a cluster whose machine shuts down in three groups.
func newPoweredNode(t *testing.T) (*world, *cluster, *power) {
	t.Helper()
	p := &power{}
	w, c := newClusterNode(t, 1, withConfig(func(a *agent.Config) {
		a.Ports.Inhibitor = p
		a.Shutdown = shutdown.Groups{{Priority: 0, Period: 5 * time.Second}, {Priority: 10, Period: 4 * time.Second}, {Priority: 100, Period: 6 * time.Second}}
	}))
	p.w = w
	w.run(100 * time.Millisecond)
	return w, c, p
}

// neverEndedAndReady: no version of a pod in the API says that it has ended and is ready.
func (c *cluster) neverEndedAndReady() {
	c.w.t.Helper()
	for name, lines := range c.shown { // order-free: each by itself
		for _, line := range lines {
			if strings.HasPrefix(line, "Failed") && strings.HasSuffix(line, " Ready") {
				c.w.t.Errorf("%s went through %v", name, lines)
			}
		}
	}
}

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
	w, c, p := newPoweredNode(t)
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
	check.AtMost(t, w.v.Now().Sub(began), 25*time.Second, "it took")
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

// TestShutdownCancelled: static pods that were ended come back with the next agent, one that was refused meanwhile
// without it, and the API shows that they run.
func TestShutdownCancelled(t *testing.T) {
	t.Parallel()
	w, c, p := newPoweredNode(t)
	defer c.neverEndedAndReady()
	ended, refused := "web-"+nodeName, "late-"+nodeName
	w.add(emptyPod("web").main("app"))
	w.until(time.Minute, "it runs", func() bool { return c.ready(ended) })
	p.off()
	w.until(time.Minute, "the lock is released", func() bool { return !p.released.IsZero() })
	w.add(emptyPod("late").main("app"))
	w.until(time.Minute, "a new one is refused", func() bool {
		o := c.get(refused)
		return o != nil && finished(o) && o.Status.Reason == "NodeShutdown"
	})
	w.run(10 * time.Second)
	p.cancel()
	w.until(time.Minute, "the API shows that the new one runs", func() bool { return c.ready(refused) })
	kept := c.get(refused).UID
	w.run(time.Minute)
	if o := c.get(ended); o.Status.Phase != v1.PodFailed || o.Status.Reason != shutdown.Reason {
		t.Errorf("the one that was ended went through %v", c.shown[ended])
	}
	w.restart()
	w.until(time.Minute, "the API shows that it runs", func() bool { return c.ready(ended) })
	w.run(time.Minute)
	if !c.allReady(ended, refused) || c.get(refused).UID != kept {
		t.Errorf("they went through %v and %v", c.shown[ended], c.shown[refused])
	}
}

// TestStaticPodAdmittedLater: a static pod that was refused begins when there is room, and the API shows that it runs.
func TestStaticPodAdmittedLater(t *testing.T) {
	w, c := parallelCluster(t, 1)
	defer c.neverEndedAndReady()
	thief, static, name := aPod("thief"), aPod("web"), "web-"+nodeName
	for _, s := range []*spec{thief, static} {
		s.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
	}
	c.create(thief)
	w.until(time.Minute, "the first has the port", func() bool { return c.ready("thief") })
	w.add(static)
	w.until(time.Minute, "the second is refused", func() bool { o := c.get(name); return o != nil && finished(o) })
	refused := c.get(name).UID
	w.run(time.Minute)
	check.Equal(t, c.get(name).UID, refused, "it was replaced while it was refused: %v", c.shown[name])
	c.delete("thief", nil)
	w.until(time.Minute, "the API shows that it runs", func() bool { return c.ready(name) })
	w.run(time.Minute)
	if !c.ready(name) || c.get(name).UID == refused {
		t.Errorf("it went through %v", c.shown[name])
	}
}

// TestShutdownStopsAGroupAtOnce: a machine that shuts down waits for the last pod of a group, so all of them get their
// signal at once, however few slots there are.
func TestShutdownStopsAGroupAtOnce(t *testing.T) {
	t.Parallel()
	const n, ends = 30, 500 * time.Millisecond
	p := &power{}
	w, c := newClusterNode(t, 1, withConfig(func(a *agent.Config) {
		a.Ports.Inhibitor = p
		a.Shutdown = shutdown.Groups{{Priority: 0, Period: 20 * time.Second}}
	}))
	p.w = w
	w.run(100 * time.Millisecond)
	for i := range n {
		c.create(emptyPod(fmt.Sprint("p", i)).main("app").script("app", "term-delay", ends.String()))
	}
	w.until(time.Minute, "all are up", func() bool { return w.rt.Calls(simcri.StartContainer) == n })
	w.run(time.Second)
	p.off()
	w.until(ends, "all containers are being stopped", func() bool { return w.rt.Calls(simcri.StopContainer) == n })
	w.until(5*time.Second, "the lock is released", func() bool { return !p.released.IsZero() })
}
