package scenarios

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/troupe-dev/troupe/actors/podset"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/tests/check"
)

func httpProbe(path string) *v1.Probe {
	return &v1.Probe{ProbeHandler: v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Path: path, Port: intstr.FromInt32(8080)}}}
}

func tcpProbe() *v1.Probe {
	return &v1.Probe{ProbeHandler: v1.ProbeHandler{TCPSocket: &v1.TCPSocketAction{Port: intstr.FromInt32(8080)}}}
}

func grpcProbe() *v1.Probe {
	return &v1.Probe{ProbeHandler: v1.ProbeHandler{GRPC: &v1.GRPCAction{Port: 8080}}}
}

func execProbe(command ...string) *v1.Probe {
	return &v1.Probe{ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: command}}}
}

// handlers are one probe of each sort.
func handlers() map[string]*v1.Probe {
	return map[string]*v1.Probe{"http": httpProbe("/ready"), "tcp": tcpProbe(), "grpc": grpcProbe(), "exec": execProbe("check")}
}

func (s *spec) startup(p *v1.Probe) *spec {
	s.Spec.Containers[0].StartupProbe = p
	return s
}

func (s *spec) liveness(p *v1.Probe) *spec {
	s.Spec.Containers[0].LivenessProbe = p
	return s
}

func (s *spec) readiness(p *v1.Probe) *spec {
	s.Spec.Containers[0].ReadinessProbe = p
	return s
}

func (w *world) ready(name string) bool { return w.pod(name).Ready }

// readyAfter runs until a pod is ready, and gives how long after the start of
// its container that is.
func (w *world) readyAfter(name string, limit time.Duration) time.Duration {
	w.t.Helper()
	w.until(limit, name+" is ready", func() bool { return w.ready(name) })
	return w.v.Now().Sub(w.newest(name, "app").StartedAt)
}

// lastEvent is the message of the last event of a pod for a reason.
func (w *world) lastEvent(name, reason string) string {
	for i := len(w.events) - 1; i >= 0; i-- {
		if e := w.events[i]; e.Pod != nil && plainName(e.Pod.Name) == name && e.Reason == reason {
			return e.Message
		}
	}
	return ""
}

// flaps counts how often users were shown another readiness of a pod than before.
type flaps struct {
	last map[string]bool
	n    map[string]int
	// unready counts those that went from ready to not ready.
	unready int
}

// watchReadiness looks at every report.
func (w *world) watchReadiness() *flaps {
	f := &flaps{last: map[string]bool{}, n: map[string]int{}}
	w.around = func(actor string, m any, handled bool) {
		r, is := m.(podset.Reported)
		if actor != "podset" || !is || handled {
			return
		}
		for _, c := range r.Status.Conditions {
			if c.Type != v1.PodReady {
				continue
			}
			now := c.Status == v1.ConditionTrue
			was, seen := f.last[string(r.UID)]
			if seen && was != now {
				f.n[string(r.UID)]++
				if was {
					f.unready++
				}
			}
			f.last[string(r.UID)] = now
		}
	}
	return f
}

func TestReadyAfterADelay(t *testing.T) {
	t.Parallel()
	for name, h := range handlers() {
		t.Run(name, func(t *testing.T) {
			w := newNode(t, 1)
			w.run(time.Second)
			f := w.watchReadiness()
			w.add(aPod("web").readiness(h).script("app", "ready-after", "25s"))
			took := w.readyAfter("web", time.Minute)
			if took < 25*time.Second || took > 36*time.Second {
				t.Errorf("ready after %v; it answers after 25 s, and is asked every 10 s", took)
			}
			if n := w.count("web", "Unhealthy"); n == 0 || n > 3 {
				t.Errorf("%d events Unhealthy", n)
			}
			if m := w.lastEvent("web", "Unhealthy"); !strings.HasPrefix(m, "Readiness probe failed: ") {
				t.Errorf("users are told %q", m)
			}
			w.run(time.Minute)
			w.quiet()
			if f.unready > 0 || w.newest("web", "app").Attempt > 0 {
				t.Errorf("it was not ready again %d times, and restarted %d times", f.unready, w.newest("web", "app").Attempt)
			}
		})
	}
}

// TestReadyAtOnce: a server that needs a moment does not wait for a period, and
// nobody is told that it needs one.
func TestReadyAtOnce(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]time.Duration{"http": 800 * time.Millisecond, "exec": 2 * time.Second} {
		w := newNode(t, 1)
		w.run(time.Second)
		w.add(aPod("web").readiness(handlers()[name]).script("app", "startup-time", "400ms"))
		if took := w.readyAfter("web", time.Minute); took > limit {
			t.Errorf("%s: ready %v after its start, it serves after 400ms", name, took)
		}
		check.Count(t, w.count("web", "Unhealthy"), 0, "%s: %d events Unhealthy", name)
	}
}

func TestInitialDelay(t *testing.T) {
	w := parallelNode(t, 1)
	w.run(time.Second)
	p := httpProbe("/")
	p.InitialDelaySeconds = 20
	w.add(aPod("web").readiness(p))
	if took := w.readyAfter("web", time.Minute); took < 20*time.Second || took > 21*time.Second {
		t.Errorf("ready after %v, want 20 s", took)
	}
}

func TestFlappingReadiness(t *testing.T) {
	w := parallelNode(t, 1)
	w.run(time.Second)
	f := w.watchReadiness()
	p := httpProbe("/ready")
	p.PeriodSeconds, p.FailureThreshold = 1, 2
	w.add(aPod("web").readiness(p).script("app", "ready-for", "30s").script("app", "unready-for", "30s"))
	w.run(5 * time.Minute)
	if f.unready < 4 || f.unready > 5 {
		t.Errorf("not ready any more %d times in five minutes", f.unready)
	}
	check.Count(t, w.newest("web", "app").Attempt, 0, "restarted %d times: readiness restarts nothing")
	if n := w.count("web", "Unhealthy"); n < 100 {
		t.Errorf("%d events Unhealthy", n)
	}
}

func TestLivenessRestarts(t *testing.T) {
	t.Parallel()
	for name, h := range handlers() {
		t.Run(name, func(t *testing.T) {
			w := newNode(t, 1)
			h.PeriodSeconds = 5
			w.add(aPod("web").liveness(h).script("app", "unhealthy-after", "20s"))
			w.allUp(10 * time.Second)
			took := w.until(time.Minute, "the restart", func() bool { return w.runs("web", "app", 1) })
			// Three failures in a row, five seconds apart, the first within five seconds.
			if took < 29*time.Second || took > 37*time.Second {
				t.Errorf("restarted %v after its start", took)
			}
			check.Count(t, w.count("web", "Unhealthy"), 3, "%d events Unhealthy")
			if m := w.lastEvent("web", "Unhealthy"); !strings.HasPrefix(m, "Liveness probe failed: ") {
				t.Errorf("users are told %q", m)
			}
			if m := w.lastEvent("web", "Killing"); m != "Container app failed liveness probe, will be restarted" {
				t.Errorf("users are told %q", m)
			}
			// The next ones do not wait, as long as the container lives for longer than the delay grows to.
			for i := uint32(2); i <= 4; i++ {
				if took = w.until(time.Minute, "the next restart", func() bool { return w.runs("web", "app", i) }); took > 37*time.Second {
					t.Errorf("restart %d after %v", i, took)
				}
			}
			if n := w.count("web", "BackOff"); n > 0 {
				t.Errorf("%d events BackOff", n)
			}
			if took = w.until(2*time.Minute, "the fifth restart", func() bool { return w.runs("web", "app", 5) }); took < 64*time.Second {
				t.Errorf("the fifth restart after %v, want 40 s from the end", took)
			}
			if w.count("web", "BackOff") == 0 {
				t.Error("there was no back-off")
			}
			w.drop("web")
			w.allUp(20 * time.Second)
		})
	}
}

// TestLivenessGrace: the probe has a grace of its own.
func TestLivenessGrace(t *testing.T) {
	w := parallelNode(t, 1)
	p := httpProbe("/alive")
	grace := int64(3)
	p.PeriodSeconds, p.FailureThreshold, p.TerminationGracePeriodSeconds = 1, 1, &grace
	w.add(aPod("web").grace(60).liveness(p).script("app", "unhealthy-after", "10s").script("app", "ignore-term", "true"))
	w.allUp(10 * time.Second)
	took := w.until(time.Minute, "the restart", func() bool { return w.runs("web", "app", 1) })
	if took < 13*time.Second || took > 17*time.Second {
		t.Errorf("restarted %v after its start, want 10 s, at most two for the probe, and its 3 s of grace", took)
	}
}

// TestLivenessRestartsWhatEndsWell: it did not end by itself, whatever its code.
func TestLivenessRestartsWhatEndsWell(t *testing.T) {
	w := parallelNode(t, 1)
	p := httpProbe("/alive")
	p.PeriodSeconds = 1
	w.add(aPod("web").restarts(v1.RestartPolicyOnFailure).liveness(p).
		script("app", "unhealthy-after", "10s").script("app", "term-exit-code", "0"))
	w.allUp(10 * time.Second)
	w.until(time.Minute, "the restart", func() bool { return w.runs("web", "app", 1) })
}

func TestStartupGates(t *testing.T) {
	w := parallelNode(t, 1)
	w.run(time.Second)
	startup := httpProbe("/started")
	startup.PeriodSeconds, startup.FailureThreshold = 10, 30
	liveness := httpProbe("/alive")
	liveness.PeriodSeconds, liveness.FailureThreshold = 1, 1
	w.add(aPod("web").startup(startup).liveness(liveness).readiness(httpProbe("/ready")).script("app", "startup-time", "95s"))
	took := w.readyAfter("web", 3*time.Minute)
	if took < 95*time.Second || took > 107*time.Second {
		t.Errorf("ready after %v", took)
	}
	for _, e := range w.events {
		if e.Reason == "Unhealthy" && !strings.HasPrefix(e.Message, "Startup probe failed: ") {
			t.Errorf("before it had started: %s", e.Message)
		}
	}
	w.run(time.Minute)
	check.Count(t, w.newest("web", "app").Attempt, 0, "restarted %d times")
	w.quiet()
}

func TestStartupFails(t *testing.T) {
	w := parallelNode(t, 1)
	startup := httpProbe("/started")
	startup.PeriodSeconds, startup.FailureThreshold = 2, 3
	w.add(aPod("web").startup(startup).script("app", "startup-time", "1h"))
	w.until(10*time.Second, "it runs", func() bool { return w.runs("web", "app", 0) })
	took := w.until(time.Minute, "the restart", func() bool { return w.runs("web", "app", 1) })
	if took < 6*time.Second || took > 9*time.Second {
		t.Errorf("restarted %v after its start, want the 3 × 2 s that it has", took)
	}
	if m := w.lastEvent("web", "Killing"); m != "Container app failed startup probe, will be restarted" {
		t.Errorf("users are told %q", m)
	}
}

// TestSidecarGates: what comes after a sidecar waits until it has started.
func TestSidecarGates(t *testing.T) {
	w := parallelNode(t, 1)
	s := emptyPod("web").sidecar("proxy").main("app").script("proxy", "startup-time", "15s")
	startup := httpProbe("/started")
	startup.PeriodSeconds = 5
	s.Spec.InitContainers[0].StartupProbe = startup
	w.add(s)
	w.until(10*time.Second, "the sidecar", func() bool { return w.runs("web", "proxy", 0) })
	took := w.until(time.Minute, "the main container", func() bool { return w.runs("web", "app", 0) })
	if took < 15*time.Second || took > 22*time.Second {
		t.Errorf("the main container runs %v after the sidecar, which needs 15 s", took)
	}
}

// TestHungProbesCostNobodyElse: ten pods have probes that hang for as long as
// they may; twenty others are asked as ever.
func TestHungProbesCostNobodyElse(t *testing.T) {
	w := parallelNode(t, 1)
	w.run(time.Second)
	for _, n := range names("bad", 10) {
		p := execProbe("check")
		p.TimeoutSeconds = 600
		w.add(aPod(n).readiness(p).script("app", "probe-hang", "true"))
	}
	// The runtime does not keep to the time that a command may take either.
	w.fault = func(c simcri.Call) simcri.Fault {
		return simcri.Fault{Hang: c.Method == simcri.ExecSync && strings.HasPrefix(c.Pod.Name, "bad")}
	}
	w.allUp(time.Minute)
	w.run(5 * time.Second)
	for i, n := range names("good", 20) {
		p := execProbe("check")
		if i%2 == 0 {
			p = httpProbe("/")
		}
		p.PeriodSeconds = 1
		w.add(aPod(n).readiness(p).script("app", "exec-delay", "50ms"))
	}
	w.allUp(time.Minute)
	w.run(3 * time.Second)
	for _, n := range names("good", 20) {
		if !w.ready(n) {
			t.Errorf("%s is not ready beside probes that hang", n)
		}
	}
	before := w.rt.Calls(simcri.ExecSync) + w.rt.Calls(simcri.ProbeHTTP)
	w.run(10 * time.Second)
	if n := w.rt.Calls(simcri.ExecSync) + w.rt.Calls(simcri.ProbeHTTP) - before; n < 190 || n > 205 {
		t.Errorf("in ten seconds %d probes ran, want the 200 of those that answer", n)
	}
	w.drop(names("bad", 10)...)
	w.until(20*time.Second, "they are gone", func() bool { return len(w.rt.Truth().Runtime.Pods) == 20 })
}

// TestProbesOfManyPodsAtOnce: more wishes than fit into the mailbox. Those who
// missed some ask again, and what they ask for comes to an end.
func TestProbesOfManyPodsAtOnce(t *testing.T) {
	t.Parallel()
	for seed := range uint64(5) {
		w := newNode(t, seed, withMailboxes(40))
		w.add(many("p", 99, func(n string) *spec { return aPod(n).readiness(httpProbe("/")) })...)
		w.allUp(2 * time.Minute)
		w.watch.restartsExpected = false
		w.restart()
		w.run(30 * time.Second)
		for _, p := range w.view().Pods {
			if !p.Ready {
				t.Errorf("seed %d: %s is not ready", seed, p.Name)
			}
		}
		asked := 0
		w.around = func(_ string, m any, handled bool) {
			if _, ok := m.(podset.AskAgain); ok && handled {
				asked++
			}
		}
		w.run(10 * time.Second)
		check.AtMost(t, asked, 0, "seed %d: the pods are still asked what they wish, %d times in ten seconds", seed, asked)
	}
}

// TestTerminatingPod: it is not asked any more whether it lives, but still
// whether it serves, until it is dead.
func TestTerminatingPod(t *testing.T) {
	w := parallelNode(t, 1)
	liveness, readiness := httpProbe("/alive"), httpProbe("/ready")
	liveness.PeriodSeconds, liveness.FailureThreshold, readiness.PeriodSeconds = 1, 1, 1
	w.add(aPod("web").grace(30).liveness(liveness).readiness(readiness).
		script("app", "unhealthy-after", "20s").script("app", "ignore-term", "true"))
	w.allUp(10 * time.Second)
	w.run(10 * time.Second)
	w.drop("web")
	w.run(8 * time.Second)
	if !w.ready("web") {
		w.failf("it serves, and is not shown as ready")
	}
	w.run(10 * time.Second)
	if w.ready("web") {
		w.failf("it does not serve, and is shown as ready")
	}
	for _, e := range w.events {
		if strings.HasPrefix(e.Message, "Liveness") {
			t.Errorf("a pod that is being stopped: %s", e.Message)
		}
	}
	w.allUp(30 * time.Second)
	before := w.rt.Calls(simcri.ProbeHTTP)
	w.run(time.Minute)
	check.Equal(t, w.rt.Calls(simcri.ProbeHTTP), before, "a pod that is gone is still asked")
}

// TestUnchangedAnswersWakeNobody: neither the pod's actor nor the pods actor
// hears of an answer that changes nothing.
func TestUnchangedAnswersWakeNobody(t *testing.T) {
	w := parallelNode(t, 1)
	w.add(many("p", 30, func(n string) *spec { return aPod(n).readiness(httpProbe("/")).liveness(tcpProbe()) })...)
	w.allUp(time.Minute)
	w.run(time.Minute)
	messages := map[string]int{}
	w.around = func(actor string, m any, handled bool) {
		if handled {
			name, _, _ := strings.Cut(actor, "/")
			messages[fmt.Sprintf("%s %T", name, m)]++
		}
	}
	w.run(50 * time.Second)
	ticks, answers := 0, 0
	for k, n := range messages {
		switch {
		case strings.HasPrefix(k, "probes") && strings.HasSuffix(k, ".due"):
			ticks = n
		case strings.HasPrefix(k, "probes"):
			answers += n
		case strings.HasPrefix(k, "pod "):
			t.Errorf("%d × %s", n, k)
		}
	}
	if answers < 290 || answers > 310 || ticks > 51 {
		t.Errorf("in 50 s the actor handled %d answers and %d ticks, want 300 and 50: %v", answers, ticks, messages)
	}
}

func TestProbeOfANamelessPort(t *testing.T) {
	w := parallelNode(t, 1)
	p := httpProbe("/")
	p.HTTPGet.Port = intstr.FromString("web")
	named := aPod("named").readiness(p)
	named.Spec.Containers[0].Ports = []v1.ContainerPort{{Name: "web", ContainerPort: 8080}}
	w.add(named, aPod("nameless").readiness(p))
	w.run(30 * time.Second)
	if !w.ready("named") || w.ready("nameless") {
		w.failf("the one with the port is to be ready, the other not")
	}
	check.Has(t, w.lastEvent("nameless", "Unhealthy"), `no port named "web"`, "users are told")
}

func TestProbesOnTheHostNetwork(t *testing.T) {
	w := parallelNode(t, 1)
	w.run(time.Second)
	p := aPod("web").readiness(httpProbe("/"))
	p.Spec.HostNetwork = true
	w.add(p)
	w.readyAfter("web", time.Minute)
}
