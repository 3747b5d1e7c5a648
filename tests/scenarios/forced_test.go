package scenarios

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/observed"
)

// TestForcedHasHookAndSignal: a pod that is deleted by force, or has no grace period, is gone from the API at once. Its
// preStop hook has a second, and its container another from the stop signal to the kill.
func TestForcedHasHookAndSignal(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]struct {
		spec  int64
		grace *int64
		after time.Duration // since it was deleted with its own grace period
	}{
		"by force":                        {60, new(int64(0)), 0},
		"its own grace period is 0":       {0, nil, 0},
		"by force while it is terminated": {60, new(int64(0)), 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			w, c := newClusterNode(t, 1)
			c.create(hanging("web").grace(of.spec))
			w.until(time.Minute, "Ready", func() bool { return c.ready("web") })
			if of.after > 0 {
				c.delete("web", nil)
				w.run(of.after)
			}
			c.delete("web", of.grace)
			if c.get("web") != nil {
				t.Error("it is still there")
			}
			app := func() bool { return w.newest("web", "app").State == observed.ContainerRunning }
			signal := w.until(time.Minute, "the stop signal", func() bool { return w.doing("StopContainer") })
			if !w.doing("ExecSync") || signal < time.Second || signal > 1100*time.Millisecond {
				t.Errorf("the stop signal comes after %v, want 1s, beside the hook", signal)
			}
			if killed := signal + w.until(time.Minute, "the kill", func() bool { return !app() }); killed > 2100*time.Millisecond {
				t.Errorf("killed after %v, want 2s", killed)
			}
			w.until(time.Minute, "nothing is left", c.nothingLeft)
		})
	}
}

// TestGoneKeepsItsGrace: a pod of an apiserver that was restored from a backup without it has its grace period, but no
// longer than until another of its name is there. Others may have its room at once.
func TestGoneKeepsItsGrace(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]struct{ successor, restart bool }{
		"alone": {false, false}, "and its successor comes": {true, false}, "before an agent begins": {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			w, c := newClusterNode(t, 1)
			backup := c.api.Checkpoint()
			p := cpus("web", "30").grace(60).script("app", "ignore-term", "true")
			c.create(p)
			w.until(time.Minute, "Ready", func() bool { return c.ready("web") })
			if of.restart {
				w.kill()
			}
			uid := c.get("web").UID
			c.api.Restore(backup)
			if of.restart {
				w.start()
			}
			runs := func() bool { return w.living(uid) }
			w.run(30 * time.Second)
			if !runs() {
				w.failf("it was killed before its grace period is over")
			}
			if !of.successor {
				c.create(cpus("other", "30"))
				w.until(10*time.Second, "another pod has its room", func() bool { return c.ready("other") })
				w.until(40*time.Second, "it is killed", func() bool { return !runs() })
				return
			}
			c.create(cpus("web", "30"))
			if took := w.until(time.Minute, "it is killed", func() bool { return !runs() }); took < 1900*time.Millisecond || took > 3*time.Second {
				t.Errorf("killed after %v, want 2s", took)
			}
			w.until(10*time.Second, "the next one is Ready", func() bool { return c.ready("web") })
		})
	}
}

// TestGoneHasCPUsOfItsOwn: a pod waits for the CPUs of one that is gone from the apiserver and has not ended yet.
func TestGoneHasCPUsOfItsOwn(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{0, time.Second, 2010 * time.Millisecond} {
		w, c := newClusterNode(t, 1, withOwnCPUs(), allocatable("16", "64Gi"))
		c.create(sized("old", "10", "64Mi").script("app", "ignore-term", "true"))
		w.until(time.Minute, "it is Ready", func() bool { return c.ready("old") })
		c.delete("old", new(int64(0)))
		w.run(after)
		c.create(sized("next", "10", "64Mi"))
		w.until(5*time.Second, "the next one is Ready", func() bool { return c.ready("next") })
	}
}

// living says whether a container of a pod runs.
func (w *world) living(uid types.UID) bool {
	for _, p := range w.rt.Truth().Runtime.Pods {
		for i := range p.Containers {
			if p.Ref.UID == uid && p.Containers[i].State == observed.ContainerRunning {
				return true
			}
		}
	}
	return false
}
