package scenarios

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/kernel"
)

// hanging is a pod whose program does not listen, and whose preStop command never ends.
func hanging(name string) *spec {
	p := aPod(name).grace(10).script("app", "ignore-term", "true").script("app", "exec-hang", "true")
	p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"for", "ever"}}}}
	return p
}

// doing says whether a call of that kind is under way anywhere.
func (w *world) doing(kind string) bool {
	for _, a := range w.system.Snapshot("") {
		for _, e := range a.Effects {
			if e.Kind == kind && e.Phase == kernel.EffectStarted {
				return true
			}
		}
	}
	return false
}

// A preStop command that does not end goes on until its container is killed, and
// nothing of the pod waits for it then.
func TestPreStopNeverEnds(t *testing.T) {
	w := parallelNode(t, 1)
	w.add(hanging("web"))
	w.allUp(10 * time.Second)
	w.drop("web")
	signal := w.until(time.Minute, "the stop signal", func() bool { return w.doing("StopContainer") })
	if signal < 10*time.Second || signal > 11*time.Second {
		t.Errorf("SIGTERM after %v, want the 10 s of its grace", signal)
	}
	killed := w.until(time.Minute, "the kill", func() bool {
		dead := w.newest("web", "app").State != observed.ContainerRunning
		if !dead && !w.doing("ExecSync") {
			w.failf("the preStop command does not live as long as its container")
		}
		return dead
	})
	if killed < time.Second || killed > 3*time.Second {
		t.Errorf("killed %v after SIGTERM, want 2 s", killed)
	}
	w.allUp(10 * time.Second)
	w.quiet()
}

// A grace period that is longer than time can be counted in: the stop signal is sent
// at once, and who does not listen to it is not killed, but by force.
func TestGraceWithoutEnd(t *testing.T) {
	t.Parallel()
	for _, seconds := range []int64{9223372036, 9223372037, 1 << 62} {
		w := newNode(t, 1)
		w.add(aPod("listens").grace(seconds))
		w.allUp(10 * time.Second)
		w.drop("listens")
		w.until(10*time.Second, "the end", func() bool { return w.newest("listens", "app").State != observed.ContainerRunning })
		w.allUp(10 * time.Second)
		w.quiet()

		w, c := newClusterNode(t, 1)
		c.create(aPod("deaf").grace(seconds).script("app", "ignore-term", "true"), aPod("listens").grace(seconds))
		w.until(time.Minute, "all is up", func() bool { return c.allReady("deaf", "listens") })
		c.delete("deaf", nil)
		c.delete("listens", nil)
		w.until(10*time.Second, "the one that listens is gone", func() bool { return c.get("listens") == nil })
		w.run(time.Hour)
		if w.newest("deaf", "app").State != observed.ContainerRunning {
			w.failf("it was killed")
		}
		c.delete("deaf", new(int64))
		w.until(10*time.Second, "the kill", func() bool { return w.newest("deaf", "app").State != observed.ContainerRunning })
	}
}
