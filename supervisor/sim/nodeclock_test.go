package sim

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/tests/check"
)

// clockWorld is a bare world with one node, whose containers run for 5 minutes.
func clockWorld(t *testing.T) (*World, *Node) {
	t.Helper()
	w := check.Value(New(Config{Bare: true}))(t)
	n := check.Value(w.AddNode(NodeSpec{Name: "n", Script: func(simcri.Starting) *simcri.Script {
		return &simcri.Script{RunFor: simcri.Constant(5 * time.Minute)}
	}}))(t)
	w.Advance(10 * time.Second)
	return w, n
}

func addPod(t *testing.T, w *World, name string) {
	t.Helper()
	check.Value(w.API().Create(&v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: v1.PodSpec{NodeName: "n", RestartPolicy: v1.RestartPolicyNever,
			Containers: []v1.Container{{Name: "app", Image: "registry.test/app:1"}}},
	}))(t)
}

// container is the only one of a node, nil for none.
func container(n *Node) *observed.Container {
	for _, p := range n.Runtime().Truth().Runtime.Pods {
		for i := range p.Containers {
			return &p.Containers[i]
		}
	}
	return nil
}

// TestStepClock: the runtime and the agent read another time, and the apiserver does not.
func TestStepClock(t *testing.T) {
	for _, step := range []time.Duration{-time.Hour, time.Hour} {
		t.Run(fmt.Sprint(step), func(t *testing.T) {
			w, n := clockWorld(t)
			n.StepClock(step)
			begun := w.Now()
			addPod(t, w, "p")
			w.Advance(30 * time.Second)
			c := container(n)
			if c == nil || c.State != observed.ContainerRunning {
				t.Fatalf("no container runs: %v", c)
			}
			near := func(what string, at time.Time, want time.Time) {
				if d := at.Sub(want); d < -time.Second || d > 40*time.Second {
					t.Errorf("%s is %v, want about %v", what, at, want)
				}
			}
			near("the node's time", n.Now().Add(-30*time.Second), begun.Add(step))
			near("the container's start", c.StartedAt, begun.Add(step))
			o := check.Value(w.API().Get(port.APIKey{Kind: port.PodKind, Namespace: "default", Name: "p"}))(t)
			p := o.(*v1.Pod)
			near("the pod's creation", p.CreationTimestamp.Time, begun)
			near("the pod's start", p.Status.StartTime.Time, begun.Add(step))
			if w.RunUntil(4*time.Minute, func() bool { return container(n).State == observed.ContainerExited }) ||
				!w.RunUntil(time.Minute, func() bool { return container(n).State == observed.ContainerExited }) {
				t.Error("the container did not run for five minutes")
			}
		})
	}
}

// TestPauseAgent: a paused agent does nothing, its machine goes on.
func TestPauseAgent(t *testing.T) {
	w, n := clockWorld(t)
	addPod(t, w, "p")
	w.Advance(10 * time.Second)
	n.PauseAgent(time.Second)
	n.PauseAgent(10 * time.Minute)
	addPod(t, w, "q")
	w.Advance(9 * time.Minute)
	phase := func(name string) v1.PodPhase {
		o := check.Value(w.API().Get(port.APIKey{Kind: port.PodKind, Namespace: "default", Name: name}))(t)
		return o.(*v1.Pod).Status.Phase
	}
	if c := container(n); c == nil || c.State != observed.ContainerExited || len(n.Runtime().Truth().Runtime.Pods) != 1 {
		t.Errorf("while the agent is paused, the container is %+v", c)
	}
	if phase("p") != v1.PodRunning || phase("q") != v1.PodPending {
		t.Errorf("while the agent is paused, the pods are %s and %s", phase("p"), phase("q"))
	}
	w.Advance(2 * time.Minute)
	if phase("p") != v1.PodSucceeded || phase("q") != v1.PodRunning {
		t.Errorf("after the pause, the pods are %s and %s", phase("p"), phase("q"))
	}
	n.PauseAgent(time.Hour)
	n.RestartAgent()
	w.Advance(5 * time.Minute)
	check.Equal(t, phase("q"), v1.PodSucceeded, "an agent that replaced a paused one shows")
}

// TestSuspend: the whole machine stands still, but for its wall clock.
func TestSuspend(t *testing.T) {
	w, n := clockWorld(t)
	addPod(t, w, "p")
	w.Advance(10 * time.Second)
	before := n.Now()
	n.Suspend(2 * time.Hour)
	w.Advance(2*time.Hour + time.Minute)
	check.Equal(t, container(n).State, observed.ContainerRunning, "the container")
	check.Count(t, n.Now().Sub(before), time.Minute, "monotonic time went on by %v, want a minute")
	check.Equal(t, n.Now().Round(0).Sub(before.Round(0)), 2*time.Hour+time.Minute, "wall time went on by")
	w.Advance(5 * time.Minute)
	if c := container(n); c.State != observed.ContainerExited || c.FinishedAt.Sub(c.StartedAt) < 2*time.Hour {
		t.Errorf("the container is %v, and ran for %v of wall time", c.State, c.FinishedAt.Sub(c.StartedAt))
	}
}
