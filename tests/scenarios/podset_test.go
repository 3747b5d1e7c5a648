package scenarios

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/devices"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/supervisor/agent"
	"github.com/troupe-dev/troupe/supervisor/metrics"
	"github.com/troupe-dev/troupe/tests/check"
)

// badAdmission panics whenever a pod named bad is admitted, while armed.
type badAdmission struct {
	*metrics.Metrics
	armed *bool
}

func (c badAdmission) Admitted(p *v1.Pod) {
	if *c.armed && strings.HasPrefix(p.Name, "bad") {
		panic(planted)
	}
	c.Metrics.Admitted(p)
}

func (c badAdmission) DevicesChanged(devices.Inventory) {}

// countStarts counts how often the actor of each pod starts, by the pod's name: with its pod, and after a crash.
func countStarts(made map[string]int) option {
	return withConfig(func(c *agent.Config) {
		inner := c.Wrap
		c.Wrap = func(p *v1.Pod, construct func() kernel.Behavior[pod.Message]) func() kernel.Behavior[pod.Message] {
			construct = inner(p, construct)
			return func() kernel.Behavior[pod.Message] {
				made[plainName(p.Name)]++
				return construct()
			}
		}
	})
}

// TestAdmissionThatPanics: the admission of one pod panics again and again, far more often than the restarts that a
// singleton has in a minute. Only podset restarts, and no actor of a pod: not of one that runs, nor of one that has no
// image yet. They go on meanwhile: a container that ends is restarted. When admission is well again, the pod begins.
func TestAdmissionThatPanics(t *testing.T) {
	made, armed := map[string]int{}, true
	w := parallelNode(t, 1, countStarts(made), withConfig(func(c *agent.Config) {
		m := check.Value(metrics.New(metrics.Config{Node: nodeName, Version: "v1.36.0", Began: time.Now()}))(t)
		c.Observer = badAdmission{m, &armed}
	}))
	w.watch.restartsExpected = false
	w.registry.Withdraw("registry.test/none:1")
	w.add(many("p", 6, aPod)...)
	w.allUp(time.Minute)
	w.add(aPod("waits").image("registry.test/none:1"))
	w.run(5 * time.Second)

	w.add(aPod("bad"))
	w.until(10*time.Second, "podset is put aside", func() bool { return w.crashes >= 6 })
	w.watch.restartsExpected = true
	w.end("p-00", "app", 1)
	w.until(5*time.Second, "a container is restarted meanwhile", func() bool { return w.runs("p-00", "app", 1) })
	w.watch.restartsExpected = false
	w.run(time.Minute)
	w.drop("p-05")
	w.run(15 * time.Second)
	if crashes := w.crashes; crashes < 10 || w.fatal != nil {
		w.failf("%d crashes, want 10 at least, and the agent to go on; fatal: %v", crashes, w.fatal)
	}
	armed = false
	w.until(15*time.Second, "the pod begins", func() bool { return w.runs("bad", "app", 0) })
	w.until(time.Minute, "the pod that was removed has gone", func() bool { return len(w.rt.Truth().Runtime.Pods) == 7 })
	w.onlyRestarted("podset", uint32(w.crashes))
	for _, name := range append(names("p", 6), "waits", "bad") {
		check.Equal(t, made[name], 1, "starts of the actor of %s", name)
	}
	w.drop("waits")
	w.allUp(time.Minute)
	w.quiet()
}
