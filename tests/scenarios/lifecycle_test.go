package scenarios

import (
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/tests/check"
)

// truthOf is what the runtime has of the newest pod with a manifest's name.
func (w *world) truthOf(name string) observed.RuntimePod {
	var found observed.RuntimePod
	for _, p := range w.rt.Truth().Runtime.Pods {
		if plainName(p.Ref.Name) == name {
			found = p
		}
	}
	return found
}

// sandboxOf is the ready sandbox of a pod, if there is one.
func (w *world) sandboxOf(name string) (observed.Sandbox, bool) {
	p := w.truthOf(name)
	return p.ReadySandbox()
}

func (w *world) newest(name, container string) observed.Container {
	p := w.truthOf(name)
	c, _ := p.Newest(container)
	return c
}

func (w *world) end(name, container string, code int32) {
	w.t.Helper()
	if err := w.rt.EndContainer(w.newest(name, container).ID, simcri.Exit{Code: code}); err != nil {
		w.failf("%v", err)
	}
}

// runs says whether incarnation attempt of a container runs.
func (w *world) runs(name, container string, attempt uint32) bool {
	c := w.newest(name, container)
	return c.State == observed.ContainerRunning && c.Attempt == attempt
}

func TestPullsBesideTheSandbox(t *testing.T) {
	w := parallelNode(t, 3)
	w.run(time.Second)
	w.add(aPod("web").main("a").main("b").note("sim.troupe.dev/image-size", "200Mi"))
	begun := map[simcri.Method]time.Time{}
	w.fault = func(c simcri.Call) simcri.Fault {
		if _, is := begun[c.Method]; !is {
			begun[c.Method] = w.v.Now()
		}
		return simcri.Fault{}
	}
	w.until(time.Second, "three pulls at once", func() bool { return w.rt.Truth().Pulling == 3 })
	if d := begun[simcri.PullImage].Sub(begun[simcri.RunPodSandbox]); d > 20*time.Millisecond {
		t.Errorf("the first pull was begun %v after the sandbox", d)
	}
	w.allUp(10 * time.Second)
}

func TestOldestFirst(t *testing.T) {
	w := parallelNode(t, 3)
	w.run(time.Second)
	all := names("p", 30)
	for _, n := range all {
		w.add(aPod(n))
	}
	up := map[string]time.Duration{}
	begin := w.v.Now()
	w.until(time.Minute, "all run", func() bool {
		for _, n := range all {
			if _, is := up[n]; !is && w.runs(n, "app", 0) {
				up[n] = w.v.Now().Sub(begin)
			}
		}
		return len(up) == 30
	})
	var times []time.Duration
	for _, d := range up {
		times = append(times, d)
	}
	slices.Sort(times)
	if times[15] > times[29]*65/100 {
		t.Errorf("the median pod runs after %v, the last after %v: they are not served oldest first", times[15], times[29])
	}
}

func TestCrashLoop(t *testing.T) {
	w := parallelNode(t, 1)
	w.add(aPod("web"))
	w.allUp(10 * time.Second)
	w.end("web", "app", 1)
	if d := w.until(time.Second, "restart", func() bool { return w.runs("web", "app", 1) }); d > 300*time.Millisecond {
		t.Errorf("the first restart took %v", d)
	}
	for i, want := range []time.Duration{10, 20, 40, 80, 160, 300, 300} {
		w.run(time.Second)
		w.end("web", "app", 1)
		w.run(2 * time.Second)
		if c := w.pod("web").Containers[0]; c.Reason != "CrashLoopBackOff" || c.Restarts != int32(i)+1 {
			t.Errorf("crash %d: people are shown %s, %d restarts", i+2, c.Reason, c.Restarts)
		}
		d := w.until(10*time.Minute, "restart", func() bool { return w.runs("web", "app", uint32(i)+2) }) + 2*time.Second
		if d < want*time.Second || d > want*time.Second+500*time.Millisecond {
			t.Errorf("crash %d: restarted after %v, want %d s", i+2, d, want)
		}
	}
	w.run(11 * time.Minute)
	w.end("web", "app", 1)
	if d := w.until(time.Second, "restart", func() bool { return w.runs("web", "app", 9) }); d > 300*time.Millisecond {
		t.Errorf("the restart after ten good minutes took %v", d)
	}
	w.quiet()
	if n := len(w.truthOf("web").Containers); n > 3 {
		t.Errorf("%d dead containers are kept", n-1)
	}
}

// TestBackOffOutlivesTheAgent: a killed agent does not shorten a backoff.
func TestBackOffOutlivesTheAgent(t *testing.T) {
	w := parallelNode(t, 1)
	w.add(aPod("web"))
	w.allUp(10 * time.Second)
	for i := range 3 {
		w.end("web", "app", 1)
		w.until(time.Minute, "restart", func() bool { return w.runs("web", "app", uint32(i)+1) })
		w.run(time.Second)
	}
	w.end("web", "app", 1)
	w.run(time.Second)
	w.restart()
	d := w.until(time.Minute, "restart", func() bool { return w.runs("web", "app", 4) })
	check.AtLeast(t, d, 35*time.Second, "restarted %v after the agent's restart, want 40 s from the crash", d)
}

func TestInitOrder(t *testing.T) {
	w := parallelNode(t, 1)
	w.add(emptyPod("web").init("one").sidecar("proxy").init("two").main("app").main("log"))
	w.allUp(20 * time.Second)
	w.quiet()
	for _, c := range []string{"one", "two"} {
		if got := w.newest("web", c); got.State != observed.ContainerExited || got.Attempt != 0 {
			t.Errorf("%s is %v, attempt %d", c, got.State, got.Attempt)
		}
	}
	w.end("web", "proxy", 1)
	w.until(time.Second, "restart of the sidecar", func() bool { return w.runs("web", "proxy", 1) })
	w.drop("web")
	var order []string
	w.until(20*time.Second, "all gone", func() bool {
		for _, c := range []string{"app", "log", "proxy"} {
			if n := w.newest("web", c); n.State == observed.ContainerExited && !slices.Contains(order, c) {
				order = append(order, c)
			}
		}
		return len(w.rt.Truth().Runtime.Pods) == 0
	})
	if len(order) != 3 || order[2] != "proxy" {
		t.Errorf("stopped in the order %v", order)
	}
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		policy v1.RestartPolicy
		code   string
		phase  string
		runs   int32
	}{
		{"never, success", v1.RestartPolicyNever, "0", "Succeeded", 0},
		{"never, failure", v1.RestartPolicyNever, "3", "Failed", 0},
		{"on failure, success", v1.RestartPolicyOnFailure, "0", "Succeeded", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newNode(t, 1)
			w.watch.restartsExpected = false
			w.add(aPod("job").restarts(c.policy).script("app", "run-for", "2s").script("app", "exit-code", c.code).volume("data"))
			w.until(10*time.Second, "the end", func() bool { return w.newest("job", "app").State == observed.ContainerExited })
			check := func() {
				t.Helper()
				p := w.pod("job")
				if p.Phase != c.phase || p.Life != "Terminated" {
					t.Errorf("people are shown %s %s, want %s", p.Life, p.Phase, c.phase)
				}
				if _, ready := w.sandboxOf("job"); ready {
					t.Error("the sandbox is still ready")
				}
			}
			w.run(5 * time.Second)
			check()
			w.run(5 * time.Minute)
			check()
			w.restart()
			w.run(5 * time.Minute)
			check()
			w.drop("job")
			w.allUp(5 * time.Second)
			w.quiet()
		})
	}
}

func TestOnFailureIsTriedAgain(t *testing.T) {
	w := parallelNode(t, 1)
	w.add(aPod("job").restarts(v1.RestartPolicyOnFailure).script("app", "run-for", "1s").script("app", "crash-loop", "2"))
	w.until(time.Minute, "third try", func() bool { return w.runs("job", "app", 2) })
	w.end("job", "app", 0)
	w.run(3 * time.Second)
	check.Equal(t, w.pod("job").Phase, "Succeeded", "people are shown")
}

func TestEditReplaces(t *testing.T) {
	w := parallelNode(t, 1)
	w.add(aPod("web").script("app", "term-delay", "2s"))
	w.allUp(10 * time.Second)
	before := w.truthOf("web").Ref.UID
	w.add(aPod("web").script("app", "term-delay", "2s").note("version", "2"))
	took := w.until(20*time.Second, "the new one alone", func() bool {
		return w.watch.up() == "" && w.truthOf("web").Ref.UID != before
	})
	check.AtLeast(t, took, 2*time.Second, "replaced in %v, before the old one had ended", took)
	w.quiet()
}

// TestEditWhileTheAgentIsDead: the old pod has to end first then, too.
func TestEditWhileTheAgentIsDead(t *testing.T) {
	w := parallelNode(t, 1)
	w.add(aPod("web").script("app", "term-delay", "2s"), aPod("other"))
	w.allUp(10 * time.Second)
	before, id := w.truthOf("web").Ref.UID, w.newest("other", "app").ID
	w.kill()
	w.add(aPod("web").script("app", "term-delay", "2s").note("version", "2"))
	w.start()
	w.until(20*time.Second, "the new one alone", func() bool {
		return w.watch.up() == "" && w.truthOf("web").Ref.UID != before
	})
	w.quiet()
	check.Equal(t, w.newest("other", "app").ID, id, "the other pod was restarted")
}

func TestOrphansAreStoppedAsTheyAsked(t *testing.T) {
	w := parallelNode(t, 1)
	w.add(aPod("web").grace(20).script("app", "term-delay", "8s").volume("data"), aPod("other"))
	w.allUp(10 * time.Second)
	w.kill()
	w.drop("web")
	w.start()
	took := w.allUp(time.Minute)
	check.AtLeast(t, took, 8*time.Second, "the orphan had %v, it needed 8 s of its 20 s", took)
	w.quiet()
}

// TestDirectoriesOfNobody: the agent died when the runtime had nothing left of
// a pod, but the host had.
func TestDirectoriesOfNobody(t *testing.T) {
	w := parallelNode(t, 1)
	w.host.Put("11111111-2222-3333-4444-555555555555", "data")
	w.add(aPod("web"))
	w.allUp(3 * time.Minute)
	w.quiet()
}

func TestBrokenManifestKeepsThePod(t *testing.T) {
	w := parallelNode(t, 1)
	w.add(aPod("web"), aPod("other"))
	w.allUp(10 * time.Second)
	w.watch.restartsExpected = false
	w.manifests.Write("web.yaml", []byte("kind: Pod\nspec: ["))
	w.run(time.Minute)
	if v := w.view(); len(v.Problems) == 0 {
		t.Error("people are not told of the broken manifest")
	}
	if why := w.watch.up(); why != "" {
		w.failf("%s", why)
	}
	w.restart()
	w.run(2 * time.Minute)
	if why := w.watch.up(); why != "" {
		w.failf("after a restart of the agent: %s", why)
	}
	w.drop("web")
	w.allUp(10 * time.Second)
}

func TestSameNameTwice(t *testing.T) {
	w := parallelNode(t, 1)
	w.add(aPod("web"))
	w.allUp(10 * time.Second)
	id := w.newest("web", "app").ID
	w.manifests.Write("z-web.yaml", []byte(aPod("web").note("other", "yes").yaml()))
	w.run(30 * time.Second)
	v := w.view()
	if w.newest("web", "app").ID != id || len(v.Pods) != 1 || len(v.Problems) != 1 {
		w.failf("want one pod, undisturbed, and one problem: %+v", v)
	}
	w.manifests.Remove("web.yaml")
	w.until(20*time.Second, "the other one runs", func() bool {
		return w.newest("web", "app").ID != id && w.watch.up() == ""
	})
	w.quiet()
}

func TestUnseenSourceKeepsAll(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, withURL())
	w.manifests.Body = aPod("remote").yaml()
	w.watch.want(aPod("remote"))
	w.add(aPod("web"))
	w.start()
	w.allUp(10 * time.Second)
	w.run(time.Minute)
	w.watch.restartsExpected = false
	ids := []string{w.newest("web", "app").ID, w.newest("remote", "app").ID}
	w.kill()
	w.checkpoints.Clear()
	w.manifests.FetchErr = &port.Error{Kind: port.Unavailable, Verb: "get", Object: "http://manifests.test/pods"}
	w.start()
	w.run(10 * time.Minute)
	if got := []string{w.newest("web", "app").ID, w.newest("remote", "app").ID}; !slices.Equal(got, ids) {
		w.failf("pods were touched though a source was not seen")
	}
	if v := w.view(); v.Ready || len(v.WaitingFor) != 1 || !strings.Contains(v.WaitingFor[0], "http") {
		t.Errorf("people are not told what is waited for: %v", v.WaitingFor)
	}
	w.manifests.FetchErr = nil
	w.run(time.Minute)
	w.quiet()
	if got := []string{w.newest("web", "app").ID, w.newest("remote", "app").ID}; !slices.Equal(got, ids) {
		w.failf("pods were touched when the source came back")
	}
}

// TestDeadWhileASourceIsUnseen: what is not known yet must not be collected.
func TestDeadWhileASourceIsUnseen(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, withURL())
	job := aPod("job").restarts(v1.RestartPolicyNever).script("app", "run-for", "2s").script("app", "exit-code", "0")
	w.manifests.Body = job.yaml()
	w.start()
	w.run(20 * time.Second)
	w.watch.restartsExpected = false
	w.kill()
	w.checkpoints.Clear()
	w.manifests.FetchErr = &port.Error{Kind: port.Unavailable, Verb: "get"}
	w.start()
	w.run(10 * time.Minute)
	w.manifests.FetchErr = nil
	w.run(5 * time.Minute)
	if p := w.pod("job"); p.Phase != "Succeeded" || w.watch.containers != 1 {
		w.failf("the job shows %s and ran %d times", p.Phase, w.watch.containers)
	}
}

func TestEditWhileASourceIsUnseen(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, withURL())
	w.manifests.FetchErr = &port.Error{Kind: port.Unavailable, Verb: "get"}
	w.add(aPod("web"))
	w.start()
	w.allUp(10 * time.Second)
	before := w.truthOf("web").Ref.UID
	w.add(aPod("web").note("version", "2"))
	w.until(20*time.Second, "the new one alone", func() bool {
		return w.watch.up() == "" && w.truthOf("web").Ref.UID != before
	})
}

func TestUnreadableDirectory(t *testing.T) {
	w := parallelNode(t, 1)
	w.add(aPod("web"))
	w.allUp(10 * time.Second)
	w.watch.restartsExpected = false
	w.manifests.ReadErr = &port.Error{Verb: "read", Object: "/etc/kubernetes/manifests", Detail: "input/output error"}
	w.run(time.Minute)
	w.restart()
	w.run(5 * time.Minute)
	if why := w.watch.up(); why != "" {
		w.failf("%s", why)
	}
	w.manifests.ReadErr = nil
	w.run(time.Minute)
	w.quiet()
}

func TestMissedHint(t *testing.T) {
	w := parallelNode(t, 1)
	w.run(time.Second)
	w.manifests.Missed = true
	w.add(aPod("web"))
	w.allUp(25 * time.Second)
	w.drop("web")
	w.allUp(25 * time.Second)
}

func TestGraceAndPreStop(t *testing.T) {
	w := parallelNode(t, 1)
	p := aPod("web").grace(10).script("app", "ignore-term", "true")
	p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 3}}}
	w.add(p)
	w.allUp(10 * time.Second)
	w.drop("web")
	killed := w.until(time.Minute, "the kill", func() bool { return w.newest("web", "app").State != observed.ContainerRunning })
	if killed < 10*time.Second || killed > 11*time.Second {
		t.Errorf("killed after %v, want the 10 s of its grace", killed)
	}
	w.allUp(10 * time.Second)
	w.quiet()
}

func TestRejectedPod(t *testing.T) {
	w := parallelNode(t, 1)
	first, second := aPod("b-first"), aPod("a-second")
	for _, s := range []*spec{first, second} {
		s.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 80, HostPort: 8080}}
	}
	w.add(first)
	w.allUp(10 * time.Second)
	w.manifests.Write("a-second.yaml", []byte(second.yaml()))
	w.run(10 * time.Second)
	if p := w.pod("a-second"); p.Phase != "Failed" || p.Reason == "" {
		w.failf("the second pod on the port shows %+v", p)
	}
	all, ran, refused := w.found(""), w.found("b-first"), w.found("a-second")
	if len(all) != 2 || len(ran) != 1 || len(refused) != 1 {
		w.failf("%d, %d and %d pods are found", len(all), len(ran), len(refused))
	}
	if s := ran[0].Status; s.Phase != v1.PodRunning || len(s.ContainerStatuses) != 1 || s.ContainerStatuses[0].ContainerID == "" {
		w.failf("the first is found with %+v", s)
	}
	if s := refused[0].Status; s.Phase != v1.PodFailed || !strings.HasPrefix(s.Message, "Pod was rejected: ") {
		w.failf("the second is found with %+v", s)
	}
	w.watch.restartsExpected = false
	id := w.newest("b-first", "app").ID
	// The one that runs has the port, whatever its name.
	w.restart()
	w.run(2 * time.Minute)
	if w.newest("b-first", "app").ID != id || len(w.rt.Truth().Runtime.Pods) != 1 {
		w.failf("a restart of the agent took the port from the pod that had it")
	}
	w.manifests.Remove("a-second.yaml")
	w.run(5 * time.Second)
	w.quiet()
}

func TestSandboxDies(t *testing.T) {
	w := parallelNode(t, 1)
	w.add(emptyPod("web").init("setup").main("app"))
	w.allUp(10 * time.Second)
	s, _ := w.sandboxOf("web")
	check.Fatal(t, w.rt.EndSandbox(s.ID))
	w.until(20*time.Second, "a new sandbox with all that runs", func() bool {
		s, ready := w.sandboxOf("web")
		return ready && s.Attempt == 1 && w.runs("web", "app", 1)
	})
	w.quiet()
	w.run(3 * time.Minute)
	if n := len(w.truthOf("web").Sandboxes); n > 2 { // dead containers that are kept are in the old one
		t.Errorf("%d sandboxes are kept", n)
	}
}

// TestContainerRemovedBehindOurBack: someone uses crictl.
func TestContainerRemovedBehindOurBack(t *testing.T) {
	t.Parallel()
	for _, events := range []bool{true, false} {
		w := newNode(t, 1, withEvents(simcri.EventPolicy{Off: !events}))
		w.add(aPod("web"))
		w.allUp(10 * time.Second)
		w.rules.Outsider(w.newest("web", "app").ID)
		w.rt.RemoveContainer(t.Context(), w.newest("web", "app").ID, func(error) {})
		w.run(200 * time.Millisecond)
		w.until(30*time.Second, "it runs again", func() bool { return w.newest("web", "app").State == observed.ContainerRunning })
		s, _ := w.sandboxOf("web")
		w.rules.Outsider(w.newest("web", "app").ID)
		w.rt.RemovePodSandbox(t.Context(), s.ID, func(error) {})
		w.run(200 * time.Millisecond)
		w.until(90*time.Second, "it runs in a new sandbox", func() bool {
			n, ready := w.sandboxOf("web")
			return ready && n.ID != s.ID && w.newest("web", "app").State == observed.ContainerRunning
		})
		w.quiet()
	}
}

// TestManyPodsLeaveNothing: a thousand pods come and go, and nothing grows.
func TestManyPodsLeaveNothing(t *testing.T) { // not parallel: it measures the process
	if testing.Short() {
		t.Skip("a thousand pods")
	}
	w := newNode(t, 1)
	w.keepEvents = false
	round := func(n int) {
		for _, name := range names("p", 50) {
			w.add(aPod(name).volume("data").note("round", strconv.Itoa(n)).image("registry.test/app:" + strconv.Itoa(n)))
		}
		w.allUp(2 * time.Minute)
		w.end("p-07", "app", 1)
		w.run(5 * time.Second)
		w.drop(names("p", 50)...)
		w.allUp(2 * time.Minute)
		w.watch.forget()
	}
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	for n := range 6 {
		round(n)
	}
	w.run(10 * time.Minute)
	before := heap()
	for n := 6; n < 20; n++ {
		round(n)
	}
	w.run(10 * time.Minute)
	grown := heap() - before
	t.Logf("the heap grew by %d bytes over 700 pods", grown)
	// 200 kB are protoactor's registry of names: it has 32,768 parts, each of which
	// keeps some 270 bytes from when it was first needed.
	check.AtMost(t, grown, 350_000, "the heap grew by %d bytes over 700 pods that are gone", grown)
	w.quiet()
	if n := len(w.system.Snapshot("")); n != 12 { // podview is among them: it was asked
		t.Errorf("%d actors are there, want 12", n)
	}
	runtime.KeepAlive(w)
}
