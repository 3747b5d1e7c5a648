package scenarios

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podcgroup"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/cri/simcri"
)

// fakeCgroups are cgroups in memory.
type fakeCgroups struct {
	w *world
	// values are by path, pods are those that have one.
	values map[string]podcgroup.Values
	pods   map[types.UID]string
	// fault says that a call fails (not nil) or hangs (true); may be nil.
	fault func(verb, object string) (error, bool)
	calls int
	// usage is the memory in use in each of them.
	usage int64
	// kills counts cgroups that were removed from under a living container.
	kills int
}

func newFakeCgroups(w *world) *fakeCgroups {
	return &fakeCgroups{w: w, values: map[string]podcgroup.Values{}, pods: map[types.UID]string{}}
}

func (c *fakeCgroups) call(ctx context.Context, verb, object string, done func(error), f func()) {
	c.calls++
	var fail error
	if c.fault != nil {
		var hang bool
		if fail, hang = c.fault(verb, object); hang {
			return
		}
	}
	c.w.v.AfterFunc(time.Millisecond, func() {
		switch {
		case ctx.Err() != nil:
			done(&port.Error{Kind: port.Canceled, Verb: verb})
		case fail != nil:
			done(fail)
		default:
			f()
			done(nil)
		}
	})
}

func (c *fakeCgroups) Set(ctx context.Context, name podcgroup.Name, v podcgroup.Values, done func(error)) {
	path := name.Path(podcgroup.Cgroupfs)
	c.call(ctx, "Set", path, done, func() {
		c.values[path] = v.Over(c.values[path])
		if uid, is := podcgroup.UIDOf(name[len(name)-1], podcgroup.Cgroupfs); is {
			c.pods[uid] = path
		}
	})
}

func (c *fakeCgroups) Get(ctx context.Context, name podcgroup.Name, done func(observed.Resources, int64, error)) {
	path := name.Path(podcgroup.Cgroupfs)
	var has observed.Resources
	c.call(ctx, "Get", path, func(err error) { done(has, c.usage, err) }, func() {
		has = c.values[path].Resources()
		has.CPUShares = 0
	})
}

func (c *fakeCgroups) RemovePod(ctx context.Context, uid types.UID, done func(error)) {
	c.call(ctx, "RemovePod", string(uid), done, func() {
		for _, p := range c.w.rt.Truth().Runtime.Pods {
			for i := range p.Containers {
				if p.Ref.UID == uid && p.Containers[i].State == observed.ContainerRunning {
					c.kills++
				}
			}
		}
		delete(c.values, c.pods[uid])
		delete(c.pods, uid)
	})
}

func (c *fakeCgroups) Pods(ctx context.Context, done func([]types.UID, error)) {
	var uids []types.UID
	c.call(ctx, "Pods", "", func(err error) { done(uids, err) }, func() { uids = slices.Sorted(maps.Keys(c.pods)) })
}

// check holds cgroups to what runs: nothing is made outside of one, and none is
// left of a pod that is gone.
func (c *fakeCgroups) check() {
	c.w.t.Helper()
	if c.kills > 0 {
		c.w.failf("%d cgroups were removed from under living containers", c.kills)
	}
	running := map[types.UID]bool{}
	for _, p := range c.w.rt.Truth().Runtime.Pods {
		for i := range p.Sandboxes {
			if p.Sandboxes[i].State == observed.SandboxReady {
				running[p.Ref.UID] = true
			}
		}
	}
	for uid, path := range c.pods {
		if !running[uid] {
			c.w.failf("cgroup %s is left of a pod that does not run", path)
		}
	}
	for uid := range running {
		if c.pods[uid] == "" {
			c.w.failf("pod %s runs without a cgroup", uid)
		}
	}
}

// called fails the test when a sandbox is made before its pod's cgroup.
func (c *fakeCgroups) called(call simcri.Call) {
	if call.Method == simcri.RunPodSandbox && c.pods[call.Pod.UID] == "" {
		c.w.failf("%s is made before the pod's cgroup", call.Object)
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
	t.Parallel()
	w := newNode(t, 1)
	w.run(5 * time.Second)
	w.add(asks(aPod("a"), "500m"), asks(aPod("b"), "1500m"), aPod("c"))
	w.allUp(time.Minute)
	w.run(time.Second)
	shares := func(path string) uint64 { return w.cgroups.values[path].CPUShares }
	if got := shares(burstable); got != 2048 {
		t.Errorf("the burstable class has %d shares", got)
	}
	if got := shares("/kubepods/besteffort"); got != 2 {
		t.Errorf("the best effort class has %d shares", got)
	}
	if got := shares("/kubepods"); got != 64*1024 {
		t.Errorf("all pods have %d shares", got)
	}
	if got := shares(burstable + "/pod" + string(w.pod("a").UID)); got != 512 {
		t.Errorf("pod a has %d shares", got)
	}
	w.quiet()
	w.drop("b")
	w.allUp(time.Minute)
	w.run(time.Second)
	if got := shares(burstable); got != 512 {
		t.Errorf("with one pod less the burstable class has %d shares", got)
	}
	before := w.cgroups.calls
	w.restart()
	w.run(30 * time.Second)
	if n := w.cgroups.calls - before; n > 4 { // all, two classes, and a look
		t.Errorf("a restart of the agent makes %d calls", n)
	}
	if got := shares(burstable); got != 512 {
		t.Errorf("after a restart of the agent the burstable class has %d shares", got)
	}
	before = w.cgroups.calls
	w.run(10 * time.Minute)
	if n := w.cgroups.calls - before; n > 10 { // a sweep each minute
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
	w.cgroups.pods["dead-1"] = burstable + "/poddead-1"
	w.manifests.readErr = &port.Error{Verb: "read", Detail: "no such disk"}
	w.start()
	w.run(3 * time.Minute)
	if w.cgroups.pods["dead-1"] == "" {
		t.Error("it is removed before all sources were seen")
	}
	w.manifests.readErr = nil
	w.add(aPod("web"))
	w.allUp(time.Minute)
	w.run(2 * time.Minute)
	w.quiet()
}

// TestCgroupFails: the pod waits and says why, and goes on when it works.
func TestCgroupFails(t *testing.T) {
	t.Parallel()
	w := newNode(t, 1)
	w.run(5 * time.Second)
	broken, calls := true, 0
	w.cgroups.fault = func(verb, object string) (error, bool) {
		if verb == "Pods" || !broken {
			return nil, false
		}
		calls++
		return &port.Error{Verb: verb, Object: object, Detail: "no space left on device"}, false
	}
	w.add(aPod("web"))
	w.run(10 * time.Minute)
	if calls > 40 {
		t.Errorf("%d tries in ten minutes", calls)
	}
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
	t.Parallel()
	w := newNode(t, 1)
	w.run(5 * time.Second)
	w.cgroups.fault = func(verb, object string) (error, bool) {
		return nil, verb == "Set" && strings.HasPrefix(object, burstable+"/pod")
	}
	w.add(asks(aPod("hung"), "1"), aPod("other"))
	w.until(10*time.Second, "the other one runs", func() bool { return w.runs("other", "app", 0) })
	w.drop("hung")
	w.allUp(5 * time.Minute)
	w.quiet()
}
