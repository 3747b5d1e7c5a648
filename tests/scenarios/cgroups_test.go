package scenarios

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/troupe-dev/troupe/actors/podset"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/invariants"
	"github.com/troupe-dev/troupe/supervisor/sim/machine"
	"github.com/troupe-dev/troupe/tests/check"
)

// checkCgroups holds cgroups to what runs: nothing is made outside of one, and none is
// left of a pod that is gone.
func (w *world) checkCgroups() {
	w.t.Helper()
	if wrong := invariants.Cgroups(w.rt.Truth().Runtime.Pods, w.cgroups.Owners()); wrong != "" {
		w.failf("%s", wrong)
	}
}

// asks gives a pod a CPU request.
func asks(s *spec, cpu string) *spec {
	s.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}
	return s
}

const burstable = "/kubepods/burstable"

// TestCgroups: each pod has one with its limits, that of the class follows, and
// nothing is left.
func TestCgroups(t *testing.T) {
	w := parallelNode(t, 1)
	w.run(5 * time.Second)
	w.add(asks(aPod("a"), "500m"), asks(aPod("b"), "1500m"), aPod("c"))
	w.allUp(time.Minute)
	w.run(time.Second)
	shares := func(path string) uint64 { return w.cgroups.Values()[path].CPUShares }
	check.Count(t, shares(burstable), 2048, "the burstable class has %d shares")
	check.Count(t, shares("/kubepods/besteffort"), 2, "the best effort class has %d shares")
	check.Count(t, shares("/kubepods"), 64*1024, "all pods have %d shares")
	check.Count(t, shares(burstable+"/pod"+string(w.pod("a").UID)), 512, "pod a has %d shares")
	w.quiet()
	w.drop("b")
	w.allUp(time.Minute)
	w.run(time.Second)
	check.Count(t, shares(burstable), 512, "with one pod less the burstable class has %d shares")
	before := w.cgroupCalls
	w.restart()
	w.run(30 * time.Second)
	if n := w.cgroupCalls - before; n > 4 { // all, two classes, and a look
		t.Errorf("a restart of the agent makes %d calls", n)
	}
	check.Count(t, shares(burstable), 512, "after a restart of the agent the burstable class has %d shares")
	before = w.cgroupCalls
	w.run(10 * time.Minute)
	if n := w.cgroupCalls - before; n > 10 { // a sweep each minute
		t.Errorf("ten idle minutes make %d calls", n)
	}
	w.quiet()
	w.drop("a", "c")
	w.allUp(time.Minute)
	w.quiet()
}

// TestOrphanedCgroups: what a predecessor left of pods that are no more goes,
// but not before it is known which pods there are.
func TestOrphanedCgroups(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.cgroups.Put("dead-1", burstable+"/poddead-1")
	w.manifests.ReadErr = &port.Error{Verb: "read", Detail: "no such disk"}
	w.start()
	w.run(3 * time.Minute)
	if !w.cgroups.Has("dead-1") {
		t.Error("it is removed before all sources were seen")
	}
	w.manifests.ReadErr = nil
	w.add(aPod("web"))
	w.allUp(time.Minute)
	w.run(2 * time.Minute)
	w.quiet()
}

// TestCgroupFails: the pod waits and says why, and goes on when it works.
func TestCgroupFails(t *testing.T) {
	w := parallelNode(t, 1)
	w.run(5 * time.Second)
	broken, calls := true, 0
	w.cgroups.Fault = func(c machine.Call) machine.Fault {
		if c.Verb == "PodCgroups" || !broken {
			return machine.Fault{}
		}
		calls++
		return machine.Fault{Err: &port.Error{Verb: c.Verb, Object: c.Name, Detail: "no space left on device"}}
	}
	w.add(aPod("web"))
	w.run(10 * time.Minute)
	check.AtMost(t, calls, 40, "%d tries in ten minutes", calls)
	if w.count("web", "FailedCreatePodContainer") == 0 {
		t.Error("no event says that the cgroup fails")
	}
	broken = false
	w.allUp(2 * time.Minute)
	broken = true
	w.drop("web")
	w.run(time.Minute)
	if w.watch.up() == "" {
		t.Error("the pod is gone, though its cgroup is not")
	}
	broken = false
	w.allUp(2 * time.Minute)
	w.quiet()
}

// TestCgroupHangs: that of one pod hangs; others come and go, and it can still be
// removed when the call was given up.
func TestCgroupHangs(t *testing.T) {
	w := parallelNode(t, 1)
	w.run(5 * time.Second)
	w.cgroups.Fault = func(c machine.Call) machine.Fault {
		return machine.Fault{Hang: c.Verb == "SetCgroup" && strings.HasPrefix(c.Name, burstable+"/pod")}
	}
	w.add(asks(aPod("hung"), "1"), aPod("other"))
	w.until(10*time.Second, "the other one runs", func() bool { return w.runs("other", "app", 0) })
	w.drop("hung")
	w.allUp(5 * time.Minute)
	w.quiet()
}

// TestCgroupOfAForgottenPod: pods crashes when it hears that a pod is not wanted any more, and the runtime has
// nothing of that pod. It gets no actor again, so nobody asks to have its cgroup removed.
func TestCgroupOfAForgottenPod(t *testing.T) {
	w := parallelNode(t, 1)
	w.watch.restartsExpected = false
	w.add(asks(aPod("stays"), "500m"))
	w.allUp(time.Minute)
	w.fault = func(c simcri.Call) simcri.Fault {
		if c.Method == simcri.RunPodSandbox {
			return simcri.Fault{Fail: true, Detail: "no room"}
		}
		return simcri.Fault{}
	}
	w.add(asks(aPod("goes"), "1500m"))
	w.run(time.Second)
	uid := w.pod("goes").UID
	if !w.cgroups.Has(uid) {
		t.Fatal("the pod has no cgroup")
	}
	w.around = func(who string, m any, handled bool) {
		if _, is := m.(podset.Wanted); is && who == "podset" && !handled {
			w.around = nil
			panic(planted)
		}
	}
	w.drop("goes")
	w.until(2*time.Minute, "no cgroup", func() bool { return !w.cgroups.Has(uid) })
	w.run(time.Second)
	check.Count(t, w.cgroups.Values()[burstable].CPUShares, 512, "the class still counts the pod that is gone: %d shares")
	w.fault = nil
	w.allUp(time.Minute)
	w.quiet()
}
