package scenarios

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podresize"
	"github.com/troupe-dev/troupe/apiclient/simapi"
	"github.com/troupe-dev/troupe/supervisor/invariants"
	"github.com/troupe-dev/troupe/tests/check"
)

// withResizes is a node of a cluster with CPUs for containers alone, which resizes change.
func withResizes() option {
	return func(s *setting) {
		if s.spec.Assign == nil {
			withOwnCPUs()(s)
		}
		s.spec.Assign.Resizes = true
		allocatable(fmt.Sprint(ownCPUs), "64Gi")(s)
	}
}

// on is which CPUs container app of a pod runs on.
func (c *cluster) on(name string) string {
	p := c.get(name)
	if p == nil {
		return ""
	}
	app, _ := c.w.rt.Find(p.UID, "app")
	return c.w.rt.Placement(app.ID).CPUs
}

// checkClusterAssigned is checkAssigned for pods of the apiserver, which are to have what they were allocated.
func (w *world) checkClusterAssigned() {
	w.t.Helper()
	wrong := invariants.Assignments(w.rt, w.checkpoints, ownCPUs+1, func(ref observed.PodRef) *v1.Pod {
		p := w.cluster.get(ref.Name)
		if p == nil || p.UID != ref.UID || finished(p) {
			return nil
		}
		if a := podresize.FromStatus(p); a != nil {
			return a.Apply(p)
		}
		return p
	})
	if wrong != "" {
		w.failf("%s", wrong)
	}
}

// TestResizeOwnCPUs: a pod gets more exclusive CPUs and fewer while it runs, waits for those of another, and is told
// when it can never have as many.
func TestResizeOwnCPUs(t *testing.T) {
	w, c := parallelCluster(t, 1, withResizes())
	w.watch.restartsExpected = false
	c.create(sized("big", "11", "64Mi")) // the first to choose
	w.until(time.Minute, "it is up", func() bool { return c.allReady("big") })
	c.create(sized("web", "1", "64Mi"), sized("small", "500m", "64Mi"))
	w.until(time.Minute, "they are up", func() bool { return c.allReady("web", "big", "small") })
	for _, to := range []struct{ cpu, on, shared string }{
		{"3", "4,6-7", "0,5"}, {"2", "6-7", "0,4-5"}, {"1500m", "0,4-7", "0,4-7"}, {"2", "4-5", "0,6-7"},
	} {
		was := c.on("web")
		c.resize("web", to.cpu, "64Mi")
		want := fmt.Sprintf("has %s/64Mi, was given %s/64Mi", to.cpu, to.cpu)
		w.until(time.Minute, "it is resized to "+to.cpu, func() bool { return c.resizing("web") == want })
		w.run(time.Second)
		if got, shared := c.on("web"), c.on("small"); got != to.on || shared != to.shared {
			t.Errorf("%s CPUs: it runs on %s, and ran on %s, others on %s; want %+v", to.cpu, got, was, shared, to)
		}
		w.checkClusterAssigned()
	}
	c.resize("web", "4", "64Mi")
	waits := "PodResizePending Deferred, has 2/64Mi, was given 2/64Mi"
	w.until(time.Minute, "it waits", func() bool { return c.resizing("web") == waits })
	w.restart()
	w.run(30 * time.Second)
	if got := c.resizing("web"); got != waits || c.on("web") != "4-5" {
		t.Errorf("after a restart of the agent: %s, on %s", got, c.on("web"))
	}
	c.delete("big", nil)
	w.until(time.Minute, "it gets them", func() bool { return c.resizing("web") == "has 4/64Mi, was given 4/64Mi" })
	check.Equal(t, c.on("web"), "2-5", "it runs on")
	c.resize("web", "16", "64Mi")
	w.until(time.Minute, "it is refused", func() bool { return strings.HasPrefix(c.resizing("web"), "PodResizePending Infeasible") })
	w.checkClusterAssigned()
	w.clusterQuiet()
	check.Count(t, len(w.eventsOf("web", "ExclusiveCPUsChanged")), 5, "%d events say that its CPUs have changed")
}

// eventsOf are the messages of the events of a pod with a reason.
func (w *world) eventsOf(pod, reason string) (out []string) {
	for _, e := range w.events {
		if e.Pod != nil && e.Pod.Name == pod && e.Reason == reason {
			out = append(out, e.Message)
		}
	}
	return out
}

// TestResizeOwnCPUsOfAlignedPods: the topology policy holds for what a pod gets in addition.
func TestResizeOwnCPUsOfAlignedPods(t *testing.T) {
	w, c := parallelCluster(t, 1, withResizes(), func(s *setting) {
		s.spec.Assign.Topology, s.spec.Assign.TopologyOptions.MaxNodes = kubelet.SingleNumaNodeTopologyManagerPolicy, 8
	})
	c.create(sized("other", "6", "64Mi"))
	w.until(time.Minute, "it is up", func() bool { return c.allReady("other") })
	c.create(sized("web", "2", "64Mi"))
	w.until(time.Minute, "it is up", func() bool { return c.allReady("web") })
	c.resize("web", "9", "64Mi")
	w.until(time.Minute, "no node has 9", func() bool { return strings.HasPrefix(c.resizing("web"), "PodResizePending Infeasible") })
	c.resize("web", "7", "64Mi")
	w.until(time.Minute, "it has 7", func() bool { return c.resizing("web") == "has 7/64Mi, was given 7/64Mi" })
	w.checkClusterAssigned()
}

// TestResizeOwnCPUsKilled kills the agent after each message of a resize, once: the pod has in the end what it asks for,
// and at no instant is a CPU given to two.
func TestResizeOwnCPUsKilled(t *testing.T) {
	t.Parallel()
	resized := func(w *world) bool {
		return w.cluster.resizing("web") == "has 5/64Mi, was given 5/64Mi" && w.cluster.resizing("big") == "has 2/64Mi, was given 2/64Mi"
	}
	atBoundaries(t, every(3), func(int) *world {
		w, c := newClusterNode(t, 1, withResizes(), withLateEffects(0))
		w.watch.restartsExpected = false
		c.create(sized("web", "1", "64Mi"), sized("big", "13", "64Mi"), sized("small", "500m", "64Mi"))
		w.until(time.Minute, "they are up", func() bool { return c.allReady("web", "big", "small") })
		c.resize("big", "2", "64Mi")
		c.resize("web", "5", "64Mi")
		return w
	}, resized, func(_ int, w *world) {
		var held invariants.Held
		w.restart()
		w.until(2*time.Minute, "resized", func() bool {
			w.checkHeld(&held)
			return resized(w)
		})
		w.run(5 * time.Second)
		w.checkClusterAssigned()
	})
}

// TestExploreResizesOfCPUs: pods of the apiserver with CPUs and devices of their own come, are resized and go; the agent is killed,
// actors crash, calls of the runtime and of the apiserver fail. At no instant does a container run on CPUs that are not
// its own any more, and in the end all have what they were allocated.
func TestExploreResizesOfCPUs(t *testing.T) {
	t.Parallel()
	for _, seed := range seeds(t, 1, 20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { exploreResizes(t, seed) })
	}
}

func exploreResizes(t *testing.T, seed uint64) {
	// A call of a killed agent that takes effect after those of the next is not noticed: see docs/decisions/0048.
	h := newHavoc(t, seed, withAPI(func(c *simapi.Config) { c.WatchSkip = float64(seed%4) / 4 }), withLateEffects(0), withDevices(), withResizes(), func(s *setting) {
		s.spec.Assign.Topology = []string{kubelet.NoneTopologyManagerPolicy, kubelet.BestEffortTopologyManagerPolicy,
			kubelet.RestrictedTopologyManagerPolicy}[seed%3]
		s.spec.Assign.TopologyOptions.MaxNodes = 8
	})
	c := h.cluster
	h.trouble, h.panics = float64(seed%3)*0.05, float64(seed%4)*0.001
	var held invariants.Held
	step := func(end time.Time) bool {
		more := h.step(end)
		h.revive()
		h.checkHeld(&held)
		return more
	}
	cpu := func() string { return []string{"500m", "1500m", "1", "2", "3", "4", "6", "15", "16"}[h.rng.IntN(9)] }
	for range 60 {
		name := fmt.Sprintf("q-%d", h.rng.IntN(6))
		switch p := c.get(name); h.rng.IntN(8) {
		case 0, 1:
			if p == nil {
				h.say("create %s", name)
				s := sized(name, cpu(), "64Mi").main("side")
				s.Spec.Containers[1].Resources = bounds([]string{"1", "500m"}[h.rng.IntN(2)], "64Mi")
				if n := h.rng.IntN(3); n > 0 {
					s.Spec.Containers[1].Resources.Limits[gpu] = *resource.NewQuantity(int64(n), resource.DecimalSI)
					s.Spec.Containers[1].Resources.Requests[gpu] = s.Spec.Containers[1].Resources.Limits[gpu]
				}
				c.create(s)
			}
		case 2:
			if p != nil {
				h.say("delete %s", name)
				c.delete(name, nil)
			}
		case 3:
			h.say("kill")
			h.restart()
		default:
			if p != nil && p.DeletionTimestamp == nil {
				size := cpu()
				h.say("resize %s to %s", name, size)
				c.resize(name, size, "64Mi")
			}
		}
		for range h.rng.IntN(300) {
			step(h.v.Now().Add(time.Second))
		}
	}
	h.trouble, h.panics = 0, 0
	end := h.v.Now().Add(15 * time.Minute)
	for step(end) {
	}
	h.until(30*time.Minute, "no resize is under way", func() bool {
		for _, p := range c.pods {
			if !finished(p) && (p.DeletionTimestamp != nil || !isReady(p) || strings.Contains(c.resizing(p.Name), string(v1.PodResizeInProgress))) {
				return false
			}
		}
		return true
	})
	h.run(10 * time.Second)
	h.checkClusterAssigned()
	h.kill()
}
