package podstatus_test

import (
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/probe"
)

func drawPod(t *rapid.T) *v1.Pod {
	grace := int64(rapid.SampledFrom([]int{0, 5, 30}).Draw(t, "grace"))
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "u"},
		Spec: v1.PodSpec{
			TerminationGracePeriodSeconds: &grace,
			RestartPolicy:                 rapid.SampledFrom([]v1.RestartPolicy{v1.RestartPolicyAlways, v1.RestartPolicyOnFailure, v1.RestartPolicyNever}).Draw(t, "policy"),
		},
	}
	always := v1.ContainerRestartPolicyAlways
	hook := &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"x"}}}
	for i, kind := range rapid.SliceOfN(rapid.SampledFrom([]string{"init", "sidecar"}), 0, 3).Draw(t, "inits") {
		c := v1.Container{Name: "i" + string(rune(48+i)), Image: "img", ImagePullPolicy: v1.PullIfNotPresent}
		if kind == "sidecar" {
			c.RestartPolicy = &always
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
	}
	for i := range rapid.IntRange(1, 2).Draw(t, "mains") {
		c := v1.Container{Name: "m" + string(rune('0'+i)), Image: "img"}
		c.ImagePullPolicy = rapid.SampledFrom([]v1.PullPolicy{v1.PullAlways, v1.PullIfNotPresent}).Draw(t, "pull")
		if rapid.Bool().Draw(t, "hooks") {
			c.Lifecycle = &v1.Lifecycle{PostStart: hook, PreStop: hook}
		}
		pod.Spec.Containers = append(pod.Spec.Containers, c)
	}
	return pod
}

// step is one thing that happens, good or bad.
func (w *world) step() {
	switch rapid.SampledFrom([]string{
		"finish", "finish", "finish", "finish", "finish", "fail", "lose", "crash", "look", "look", "time", "time", "obey",
		"sandbox dies", "actor restarts", "agent restarts", "unhealthy", "in doubt", "stop", "sooner", "jump",
	}).Draw(w.t, "step") {
	case "finish":
		w.finishOne(works)
	case "fail":
		w.finishOne(fails)
	case "lose":
		w.finishOne(lost)
	case "crash":
		if n := w.running(); n != nil {
			w.exit(n, int32(rapid.SampledFrom([]int{0, 1}).Draw(w.t, "code")))
		}
	case "obey":
		if n := w.running(); n != nil && !w.killAt[n.ID].IsZero() {
			w.exit(n, int32(rapid.SampledFrom([]int{0, 143}).Draw(w.t, "code")))
		}
	case "look":
		w.look()
	case "time":
		w.pass(w.now.Add(time.Duration(rapid.IntRange(0, 20000).Draw(w.t, "ms")) * time.Millisecond))
	case "jump":
		w.pass(w.now.Add(time.Duration(rapid.IntRange(0, 24).Draw(w.t, "hours")) * time.Hour))
	case "sandbox dies":
		for i := range w.sandboxes {
			w.sandboxes[i].State = observed.SandboxNotReady
		}
		w.logf("sandbox dies")
		if rapid.Bool().Draw(w.t, "all with it") {
			for i := range w.containers {
				w.exit(&w.containers[i], 137)
			}
		}
	case "actor restarts":
		w.logf("actor restarts")
		w.calls = slices.DeleteFunc(w.calls, func(c *call) bool { return !w.mem.Busy.Has(c.action.Lane()) })
		w.forgetActor()
	case "agent restarts":
		w.logf("agent restarts")
		w.forget()
	case "unhealthy":
		if n := w.running(); n != nil {
			w.mem.Health[n.ID] = probe.Health{Liveness: probe.Failure}
		}
	case "in doubt":
		w.mem.Known = false
	case "stop":
		if w.life == podlife.Syncing && rapid.IntRange(0, 3).Draw(w.t, "really") == 0 {
			w.stop = &podlife.Stop{At: w.now, Grace: time.Duration(*w.pod.Spec.TerminationGracePeriodSeconds) * time.Second}
			w.life = podlife.Next(w.life, podlife.StopWanted)
			w.logf("stop wanted")
		}
	case "sooner":
		if w.stop != nil && w.stop.Grace > 0 {
			s := *w.stop
			s.Grace /= 2
			w.stop = &s
		}
	}
}

func (w *world) running() *observed.Container {
	var all []*observed.Container
	for i := range w.containers {
		if w.containers[i].State == observed.ContainerRunning {
			all = append(all, &w.containers[i])
		}
	}
	if len(all) == 0 {
		return nil
	}
	return rapid.SampledFrom(all).Draw(w.t, "container")
}

func (w *world) finishOne(o outcome) {
	if len(w.calls) > 0 {
		w.finish(rapid.IntRange(0, len(w.calls)-1).Draw(w.t, "call"), o)
	}
}

// reached says whether the pod is where it wants to be.
func (w *world) reached() bool {
	if w.life == podlife.Terminated {
		return true
	}
	if w.life != podlife.Syncing || w.pod.Spec.RestartPolicy != v1.RestartPolicyAlways {
		return false
	}
	for _, c := range w.pod.Spec.Containers {
		if !w.lives(c.Name) {
			return false
		}
	}
	for _, name := range w.sidecars() {
		if !w.lives(name) {
			return false
		}
	}
	for _, c := range w.status.Conditions {
		if c.Type == v1.PodReady {
			return c.Status == v1.ConditionTrue && w.status.Phase == v1.PodRunning
		}
	}
	return false
}

// settle: without faults the pod reaches its goal in a bounded number of steps,
// and never waits for a time without saying so.
func (w *world) settle() {
	w.calm = true
	w.mem.Health = map[string]probe.Health{}
	for range 400 {
		w.look()
		w.plan()
		if w.reached() && len(w.calls) == 0 {
			return
		}
		ended := false
		for i := len(w.calls) - 1; i >= 0; i-- {
			n := len(w.calls)
			w.finish(i, works)
			ended = ended || len(w.calls) < n
		}
		if ended {
			continue
		}
		if w.work() {
			continue
		}
		next := w.out.Wake
		for i := range w.containers {
			n := &w.containers[i]
			if at, ok := w.killAt[n.ID]; ok && n.State == observed.ContainerRunning && (next.IsZero() || at.Before(next)) {
				next = at
			}
		}
		if next.IsZero() {
			w.failf("stuck: nothing is under way, and no plan is asked for\nplan %+v\nview %+v", w.out, w.mem.View)
		}
		w.pass(next)
	}
	w.failf("the pod does not reach its goal: %v\nplan %+v\nview %+v\nstatus %+v", w.life, w.out, w.mem.View, w.status)
}

// work lets containers that are meant to end do so, with success.
func (w *world) work() bool {
	for i := range w.containers {
		n := &w.containers[i]
		if n.State != observed.ContainerRunning {
			continue
		}
		init := slices.ContainsFunc(w.pod.Spec.InitContainers, func(c v1.Container) bool { return c.Name == n.Name && c.RestartPolicy == nil })
		main := slices.ContainsFunc(w.pod.Spec.Containers, func(c v1.Container) bool { return c.Name == n.Name })
		if init || main && w.pod.Spec.RestartPolicy != v1.RestartPolicyAlways {
			w.exit(n, 0)
			return true
		}
	}
	return false
}

// TestNeverBackwards drives plans against a model of a runtime through faults,
// and then without: no status says less than the one before, and in the end
// the status says what is.
func TestNeverBackwards(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, drawPod(t))
		for range rapid.IntRange(0, 120).Draw(t, "steps") {
			w.plan()
			w.step()
		}
		w.settle()
	})
}
