package scenarios

import (
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/tests/check"
)

// ended is the exit code that the apiserver shows of a container that has ended, -1 for one that has not.
func (c *cluster) ended(name, container string) int32 {
	p := c.get(name)
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses, p.Status.EphemeralContainerStatuses) {
		if s.Name == container && s.State.Terminated != nil {
			return s.State.Terminated.ExitCode
		}
	}
	return -1
}

// vanish removes the record of a pod's container from the runtime, while the agent runs or is dead.
func (w *world) vanish(name, container string, dead bool) {
	w.t.Helper()
	n, is := w.rt.Find(w.cluster.get(name).UID, container)
	if !is {
		w.failf("there is no container %s", container)
	}
	if dead {
		w.kill()
	}
	check.Fatal(w.t, w.rt.Vanish(n.ID))
	if dead {
		w.start()
	}
}

// unmade holds that for some time the runtime has no container of this name, and that the apiserver goes
// on to show its end.
func (c *cluster) unmade(name, container string, code int32) {
	w, uid := c.w, c.get(name).UID
	w.t.Helper()
	for end := w.v.Now().Add(3 * time.Minute); w.step(end); {
		if n, is := w.rt.Find(uid, container); is {
			w.failf("container %s was made again, as number %d", container, n.Attempt)
		}
		if got := c.ended(name, container); got != code {
			w.failf("the apiserver shows %s as ended with %d, want %d", container, got, code)
		}
	}
}

// TestEndedIsNotMadeAgain: somebody removes the record of a container that has ended for good, while the
// agent runs or is dead, and then the pod's sandbox dies. It is not made again. One that is to be
// restarted is, and so are the init containers in the next sandbox.
func TestEndedIsNotMadeAgain(t *testing.T) {
	t.Parallel()
	never := v1.ContainerRestartPolicyNever
	for _, tc := range []struct {
		name string
		pod  *spec
		code int32
	}{
		{"Never", emptyPod("web").restarts(v1.RestartPolicyNever).script("once", "exit-code", "3"), 3},
		{"OnFailure", emptyPod("web").restarts(v1.RestartPolicyOnFailure).script("once", "exit-code", "0"), 0},
		{"its own Never", emptyPod("web").script("once", "exit-code", "0"), 0},
	} {
		for _, dead := range []bool{false, true} {
			t.Run(tc.name+map[bool]string{true: ", agent dead"}[dead], func(t *testing.T) {
				w, c := parallelCluster(t, 1)
				w.watch.restartsExpected = true
				s := (&spec{*tc.pod.DeepCopy()}).init("first").main("once").main("stay").script("once", "run-for", "2s")
				if tc.name == "its own Never" {
					s.Spec.Containers[0].RestartPolicy = &never
				}
				c.create(s)
				w.until(time.Minute, "once has ended", func() bool { return c.get("web") != nil && c.ended("web", "once") == tc.code })
				w.vanish("web", "once", dead)
				c.unmade("web", "once", tc.code)
				uid := c.get("web").UID
				stay, _ := w.rt.Find(uid, "stay")
				if stay.State != observed.ContainerRunning || stay.Attempt != 0 {
					t.Errorf("the other: %+v", stay)
				}
				box, _ := w.sandboxOf("web")
				check.Fatal(t, w.rt.EndSandbox(box.ID))
				c.unmade("web", "once", tc.code)
				first, _ := w.rt.Find(uid, "first")
				stay, _ = w.rt.Find(uid, "stay")
				if again := tc.name != "Never"; (stay.Attempt == 1 && stay.State == observed.ContainerRunning) != again ||
					(first.Attempt == 1) != again {
					t.Errorf("in the next sandbox, the init container: %+v, the other: %+v", first, stay)
				}
			})
		}
	}
}

// TestEndedJobIsNotRunAgain: the runtime loses all records of a pod whose only container has completed,
// before the apiserver is told that the pod has. It succeeds, and does not run a second time.
func TestEndedJobIsNotRunAgain(t *testing.T) {
	w, c := parallelCluster(t, 1)
	s := emptyPod("web").restarts(v1.RestartPolicyOnFailure).main("app").main("other").script("app", "run-for", "2s").
		script("app", "exit-code", "0").script("other", "run-for", "4s").script("other", "exit-code", "0")
	c.create(s)
	w.until(time.Minute, "app has ended", func() bool { return c.get("web") != nil && c.ended("web", "app") == 0 })
	w.vanish("web", "app", true)
	w.until(time.Minute, "it has succeeded", func() bool { return c.get("web").Status.Phase == v1.PodSucceeded })
	for _, name := range []string{"app", "other"} {
		check.Count(t, c.restarts("web", name), 0, "%s was restarted %d times", name)
	}
}

// TestEphemeralRunsOnce: the record of an ephemeral container is removed, after it has ended or while it
// runs. It is not made again, and the apiserver shows it as ended.
func TestEphemeralRunsOnce(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, runs string
		code       int32
		dead       bool
	}{
		{"has ended", "2s", 0, false},
		{"has ended, agent dead", "2s", 0, true},
		{"runs", "1h", 137, false},
		{"runs, agent dead", "1h", 137, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w, c := parallelCluster(t, 1)
			w.watch.restartsExpected = true
			s := aPod("web").script("dbg", "run-for", tc.runs).script("dbg", "exit-code", "0")
			s.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{
				Name: "dbg", Image: appImage,
			}}}
			c.create(s)
			w.until(time.Minute, "it is seen", func() bool {
				l := c.get("web").Status.EphemeralContainerStatuses
				return c.ready("web") && len(l) == 1 && (l[0].State.Terminated != nil || tc.code == 137 && l[0].State.Running != nil)
			})
			w.vanish("web", "dbg", tc.dead)
			w.until(2*time.Minute, "it has ended", func() bool { return c.ended("web", "dbg") == tc.code })
			c.unmade("web", "dbg", tc.code)
			check.Count(t, c.get("web").Status.EphemeralContainerStatuses[0].RestartCount, 0, "%d restarts")
		})
	}
}

// TestStaticEndedIsNotMadeAgain: so it is with a container of a static pod, whose record is removed while the agent is
// dead, with or without an apiserver, and one that does not answer. The next life of the pod runs it again.
func TestStaticEndedIsNotMadeAgain(t *testing.T) {
	t.Parallel()
	for _, of := range []string{"alone", "in a cluster", "apiserver away"} {
		t.Run(of, func(t *testing.T) {
			t.Parallel()
			var w *world
			if of == "alone" {
				w = newNode(t, 1)
			} else {
				w, _ = newClusterNode(t, 1)
			}
			w.watch.restartsExpected = true
			s := emptyPod("web").restarts(v1.RestartPolicyOnFailure).grace(5).main("once").main("stay").
				script("once", "run-for", "2s").script("once", "exit-code", "0")
			w.add(s)
			w.until(time.Minute, "once has ended", func() bool { return w.newest("web", "once").State == observed.ContainerExited })
			w.run(5 * time.Second)
			if of == "apiserver away" {
				w.cluster.api.SetDown(true)
			}
			for range 2 { // by one agent that has seen the end, and one that has only read of it
				w.kill()
				if n := w.newest("web", "once"); n.ID != "" {
					check.Fatal(t, w.rt.Vanish(n.ID))
				}
				w.start()
				for end := w.v.Now().Add(time.Minute); w.step(end); {
					if n := w.newest("web", "once"); n.ID != "" {
						w.failf("it was made again, as number %d", n.Attempt)
					}
				}
			}
			if stay := w.newest("web", "stay"); stay.State != observed.ContainerRunning || stay.Attempt != 0 {
				t.Errorf("the other: %+v", stay)
			}
			w.drop("web")
			w.run(time.Second)
			w.add(s)
			w.until(time.Minute, "its next life has run it", func() bool { return w.newest("web", "once").State == observed.ContainerExited })
		})
	}
}
