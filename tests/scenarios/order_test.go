package scenarios

import (
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/podview"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/tests/check"
)

// proxied is a pod of two main containers, of which the first has a postStart hook.
func proxied(name string, hook *v1.LifecycleHandler) *spec {
	s := emptyPod(name).main("proxy").main("app")
	s.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: hook}
	return s
}

// container is what users are shown of a container.
func (w *world) container(name, container string) podview.Container {
	cs := w.pod(name).Containers
	if i := slices.IndexFunc(cs, func(c podview.Container) bool { return c.Name == container }); i >= 0 {
		return cs[i]
	}
	return podview.Container{}
}

// TestPostStartHoldsUpTheNext: a container is made when the postStart hook of the one before it has ended, and its image
// is there then.
func TestPostStartHoldsUpTheNext(t *testing.T) {
	t.Parallel()
	w := newNode(t, 1)
	w.add(proxied("web", &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 20}}).grace(30))
	w.until(10*time.Second, "the first", func() bool { return w.runs("web", "proxy", 0) })
	w.run(19 * time.Second)
	if n := w.newest("web", "app"); n.ID != "" {
		t.Errorf("the second is %v while the hook of the first runs", n.State)
	}
	if c := w.container("web", "app"); c.Reason != "ContainerCreating" ||
		c.Message != "waiting for the postStart hook of container proxy" {
		t.Errorf("users are shown %s: %s", c.Reason, c.Message)
	}
	w.until(2*time.Second, "the second", func() bool { return w.runs("web", "app", 0) })
	w.end("web", "app", 1)
	w.until(time.Second, "the second again", func() bool { return w.runs("web", "app", 1) })
	w.end("web", "proxy", 1)
	w.until(time.Second, "the first again", func() bool { return w.runs("web", "proxy", 1) })
	if !w.runs("web", "app", 1) {
		t.Error("the second was restarted with the first")
	}
	w.run(21 * time.Second)
	w.quiet()
}

// hookShown is how long people are shown why a postStart hook failed.
const hookShown = 10 * time.Second

// TestFailedPostStartHoldsUpNobody: the next container waits for one try of the hook.
func TestFailedPostStartHoldsUpNobody(t *testing.T) {
	t.Parallel()
	w := newNode(t, 1)
	w.add(proxied("web", &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"not", "well"}}}).
		script("proxy", "exec-delay", "3s").script("proxy", "exec-exit-code", "7").script("proxy", "exec-output", "secret"))
	w.until(10*time.Second, "the first", func() bool { return w.runs("web", "proxy", 0) })
	took := w.until(10*time.Second, "the second", func() bool { return w.runs("web", "app", 0) })
	if took < 3*time.Second || took > 4*time.Second {
		t.Errorf("the second runs %v after the first, want the 3 s of its hook", took)
	}
	w.until(time.Minute, "the backoff of the first", func() bool {
		c := w.container("web", "proxy")
		return c.Restarts == 1 && c.Reason == "PostStartHookError" && c.Message == `command "not well" exited with 7: secret`
	})
	w.until(20*time.Second, "the third try", func() bool { return w.runs("web", "proxy", 2) })
	w.run(3*time.Second + hookShown + time.Second)
	if c := w.container("web", "proxy"); c.Restarts != 2 || c.Reason != "CrashLoopBackOff" {
		t.Errorf("later users are shown %s, %d restarts", c.Reason, c.Restarts)
	}
	if m := w.lastEvent("web", "FailedPostStartHook"); m != "PostStartHook failed" {
		t.Errorf("users are told %q", m)
	}
	if !w.runs("web", "app", 0) {
		t.Error("the second does not run any more")
	}
}

// TestImageIsLookedForInTurn: the image of a main container comes while an init container runs. Nobody is told that it
// was not there, and it is not waited for.
func TestImageIsLookedForInTurn(t *testing.T) {
	t.Parallel()
	for _, policy := range []v1.PullPolicy{v1.PullIfNotPresent, v1.PullAlways, v1.PullNever} {
		t.Run(string(policy), func(t *testing.T) {
			w := newNode(t, 1)
			w.registry.Withdraw(appImage)
			s := emptyPod("web").init("fill").main("app").script("fill", "run-for", "100s")
			s.Spec.Containers[0].ImagePullPolicy = policy
			w.add(s)
			w.until(10*time.Second, "the init container", func() bool { return w.runs("web", "fill", 0) })
			for range 99 {
				w.run(time.Second)
				if c := w.container("web", "app"); c.Reason != "PodInitializing" {
					t.Fatalf("users are shown %s: %s", c.Reason, c.Message)
				}
			}
			for _, reason := range []string{"Failed", "BackOff", "ErrImageNeverPull"} {
				if n := w.count("web", reason); n > 0 {
					t.Errorf("%d events %s", n, reason)
				}
			}
			if policy == v1.PullNever {
				w.rt.MakeImagePresent(appImage, simcri.RegistryImage{})
			} else {
				w.registry.Put(appImage, simcri.RegistryImage{})
			}
			w.until(10*time.Second, "the main container", func() bool { return w.runs("web", "app", 0) })
			w.quiet()
		})
	}
}

// TestImageOfAVolumeInTurn: that a container can't be made, as the image of a volume can't be had, is told when it is
// its turn. Of the pod it is told before.
func TestImageOfAVolumeInTurn(t *testing.T) {
	const data = "registry.test/data:1"
	w := parallelNode(t, 1)
	w.registry.Withdraw(data)
	w.add(emptyPod("web").main("app").imageVolume("data", data).init("fill").script("fill", "run-for", "100s"))
	told := func(container string) (out []string) {
		for _, e := range w.events {
			if e.Reason == "Failed" && e.Container == container {
				out = append(out, e.Message)
			}
		}
		return out
	}
	w.until(10*time.Second, "the init container", func() bool { return w.runs("web", "fill", 0) })
	w.run(95 * time.Second)
	if len(told("")) == 0 || len(told("app")) > 0 {
		t.Errorf("of the pod is told %q, of the container %q", told(""), told("app"))
	}
	w.run(10 * time.Minute)
	for _, reason := range []string{"ErrImagePull", "ImagePullBackOff"} {
		if !slices.Contains(told("app"), "Error: "+reason) {
			t.Errorf("of the container is told %q, not %s", told("app"), reason)
		}
	}
	w.registry.Put(data, simcri.RegistryImage{})
	w.allUp(6 * time.Minute)
	w.quiet()
}

// TestSidecarOfAnEndingPod: the last container of a pod that restarts none fails its probe. A sidecar that fails its own
// meanwhile is not restarted.
func TestSidecarOfAnEndingPod(t *testing.T) {
	t.Parallel()
	w := newNode(t, 1)
	w.watch.restartsExpected = false
	alive := func() *v1.Probe {
		p := httpProbe("/alive")
		p.PeriodSeconds, p.FailureThreshold = 1, 1
		return p
	}
	s := emptyPod("job").sidecar("proxy").main("app").restarts(v1.RestartPolicyNever).grace(60).
		script("app", "unhealthy-after", "20s").script("proxy", "unhealthy-after", "25s")
	s.Spec.InitContainers[0].LivenessProbe, s.Spec.Containers[0].LivenessProbe = alive(), alive()
	s.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 30}}}
	w.add(s)
	w.until(10*time.Second, "all", func() bool { return w.runs("job", "proxy", 0) && w.runs("job", "app", 0) })
	w.until(time.Minute, "the end of the main container", func() bool {
		return w.newest("job", "app").State == observed.ContainerExited
	})
	if n := w.newest("job", "proxy"); n.Attempt > 0 {
		t.Errorf("the sidecar was restarted %d times", n.Attempt)
	}
	w.until(10*time.Second, "the end of the pod", func() bool { return w.pod("job").Life == "Terminated" })
	if n := w.newest("job", "proxy"); n.Attempt > 0 || n.State != observed.ContainerExited {
		t.Errorf("the sidecar is %v, restarted %d times", n.State, n.Attempt)
	}
}

// TestSidecarBesideAShell: a sidecar has its stop signal when the main containers have ended, also beside a shell of
// kubectl debug, which ignores it.
func TestSidecarBesideAShell(t *testing.T) {
	t.Parallel()
	w, c := newClusterNode(t, 1)
	s := emptyPod("web").sidecar("proxy").main("app").grace(60).script("dbg", "ignore-term", "true")
	s.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "dbg", Image: appImage}}}
	c.create(s)
	w.until(time.Minute, "all run", func() bool { return c.ready("web") && w.runs("web", "dbg", 0) })
	c.delete("web", nil)
	w.until(10*time.Second, "the end of the sidecar", func() bool { return w.newest("web", "proxy").State == observed.ContainerExited })
	check.Equal(t, w.newest("web", "dbg").State, observed.ContainerRunning, "the state of the shell")
	w.until(2*time.Minute, "nothing is left", c.nothingLeft)
}
