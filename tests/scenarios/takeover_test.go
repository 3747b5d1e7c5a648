package scenarios

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/sim/machine"
	"github.com/troupe-dev/troupe/tests/check"
)

// cores are those of a small machine on which each call is work: what is asked for takes its turn.
type cores struct {
	w    *world
	free [2]time.Time
	// looks are the calls that only look at what is there.
	looks int
}

// work gives how long something takes that needs a core for so long.
func (c *cores) work(d time.Duration) time.Duration {
	now, first := c.w.v.Now(), 0
	for i := range c.free {
		if c.free[i].Before(c.free[first]) {
			first = i
		}
	}
	if c.free[first].Before(now) {
		c.free[first] = now
	}
	c.free[first] = c.free[first].Add(d)
	return c.free[first].Sub(now)
}

// smallMachine has what the runtime and the host are asked take its turn on two cores. Looks are as
// slow as on a machine that others use.
func smallMachine(w *world) *cores {
	c := &cores{w: w}
	const look = 10 * time.Millisecond
	w.host.Fault = func(machine.Call) machine.Fault { return machine.Fault{Latency: c.work(look)} }
	w.fault = func(call simcri.Call) (f simcri.Fault) {
		switch call.Method {
		case simcri.RunPodSandbox:
			f.Latency = c.work(200 * time.Millisecond)
		case simcri.CreateContainer:
			f.Latency = c.work(40 * time.Millisecond)
		case simcri.StartContainer:
			f.Latency = c.work(80 * time.Millisecond)
		case simcri.PodSandboxStatus, simcri.ContainerStatus:
			c.looks++
			f.Latency = c.work(look)
		default:
		}
		return f
	}
	return c
}

// TestNewPodAfterRestart: an agent that is killed beside a hundred pods and started again starts a new
// one at most half a second later than on a node that has none, whether the pod was created while it
// was away or when it is back. What ran is known soon as well, and nothing is written of it.
func TestNewPodAfterRestart(t *testing.T) {
	t.Parallel()
	const most = 500 * time.Millisecond
	for name, meanwhile := range map[string]bool{"created meanwhile": true, "created when it is back": false} {
		t.Run(name, func(t *testing.T) {
			alone, _ := newPodAfterRestart(t, 0, meanwhile)
			among, known := newPodAfterRestart(t, 100, meanwhile)
			t.Logf("ready after %v, beside a hundred pods after %v; those were known after %v", alone, among, known)
			check.AtMost(t, among, alone+most, "ready after %v, beside a hundred pods after", alone)
			check.AtMost(t, known, 5*time.Second, "it took %v until all that ran was known", known)
		})
	}
}

// TestLooksDoNotWaitForEver: where one pod after another is started, what ran before is looked at all
// the same.
func TestLooksDoNotWaitForEver(t *testing.T) {
	w, c := parallelCluster(t, 1)
	ran := names("p", 40)
	c.create(specs(ran, aPod)...)
	w.until(time.Minute, "all are Ready", func() bool { return c.allReady(ran...) })
	w.run(20 * time.Second)
	smallMachine(w)
	w.kill()
	c.create(specs(names("q", 100), aPod)...)
	w.start()
	w.run(10 * time.Millisecond)
	took := w.until(time.Minute, "what ran is known", func() bool { return w.known(ran) })
	check.AtMost(t, took, 10*time.Second, "it took")
	if c.allReady(names("q", 100)...) {
		t.Error("nothing was being started any more")
	}
	w.until(time.Minute, "the others run", func() bool { return c.allReady(names("q", 100)...) })
}

// known says whether people are shown of all of these pods how they are.
func (w *world) known(pods []string) bool {
	running := map[string]bool{}
	for _, p := range w.view().Pods {
		running[p.Name] = p.Phase == string(v1.PodRunning)
	}
	for _, n := range pods {
		if !running[n] {
			return false
		}
	}
	return true
}

func newPodAfterRestart(t *testing.T, beside int, meanwhile bool) (took, known time.Duration) {
	t.Helper()
	w, c := newClusterNode(t, 1)
	ran := names("p", beside)
	for _, n := range ran {
		c.create(aPod(n).volume("data"))
	}
	w.until(time.Minute, "all are Ready", func() bool { return c.allReady(ran...) })
	w.run(20 * time.Second)
	machine := smallMachine(w)
	w.kill()
	writes := c.calls["Patch Pod status"]
	if meanwhile {
		c.create(aPod("fresh").volume("data"))
	}
	w.start()
	began := w.v.Now()
	if !meanwhile {
		w.until(time.Minute, "the first look", func() bool { return beside == 0 || machine.looks > 0 })
		c.create(aPod("fresh").volume("data"))
	}
	begin := w.v.Now()
	w.until(time.Minute, "the new pod is Ready", func() bool { return c.ready("fresh") })
	took = w.v.Now().Sub(begin)
	w.until(time.Minute, "what ran is known", func() bool { return w.known(ran) })
	known = w.v.Now().Sub(began)
	w.run(10 * time.Second)
	if n := c.calls["Patch Pod status"] - writes; n > 5 {
		w.failf("%d status patches, of one new pod", n)
	}
	if !c.allReady(ran...) {
		w.failf("not all are Ready")
	}
	return took, known
}
