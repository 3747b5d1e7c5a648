package scenarios

import (
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/podview"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/apiclient/simapi"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/sim/machine"
	"github.com/troupe-dev/troupe/tests/check"
)

func TestClusterPodComesUpAndGoes(t *testing.T) {
	w, c := parallelCluster(t, 1)
	c.create(aPod("web").main("log").volume("data"))
	took := w.until(10*time.Second, "Ready in the apiserver", func() bool { return c.ready("web") })
	check.AtMost(t, took, 2*time.Second, "Ready after")
	p := c.get("web")
	if p.Status.PodIP == "" || p.Status.StartTime == nil || p.Status.ContainerStatuses[0].ContainerID == "" {
		t.Errorf("status %+v", p.Status)
	}
	w.run(time.Minute)
	told, _ := check.Values(c.api.List(simapi.Select{Kind: port.EventKind, Namespace: "default"}))(t)
	var reasons []string
	for _, o := range told {
		reasons = append(reasons, o.(*v1.Event).Reason)
	}
	for _, reason := range []string{"Pulling", "Pulled", "Created", "Started"} {
		if !slices.Contains(reasons, reason) {
			t.Errorf("there is no event %s: %v", reason, reasons)
		}
	}
	writes := c.calls["Patch Pod status"]
	check.AtMost(t, writes, 5, "%d writes for one pod: %v", writes, c.shown["web"])
	c.delete("web", nil)
	w.until(10*time.Second, "gone", func() bool { return c.get("web") == nil })
	for _, rp := range w.rt.Truth().Runtime.Pods {
		for _, ct := range rp.Containers {
			if ct.State.String() == "Running" {
				t.Errorf("the pod is gone, and %s runs", ct.Name)
			}
		}
	}
	w.until(time.Minute, "nothing is left", c.nothingLeft)
	t.Log(strings.Join(c.shown["web"], " → "))
	t.Log(c.calls)
	if w.crashes > 0 {
		w.failf("%d crashes", w.crashes)
	}
}

func TestClusterGraceIsKeptAndShortened(t *testing.T) {
	w, c := parallelCluster(t, 1)
	c.create(aPod("web").grace(60).script("app", "ignore-term", "true"))
	w.until(10*time.Second, "Ready", func() bool { return c.ready("web") })
	c.delete("web", nil)
	w.run(30 * time.Second)
	if !w.runs("web", "app", 0) {
		t.Fatal("killed before its grace was over")
	}
	forty := int64(40) // counted from the first
	c.delete("web", &forty)
	took := w.until(15*time.Second, "gone", func() bool { return c.get("web") == nil })
	check.AtLeast(t, took, 9*time.Second, "gone after")
	c.create(aPod("web").grace(60).script("app", "ignore-term", "true"))
	w.until(10*time.Second, "Ready", func() bool { return c.ready("web") })
	c.delete("web", nil)
	w.run(5 * time.Second)
	c.delete("web", new(int64))
	w.until(3*time.Second, "killed", func() bool { return len(w.truthOf("web").Containers) == 0 || !w.runs("web", "app", 0) })
	w.until(time.Minute, "nothing is left", c.nothingLeft)
}

// TestClusterNameIsUsedAgain: a pod deleted by force is killed, and another of
// its name waits until it is down.
func TestClusterNameIsUsedAgain(t *testing.T) {
	w, c := parallelCluster(t, 1)
	c.create(aPod("web-0").grace(60).script("app", "ignore-term", "true"))
	w.until(10*time.Second, "Ready", func() bool { return c.ready("web-0") })
	old := c.get("web-0").UID
	c.delete("web-0", new(int64))
	c.create(aPod("web-0"))
	w.until(10*time.Second, "the next one is Ready", func() bool { return c.ready("web-0") })
	if c.get("web-0").UID == old {
		t.Error("it is the old one")
	}
	w.until(time.Minute, "the old one is gone", func() bool { return len(w.rt.Truth().Runtime.Pods) == 1 && w.host.Pods() == 1 })
}

// TestClusterNameOfAPodWhoseVolumeHangs: a pod is deleted by force, and its volume can't be unmounted. Another of its name
// waits for its containers alone, and has its own directories.
func TestClusterNameOfAPodWhoseVolumeHangs(t *testing.T) {
	w, c := parallelCluster(t, 1)
	c.create(aPod("web-0").volume("data"))
	w.until(10*time.Second, "Ready", func() bool { return c.ready("web-0") })
	old, hangs := c.get("web-0").UID, true
	w.host.Fault = func(call machine.Call) machine.Fault {
		return machine.Fault{Hang: hangs && call.Verb == "UnmountPod" && call.Pod == string(old)}
	}
	c.delete("web-0", new(int64))
	c.create(aPod("web-0").volume("data"))
	w.until(10*time.Second, "the next one is Ready", func() bool { return c.ready("web-0") })
	w.run(time.Minute)
	w.restart()
	w.until(time.Minute, "so it is after a restart", func() bool { return c.ready("web-0") })
	w.run(10 * time.Minute)
	check.Equal(t, w.host.Pods(), 2, "pods on the host")
	hangs = false
	w.until(20*time.Minute, "the old one is gone", func() bool { return len(w.rt.Truth().Runtime.Pods) == 1 && w.host.Pods() == 1 })
	if c.get("web-0").UID == old || c.restarts("web-0", "app") != 0 || !c.ready("web-0") {
		t.Errorf("the next one: %+v", c.get("web-0").Status)
	}
}

// TestClusterNameOfAPodThatCannotBeStopped: the runtime does not stop a pod that was deleted by force. Another of its name
// begins after some minutes, and goes on when the agent is restarted.
func TestClusterNameOfAPodThatCannotBeStopped(t *testing.T) {
	w, c := parallelCluster(t, 1)
	c.create(aPod("web-0"))
	w.until(10*time.Second, "Ready", func() bool { return c.ready("web-0") })
	old, hangs := c.get("web-0").UID, true
	w.fault = func(call simcri.Call) simcri.Fault {
		return simcri.Fault{Hang: hangs && call.Method == simcri.StopContainer && call.Pod.UID == old}
	}
	c.delete("web-0", new(int64))
	c.create(aPod("web-0"))
	w.run(3 * time.Minute)
	if c.ready("web-0") || len(w.eventsOf("web-0", "NameInUse")) != 1 {
		t.Errorf("%s, after %q", c.get("web-0").Status.Phase, w.eventsOf("web-0", "NameInUse"))
	}
	next := c.get("web-0").UID
	view := func() podview.Pod {
		all := w.view().Pods
		return all[slices.IndexFunc(all, func(p podview.Pod) bool { return p.UID == next })]
	}
	check.Has(t, view().Problem, "waiting for the end of another pod of this name, with the UID "+string(old), "it")
	w.until(4*time.Minute, "the next one is Ready", func() bool { return c.ready("web-0") })
	w.restart()
	w.run(10 * time.Second)
	check.Equal(t, view().Life, podlife.Syncing.String(), "after a restart it is")
	w.run(10 * time.Minute)
	hangs = false
	w.until(20*time.Minute, "the old one is gone", func() bool { return len(w.rt.Truth().Runtime.Pods) == 1 && w.host.Pods() == 1 })
	if c.get("web-0").UID != next || c.restarts("web-0", "app") != 0 || !c.ready("web-0") {
		t.Errorf("the next one: %+v", c.get("web-0").Status)
	}
}

// TestClusterEnded: a pod that has ended stays as it is, over restarts of the
// agent too, until it is deleted.
func TestClusterEnded(t *testing.T) {
	w, c := parallelCluster(t, 1)
	c.create(
		emptyPod("ok").main("app").script("app", "run-for", "1s").script("app", "exit-code", "0").restarts(v1.RestartPolicyNever),
		emptyPod("bad").main("app").script("app", "run-for", "1s").script("app", "exit-code", "3").restarts(v1.RestartPolicyNever),
	)
	w.until(10*time.Second, "both have ended", func() bool {
		return c.get("ok").Status.Phase == v1.PodSucceeded && c.get("bad").Status.Phase == v1.PodFailed
	})
	w.run(2 * time.Minute)
	writes := c.calls["Patch Pod status"]
	for range 3 {
		w.restart()
		w.run(2 * time.Minute)
	}
	if n := c.calls["Patch Pod status"] - writes; n > 0 {
		t.Errorf("%d writes after restarts: %v", n, c.shown)
	}
	if s := c.get("bad").Status.ContainerStatuses[0].State.Terminated; s == nil || s.ExitCode != 3 {
		t.Errorf("bad: %+v", c.get("bad").Status.ContainerStatuses[0])
	}
	c.delete("ok", nil)
	c.delete("bad", nil)
	w.until(time.Minute, "nothing is left", c.nothingLeft)
}

// TestClusterRejected: a pod that may not run here is Failed, for good.
func TestClusterRejected(t *testing.T) {
	w, c := parallelCluster(t, 1)
	s := aPod("zoned")
	s.Spec.NodeSelector = map[string]string{"zone": "b"}
	c.create(s)
	w.until(5*time.Second, "Failed", func() bool { return c.get("zoned").Status.Phase == v1.PodFailed })
	if p := c.get("zoned"); p.Status.Reason != "NodeAffinity" || p.Status.StartTime == nil {
		t.Errorf("status %+v", p.Status)
	}
	check.Equal(t, w.count("zoned", "NodeAffinity"), 1, "there is no event")
	w.restart()
	w.run(time.Minute)
	check.None(t, w.rt.Truth().Runtime.Pods, "it runs after a restart")
	c.delete("zoned", nil)
	w.until(10*time.Second, "nothing is left", c.nothingLeft)
}

// TestClusterConflicts: others change a pod's status while this node writes it:
// both keep what is theirs.
func TestClusterConflicts(t *testing.T) {
	w, c := parallelCluster(t, 1)
	s := aPod("gated")
	s.Spec.ReadinessGates = []v1.PodReadinessGate{{ConditionType: "example.com/gate"}}
	c.create(s)
	set := func(to v1.ConditionStatus) {
		c.changeStatus("gated", func(s *v1.PodStatus) {
			i := slices.IndexFunc(s.Conditions, func(c v1.PodCondition) bool { return c.Type == "example.com/gate" })
			if i < 0 {
				s.Conditions = append(s.Conditions, v1.PodCondition{Type: "example.com/gate"})
				i = len(s.Conditions) - 1
			}
			s.Conditions[i].Status = to
		})
	}
	w.until(10*time.Second, "Running", func() bool { return c.get("gated").Status.Phase == v1.PodRunning })
	for range 5 {
		set(v1.ConditionTrue)
		w.until(time.Second, "Ready", func() bool { return c.ready("gated") })
		set(v1.ConditionFalse)
		w.until(time.Second, "not Ready", func() bool { return !c.ready("gated") })
	}
	refused := 0
	c.fault = func(call simapi.Call) simapi.Fault {
		if call.Verb == simapi.Patch && call.Status && refused < 3 {
			refused++
			return simapi.Fault{Fail: true, Kind: port.Conflict}
		}
		return simapi.Fault{}
	}
	set(v1.ConditionTrue)
	w.until(5*time.Second, "Ready after conflicts", func() bool { return c.ready("gated") })
	// Somebody overwrites what is this node's to say.
	c.changeStatus("gated", func(s *v1.PodStatus) { s.PodIP, s.PodIPs = "192.0.2.99", []v1.PodIP{{IP: "192.0.2.99"}} })
	w.until(5*time.Second, "put right", func() bool { return c.get("gated").Status.PodIP != "192.0.2.99" })
}

// TestClusterOutage: for five minutes nobody listens, while containers crash
// and pods end; all of it is said within five seconds of its return.
func TestClusterOutage(t *testing.T) {
	t.Parallel()
	for name, link := range map[string]simapi.Link{"refused": simapi.Refused, "silent": simapi.Silent} {
		t.Run(name, func(t *testing.T) {
			w, c := newClusterNode(t, 1)
			c.create(many("p", 20, aPod)...)
			for _, n := range names("job", 5) {
				c.create(emptyPod(n).main("app").script("app", "run-for", "3m").script("app", "exit-code", "0").restarts(v1.RestartPolicyNever))
			}
			w.until(time.Minute, "all run", func() bool { return c.allReady(append(names("p", 20), names("job", 5)...)...) })
			made := w.watch.containers
			c.api.SetLink(nodeName, link)
			for i, n := range names("p", 20) {
				w.run(10 * time.Second)
				if i%2 == 0 {
					w.end(n, "app", 1)
				}
			}
			w.run(100 * time.Second)
			c.api.SetLink(nodeName, simapi.Up)
			took := w.until(5*time.Second, "all is said", func() bool {
				for i, n := range names("p", 20) {
					if c.restarts(n, "app") != int32((i+1)%2) || !c.ready(n) {
						return false
					}
				}
				for _, n := range names("job", 5) {
					if c.get(n).Status.Phase != v1.PodSucceeded {
						return false
					}
				}
				return true
			})
			t.Logf("all said %v after its return", took)
			if got := w.watch.containers - made; got > 0 {
				t.Logf("%d containers made", got)
			}
			if w.crashes > 0 {
				w.failf("%d crashes", w.crashes)
			}
		})
	}
}
