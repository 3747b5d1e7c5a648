package scenarios

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/tests/check"
)

// losesTask has the runtime lose the task of the first incarnation of each app, until
// lost is false: neither it nor its sandbox can be removed.
func (w *world) losesTask(lost *bool) {
	w.fault = func(c simcri.Call) simcri.Fault {
		first := c.Method == simcri.RemoveContainer && c.Container == "app" || c.Method == simcri.RemovePodSandbox
		if !*lost || !first || c.Attempt > 0 {
			return simcri.Fault{}
		}
		return simcri.Fault{Fail: true, Kind: port.Stuck, Detail: "the task of " + c.Object + " is lost"}
	}
}

// twoContainers is aPod with a second container beside app.
func twoContainers(name string) *spec {
	s := aPod(name)
	side := *s.Spec.Containers[0].DeepCopy()
	side.Name = "side"
	s.Spec.Containers = append(s.Spec.Containers, side)
	return s
}

// onlyStuck says what there is of pods beside what is stuck; nothing if "".
func (w *world) onlyStuck(pods int) string {
	truth := w.rt.Truth().Runtime.Pods
	if len(truth) != pods {
		return fmt.Sprintf("the runtime has %d pods", len(truth))
	}
	for i := range truth {
		p := &truth[i]
		if len(p.Containers) != 1 || p.Containers[0].Name != "app" || len(p.Sandboxes) != 1 || p.Sandboxes[0].State == observed.SandboxReady {
			return fmt.Sprintf("the runtime has %+v", p)
		}
	}
	if n := w.host.Pods(); n > 0 {
		return fmt.Sprintf("the host has directories of %d pods", n)
	}
	if v := w.view(); len(v.Pods) > 0 {
		return fmt.Sprintf("people are shown %+v", v.Pods)
	}
	return ""
}

// TestStuckContainer: of a pod that has a container which the runtime can't remove
// all else goes, its manifest can come back at once, and what is stuck goes as soon
// as the runtime was restarted.
func TestStuckContainer(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	w := newWorld(t, 1, withLog(&log))
	w.start()
	lost := true
	w.losesTask(&lost)
	w.run(time.Second)
	w.add(aPod("back"), twoContainers("two"))
	w.allUp(time.Minute)

	w.drop("back", "two")
	took := w.until(time.Minute, "all else of the pods is gone", func() bool { return w.onlyStuck(2) == "" })
	if took > 10*time.Second { // their grace, of 5 s, is in it
		t.Errorf("all else was gone after %v", took)
	}
	w.checkCgroups()

	w.add(aPod("back"))
	took = w.until(time.Minute, "the pod runs again", func() bool { return w.runs("back", "app", 1) })
	check.AtMost(t, took, 10*time.Second, "the pod ran again after")
	w.run(10 * time.Minute)
	if !w.pod("back").Ready {
		t.Errorf("the pod is %+v", w.pod("back"))
	}
	w.drop("back")
	w.until(time.Minute, "all else of the pod is gone again", func() bool { return w.onlyStuck(2) == "" })
	w.run(3 * time.Hour)
	check.Equal(t, w.onlyStuck(2), "", "it")
	// Each container and each sandbox once, and again each hour.
	if n := strings.Count(log.String(), "is lost"); n < 4 || n > 4*4 {
		t.Errorf("it was said %d times:\n%s", n, log.String())
	}

	lost = false
	w.rt.Kill()
	w.run(5 * time.Second)
	w.rt.Restart()
	took = w.until(time.Minute, "all is gone", func() bool { return len(w.rt.Truth().Runtime.Pods) == 0 })
	check.AtMost(t, took, 10*time.Second, "what was stuck was gone %v after the runtime's restart", took)
	w.quiet()
}

// TestStuckDoesNotHoldADeletionUp: a pod is gone from the apiserver as soon as its
// containers have ended, and another of its name runs.
func TestStuckDoesNotHoldADeletionUp(t *testing.T) {
	w, c := parallelCluster(t, 1)
	lost := true
	w.losesTask(&lost)
	c.create(aPod("web"))
	w.until(time.Minute, "the pod is Ready", func() bool { return c.ready("web") })
	c.delete("web", nil)
	took := w.until(time.Minute, "the pod is gone", func() bool { return c.get("web") == nil })
	if took > 10*time.Second { // its grace, of 5 s, is in it
		t.Errorf("the pod was gone after %v", took)
	}
	c.create(aPod("web"))
	w.until(time.Minute, "the next one is Ready", func() bool { return c.ready("web") })
}

// TestManyStuck: a hundred of them cost nearly nothing, and no more with time, over
// the death of the agent too.
func TestManyStuck(t *testing.T) {
	t.Parallel()
	const n = 100
	w := newNode(t, 1)
	w.run(5 * time.Second)
	actors := func() int {
		w.view() // podview begins with the first question
		return len(w.system.Snapshot(""))
	}
	idle := actors()
	lost := true
	w.losesTask(&lost)
	w.add(specs(names("p", n), aPod)...)
	w.allUp(5 * time.Minute)
	w.drop(names("p", n)...)
	w.run(2 * time.Minute)
	check.Equal(t, w.onlyStuck(n), "", "it")
	for _, when := range []string{"at first", "after a restart"} {
		w.run(20 * time.Minute) // by now they are tried as seldom as they ever are
		if now := actors(); now != idle {
			t.Errorf("%s: there are %d actors, without pods there were %d", when, now, idle)
		}
		before := w.rt.Calls(simcri.RemoveContainer) + w.rt.Calls(simcri.RemovePodSandbox)
		w.run(time.Hour)
		// Sweeps come each minute, so that five minutes may become six.
		if calls := w.rt.Calls(simcri.RemoveContainer) + w.rt.Calls(simcri.RemovePodSandbox) - before; calls > 2*n*12+2*n || calls < n*9 {
			t.Errorf("%s: %d removals were tried in an hour", when, calls)
		}
		check.Equal(t, w.onlyStuck(n), "", "%s", when)
		w.restart()
	}
	lost = false
	w.run(10 * time.Minute)
	check.Count(t, len(w.rt.Truth().Runtime.Pods), 0, "the runtime has %d pods")
	w.quiet()
}

// TestStuckInALivingPod: a living pod restarts its container beside the one that is
// stuck.
func TestStuckInALivingPod(t *testing.T) {
	w := parallelNode(t, 1)
	lost := true
	w.losesTask(&lost)
	w.run(time.Second)
	w.add(aPod("p").restarts(v1.RestartPolicyAlways))
	w.allUp(time.Minute)
	w.watch.restartsExpected = true
	for attempt := uint32(1); attempt <= 3; attempt++ {
		w.end("p", "app", 1)
		w.until(5*time.Minute, "the container was restarted", func() bool { return w.runs("p", "app", attempt) })
		w.run(time.Minute)
	}
	before := w.rt.Calls(simcri.RemoveContainer)
	w.run(time.Hour)
	if calls := w.rt.Calls(simcri.RemoveContainer) - before; calls > 20 {
		t.Errorf("%d removals were tried in an hour", calls)
	}
	if got := len(w.truthOf("p").Containers); got != 3 { // what runs, its predecessor, what is stuck
		t.Errorf("the runtime has %d containers", got)
	}
}
