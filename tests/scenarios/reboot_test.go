package scenarios

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/shutdown"
	"github.com/troupe-dev/troupe/actors/podview"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/agent"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestReboot: after a loss of power the pods of the node come back by priority, with its static pod among the first. Each
// container was restarted once, and the node has an event of its reboot.
func TestReboot(t *testing.T) {
	t.Parallel()
	for seed := range uint64(5) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { reboot(t, seed) })
	}
}

func reboot(t *testing.T, seed uint64) {
	const nodeCritical, each = int32(2_000_001_000), 3
	w, c := newClusterNode(t, seed)
	w.watch.restartsExpected = true
	w.run(100 * time.Millisecond)
	priorities := map[string]int32{"static": nodeCritical}
	for i, priority := range []int32{-5, 0, 1000, nodeCritical} { // the least important are the oldest
		for j := range each {
			s := emptyPod(fmt.Sprintf("p%d-%d", i, j)).main("app")
			s.Spec.Priority = &priority
			priorities[s.Name] = priority
			c.create(s)
			w.run(time.Second)
		}
	}
	w.add(emptyPod("static").main("app"))
	running := func() bool {
		pods := w.view().Pods
		return len(pods) == len(priorities) && !slices.ContainsFunc(pods, func(p podview.Pod) bool { return !p.Ready })
	}
	w.until(time.Minute, "all run", running)
	w.run(time.Minute)
	w.node.PowerOff()
	w.run(10 * time.Second)
	var started []string
	w.fault = func(call simcri.Call) simcri.Fault {
		if call.Method == simcri.RunPodSandbox {
			started = append(started, plainName(call.Pod.Name))
		}
		return simcri.Fault{}
	}
	w.node.PowerOn()
	w.until(2*time.Minute, "all run again", running)
	check.Equal(t, len(started), len(priorities), "%d sandboxes were made for %d pods", len(started), len(priorities))
	// While there are free slots, those begin that are ready to; and those that follow the first to be made are chosen
	// while others still read what they need.
	rest := started[min(len(started), 2*agent.StartSlots(2)):]
	if !slices.IsSortedFunc(rest, func(x, y string) int { return cmp.Compare(priorities[y], priorities[x]) }) {
		t.Errorf("they were started in this order: %v", started)
	}
	for _, p := range w.view().Pods {
		check.Equal(t, p.Restarts, 1, "%s has %d restarts", p.Name, p.Restarts)
	}
	rebooted := 0
	for _, e := range w.events {
		if e.Reason == "Rebooted" {
			rebooted++
		}
	}
	check.Equal(t, rebooted, 1, "%d events say that the node was rebooted", rebooted)
}

// TestRebootAfterShutdown: the machine was shut down in order, with and without a killed agent. When it is on again, the
// API shows that its static pods run. The pods of the API stay ended: a controller replaces them.
func TestRebootAfterShutdown(t *testing.T) {
	t.Parallel()
	for _, killAfter := range []time.Duration{0, 50 * time.Millisecond, time.Second, 3 * time.Second, 6 * time.Second} {
		t.Run(fmt.Sprintf("killed after %v", killAfter), func(t *testing.T) { rebootAfterShutdown(t, killAfter) })
	}
}

func rebootAfterShutdown(t *testing.T, killAfter time.Duration) {
	w, c, p := newPoweredNode(t)
	defer c.neverEndedAndReady()
	priorities := map[string]int32{}
	var statics, others []string
	for i := range 12 {
		name, priority := fmt.Sprint("p", i), []int32{0, 50, 1000}[i%3]
		s := emptyPod(name).main("app").script("app", "term-delay", "1500ms")
		s.Spec.Priority = &priority
		if priorities[name] = priority; i < 8 {
			w.add(s)
			statics = append(statics, name+"-"+nodeName)
		} else {
			c.create(s)
			others = append(others, name)
		}
	}
	w.until(time.Minute, "all run", func() bool { return c.allReady(append(statics, others...)...) })
	before := map[string]types.UID{}
	for _, name := range statics {
		before[name] = c.get(name).UID
	}
	p.off()
	if killAfter > 0 {
		w.run(killAfter)
		w.restart()
		p.released = time.Time{}
	}
	w.add(emptyPod("late").main("app"))
	late := "late-" + nodeName
	w.until(time.Minute, "the lock is released", func() bool {
		o := c.get(late)
		return !p.released.IsZero() && o != nil && finished(o)
	})
	statics = append(statics, late)
	for _, name := range append(statics, others...) {
		if o := c.get(name); o == nil || o.Status.Phase != v1.PodFailed {
			w.failf("%s has not ended in the API when the machine goes down: %v", name, c.shown[name])
		}
	}
	w.node.PowerOff()
	w.run(10 * time.Second)
	var started []string
	w.fault = func(call simcri.Call) simcri.Fault {
		if call.Method == simcri.RunPodSandbox {
			started = append(started, plainName(call.Pod.Name))
		}
		return simcri.Fault{}
	}
	p.down = false
	priorities["late"] = 2_000_001_000
	w.node.PowerOn()
	w.until(2*time.Minute, "the API shows that the static pods run", func() bool { return c.allReady(statics...) })
	w.run(2 * time.Minute)
	for _, name := range statics {
		if o := c.get(name); !c.ready(name) || o.UID == before[name] {
			t.Errorf("%s went through %v", name, c.shown[name])
		}
	}
	for _, name := range others {
		if o := c.get(name); o.Status.Phase != v1.PodFailed || o.Status.Reason != shutdown.Reason {
			t.Errorf("%s went through %v", name, c.shown[name])
		}
	}
	check.Equal(t, len(started), len(statics), "sandboxes were made for %v", started)
	// While there are free slots, those begin that are ready to. An agent that is killed when the shutdown is over leaves
	// some pods with more to remove than others, so not all are ready at one time.
	rest := started[min(len(started), agent.StartSlots(2)):]
	if killAfter < 6*time.Second && !slices.IsSortedFunc(rest, func(x, y string) int { return cmp.Compare(priorities[y], priorities[x]) }) {
		t.Errorf("they were started in this order: %v", started)
	}
}
