package probes_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/probe"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/probes"
	"github.com/troupe-dev/troupe/tests/actortest"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/linear"
)

// rig is the actor alone, on a virtual clock. The rig plays the network, the
// checkpoints and the pods.
type rig struct {
	*actortest.Rig
	port.Network
	probes.Runtime
	actor *actortest.Actor[probes.Message]
	// asked are the questions so far, by host; late is how long an answer takes.
	asked map[string]int
	late  time.Duration
	hung  string // the beginning of the hosts that answer after a minute
	// up and most are how many were under way at once, now and at the most.
	up, most int
	fail     error
	unread   string
	told     []pod.Probed
	pods     kernel.Ref[pod.Message]
	events   []port.Event
	again    func()
}

// requestTimeout is runtimeRequestTimeout.
const requestTimeout = 2 * time.Minute

func newRig(t *testing.T, slots int) *rig {
	t.Helper()
	r := &rig{asked: map[string]int{}, late: time.Millisecond, again: func() {}}
	r.Rig = actortest.New(t, func(c *kernel.Config) { c.Seed = rand.Uint64() })
	pools := probes.Pools(slots)
	for i := range pools {
		pools[i].Size = slots
	}
	r.actor = actortest.Spawn(r.Rig, kernel.Spec[probes.Message]{
		Name: "probes", Runner: r.Runner(pools...),
		New: probes.New(&probes.Deps{
			Network: r, Runtime: r, Events: r, Checkpoints: nothing{r}, Restarted: func() { r.again() }, RequestTimeout: requestTimeout,
		}),
	})
	r.pods = actortest.Play(r.Rig, "pod", func(m pod.Message) { r.told = append(r.told, m.(pod.Probed)) })
	r.Advance(time.Second)
	return r
}

// ProbeTCP implements port.Network.
func (r *rig) ProbeTCP(ctx context.Context, q probe.TCP, _ time.Duration, done func(error)) {
	r.asked[q.Host]++
	r.up++
	r.most = max(r.most, r.up)
	err, late := r.fail, r.late
	if r.hung != "" && strings.HasPrefix(q.Host, r.hung) {
		late = time.Minute
	}
	r.AfterFunc(late, func() {
		r.up--
		done(err)
	})
}

// ExecSync implements probes.Runtime.
func (r *rig) ExecSync(ctx context.Context, id string, _ port.Command, _ time.Duration, done func(port.ExecResult, error)) {
	r.ProbeTCP(ctx, probe.TCP{Host: id}, 0, func(err error) { done(port.ExecResult{}, err) })
}

// ProbeHTTP implements port.Network.
func (r *rig) ProbeHTTP(ctx context.Context, q probe.HTTP, _ time.Duration, done func(port.HTTPAnswer, error)) {
	unread := r.unread
	r.ProbeTCP(ctx, probe.TCP{Host: q.Host}, 0, func(err error) { done(port.HTTPAnswer{Status: 200, Unread: unread}, err) })
}

// Record implements port.Recorder.
func (r *rig) Record(e port.Event) { r.events = append(r.events, e) }

// nothing remembers nothing.
type nothing struct{ r *rig }

func (n nothing) Load(_ context.Context, _ string, done func([]byte, error)) {
	n.r.Soon(func() { done(nil, nil) })
}

func (n nothing) Save(_ context.Context, _ string, _ []byte, done func(error)) {
	n.r.Soon(func() { done(nil) })
}

func (n nothing) SetAside(_ context.Context, _ string, done func(string, error)) {
	n.r.Soon(func() { done("", nil) })
}

// watch is what a pod says of its one container.
func (r *rig) watch(name string, change func(*v1.Probe), known probe.Result) probes.Watch {
	p := &v1.Probe{ProbeHandler: v1.ProbeHandler{TCPSocket: &v1.TCPSocketAction{}}, PeriodSeconds: 10}
	p.TCPSocket.Port.IntVal = 80
	change(p)
	return probes.Watch{ProbeContainers: pod.ProbeContainers{
		Pod: &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
			Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "app", ReadinessProbe: p}}},
		},
		Host: name, ReplyTo: r.pods,
		Containers: []pod.ProbedContainer{{Name: "app", ID: "id-" + name, StartedAt: r.Now(), Known: probe.Health{Readiness: known}}},
	}}
}

func asIs(*v1.Probe) {}

// askedSince says how often each was asked while f ran.
func (r *rig) askedIn(d time.Duration) map[string]int {
	before := map[string]int{}
	for k, v := range r.asked {
		before[k] = v
	}
	r.Advance(d)
	diff := map[string]int{}
	for k, v := range r.asked {
		if v > before[k] {
			diff[k] = v - before[k]
		}
	}
	return diff
}

// TestDoubt: the pods actor restarted; what is not said again is forgotten.
func TestDoubt(t *testing.T) {
	r := newRig(t, 4)
	r.actor.Tell(r.watch("a", asIs, probe.Failure))
	r.actor.Tell(r.watch("b", asIs, probe.Failure))
	r.Advance(time.Minute)
	r.actor.Tell(probes.PodsRestarted{})
	r.actor.Tell(r.watch("a", asIs, probe.Success))
	if got := r.askedIn(time.Minute); got["a"] != 6 || got["b"] != 6 {
		t.Errorf("in the first minute: %v", got)
	}
	r.Advance(5 * time.Minute)
	if got := r.askedIn(time.Minute); got["a"] != 6 || got["b"] != 0 {
		t.Errorf("later: %v", got)
	}
}

// TestSlots: no more at once than there are, and all of them in the end.
func TestSlots(t *testing.T) {
	r := newRig(t, 3)
	r.late = 100 * time.Millisecond
	for i := range 20 {
		r.actor.Tell(r.watch(fmt.Sprint("p", i), asIs, probe.Failure))
	}
	r.Advance(time.Second)
	if r.most != 3 {
		t.Errorf("%d at once, want 3", r.most)
	}
	if len(r.told) != 20 {
		t.Errorf("%d pods were told that they are ready, want 20", len(r.told))
	}
}

// TestShareOfAPod: a pod with hundreds of probes that hang delays those of no other pod.
func TestShareOfAPod(t *testing.T) {
	for name, handler := range map[string]v1.ProbeHandler{
		"commands":    {Exec: &v1.ExecAction{Command: []string{"x"}}},
		"connections": {TCPSocket: &v1.TCPSocketAction{Port: intstr.FromInt32(80)}},
	} {
		r := newRig(t, 2)
		r.hung = "id-greedy"
		of := func(p *v1.Probe) { p.ProbeHandler, p.TimeoutSeconds = handler, 120 }
		greedy := r.watch("greedy", func(p *v1.Probe) { of(p); p.PeriodSeconds = 1 }, probe.Failure)
		c, id := greedy.Pod.Spec.Containers[0], greedy.Containers[0]
		if handler.TCPSocket != nil {
			r.hung = "greedy"
		}
		for i := range 300 {
			c.Name, id.Name, id.ID = fmt.Sprint("c", i), fmt.Sprint("c", i), fmt.Sprint("id-greedy-", i)
			greedy.Pod.Spec.Containers = append(greedy.Pod.Spec.Containers, c)
			greedy.Containers = append(greedy.Containers, id)
		}
		r.actor.Tell(greedy)
		r.Advance(time.Second)
		r.actor.Tell(r.watch("plain", of, probe.Failure))
		if got := r.askedIn(3 * time.Second); got["id-plain"]+got["plain"] == 0 {
			t.Errorf("%s: not asked for three seconds, of others %d", name, len(got))
		}
		// The grid has a phase of its own.
		if got := r.askedIn(64 * time.Second); got["id-plain"]+got["plain"] < 6 {
			t.Errorf("%s: asked %d times in six periods", name, got["id-plain"]+got["plain"])
		}
	}
}

// TestSlowerThanItsPeriod: it is not run twice at a time.
func TestSlowerThanItsPeriod(t *testing.T) {
	r := newRig(t, 4)
	r.late = 2500 * time.Millisecond
	r.actor.Tell(r.watch("a", func(p *v1.Probe) { p.PeriodSeconds, p.TimeoutSeconds = 1, 10 }, probe.Failure))
	if got := r.askedIn(30 * time.Second); got["a"] < 9 || got["a"] > 11 || r.most != 1 {
		t.Errorf("asked %d times in 30 s, %d at once", got["a"], r.most)
	}
}

// TestNoAnswer: the far side forgets a question; the probe fails all the same.
func TestNoAnswer(t *testing.T) {
	r := newRig(t, 4)
	r.late = time.Hour
	r.actor.Tell(r.watch("a", func(p *v1.Probe) { p.FailureThreshold = 1 }, probe.Success))
	r.Advance(40 * time.Second)
	if len(r.told) != 1 || r.told[0].Health.Readiness != probe.Failure {
		t.Errorf("told %+v", r.told)
	}
	if n := len(r.events); n == 0 || r.events[0].Message != "Readiness probe failed: no answer within 1s" {
		t.Errorf("events %+v", r.events)
	}
}

// exec makes a probe one of a command, http one of a page, which fails at once.
func exec(p *v1.Probe) {
	p.ProbeHandler, p.FailureThreshold = v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"check", "it"}}}, 1
}

func http(p *v1.Probe) {
	get := &v1.HTTPGetAction{}
	get.Port.IntVal = 80
	p.ProbeHandler, p.FailureThreshold = v1.ProbeHandler{HTTPGet: get}, 1
}

// TestRuntimeStandsStill: that says nothing of a container, of whatever kind the probe is. Its answer is waited for as
// long as that of any call. Meanwhile no command holds up others.
func TestRuntimeStandsStill(t *testing.T) {
	for _, kind := range []probe.Kind{probe.Startup, probe.Liveness, probe.Readiness} {
		r := newRig(t, 1)
		for i := range 3 {
			w := r.watch(fmt.Sprint("p", i), exec, probe.Success)
			c := &w.Pod.Spec.Containers[0]
			switch kind {
			case probe.Startup:
				c.StartupProbe, c.ReadinessProbe = c.ReadinessProbe, nil
				w.Containers[0].Known = probe.Health{Startup: probe.Unknown}
			case probe.Liveness:
				c.LivenessProbe, c.ReadinessProbe = c.ReadinessProbe, nil
				w.Containers[0].Known = probe.Health{Liveness: probe.Success}
			case probe.Readiness, probe.Kinds:
			}
			r.late = 25 * time.Second
			r.actor.Tell(w)
		}
		r.Advance(24 * time.Second)
		if len(r.asked) != 3 || len(r.events) > 0 || len(r.told) > 0 {
			t.Errorf("%v: asked %v, events %v, told %v", kind, r.asked, r.events, r.told)
		}
		r.late = time.Millisecond
		r.Advance(time.Minute)
		for _, told := range r.told {
			if told.Health.Startup == probe.Failure || told.Health.Liveness == probe.Failure || told.Health.Readiness == probe.Failure {
				t.Errorf("%v: told %+v", kind, told)
			}
		}
		if len(r.events) > 0 || r.asked["id-p0"] < 2 && kind != probe.Startup {
			t.Errorf("%v: asked %v, events %v", kind, r.asked, r.events)
		}
	}
}

// TestCommandWithoutAnAnswer: it counts as failed when the runtime has not answered in the time of a call.
func TestCommandWithoutAnAnswer(t *testing.T) {
	r := newRig(t, 1)
	r.late = time.Hour
	r.actor.Tell(r.watch("a", exec, probe.Success))
	r.Advance(requestTimeout)
	if r.asked["id-a"] != 1 || len(r.told) > 0 {
		t.Errorf("asked %v, told %+v", r.asked, r.told)
	}
	r.Advance(15 * time.Second)
	if len(r.told) != 1 || r.told[0].Health.Readiness != probe.Failure {
		t.Errorf("told %+v", r.told)
	}
	want := `Readiness probe failed: command timed out: "check it" timed out after 1s`
	if len(r.events) != 1 || r.events[0].Message != want {
		t.Errorf("events %+v, want %s", r.events, want)
	}
}

// TestProbeThatCannotBeRun is tried twice more at once, and then says nothing.
func TestProbeThatCannotBeRun(t *testing.T) {
	for what, c := range map[string]struct {
		change func(*v1.Probe)
		fail   error
		unread string
		event  string
	}{
		"exec": {exec, &port.Error{Kind: port.Unavailable, Detail: "refused"}, "",
			"Readiness probe errored and resulted in unknown state: refused"},
		"http": {http, nil, "unexpected EOF", "Readiness probe errored and resulted in failure state: unexpected EOF"},
	} {
		t.Run(what, func(t *testing.T) {
			for _, known := range []probe.Result{probe.Success, probe.Failure} {
				r := newRig(t, 1)
				r.fail, r.unread = c.fail, c.unread
				w := r.watch("a", c.change, known)
				w.Containers[0].StartedAt = r.Now().Add(-time.Hour)
				r.actor.Tell(w)
				r.Advance(10 * time.Second)
				if n := r.asked["a"] + r.asked["id-a"]; n != 3 || len(r.told) > 0 {
					t.Errorf("known %v: asked %d times, told %+v", known, n, r.told)
				}
				if len(r.events) != 1 || r.events[0].Message != c.event {
					t.Errorf("known %v: events %+v", known, r.events)
				}
			}
		})
	}
}

// TestRestartWithAnswersUnderWay: answers to what a predecessor asked are none,
// and its lanes are busy until then.
func TestRestartWithAnswersUnderWay(t *testing.T) {
	r := newRig(t, 4)
	w := r.watch("a", func(p *v1.Probe) { p.FailureThreshold, p.PeriodSeconds, p.TimeoutSeconds = 1, 1, 20 }, probe.Failure)
	r.actor.Tell(w)
	r.Advance(3 * time.Second)
	if len(r.told) != 1 {
		t.Fatalf("told %+v", r.told)
	}
	w.Containers[0].Known = r.told[0].Health
	r.again = func() { r.actor.Tell(w) }
	r.late, r.fail = 10*time.Second, &port.Error{Kind: port.Unavailable, Detail: "refused"}
	before := r.asked["a"]
	for r.asked["a"] == before {
		r.Advance(100 * time.Millisecond)
	}
	r.actor.Crash()
	r.actor.Tell(probes.PodsRestarted{})
	r.fail = nil
	r.Advance(8 * time.Second)
	if r.asked["a"] != before+1 {
		t.Errorf("asked again while a predecessor's question is under way")
	}
	r.late = time.Millisecond
	r.Advance(8 * time.Second)
	if len(r.told) != 1 || len(r.events) > 0 {
		t.Errorf("the answer to a predecessor counted: %+v %+v", r.told[1:], r.events)
	}
	if r.asked["a"] < before+4 {
		t.Error("it is not asked any more")
	}
}

// TestForgotten: a container that is gone is not asked, and what it answers late
// is nothing.
func TestForgotten(t *testing.T) {
	r := newRig(t, 4)
	r.late = 500 * time.Millisecond
	w := r.watch("a", func(p *v1.Probe) { p.PeriodSeconds = 1 }, probe.Failure)
	r.actor.Tell(w)
	r.Advance(100 * time.Millisecond)
	next := w
	next.Containers = []pod.ProbedContainer{{Name: "app", ID: "id-2", StartedAt: r.Now(), Known: w.Containers[0].Known}, {Name: "none", ID: "id-3"}}
	r.actor.Tell(next)
	r.Advance(800 * time.Millisecond)
	if len(r.told) != 1 || r.told[0].ID != "id-2" {
		t.Errorf("told %+v", r.told)
	}
	next.Containers = nil
	r.actor.Tell(next)
	r.Advance(time.Second)
	if got := r.askedIn(time.Minute); len(got) > 0 {
		t.Errorf("asked of nobody: %v", got)
	}
}

// TestAddressComesLater: who has no address is not asked, and fails nothing.
func TestAddressComesLater(t *testing.T) {
	r := newRig(t, 4)
	w := r.watch("a", func(p *v1.Probe) { p.FailureThreshold = 1 }, probe.Success)
	w.Host = ""
	r.actor.Tell(w)
	if got := r.askedIn(time.Minute); len(got) > 0 || len(r.told)+len(r.events) > 0 {
		t.Errorf("asked %v, told %v, events %v", got, r.told, r.events)
	}
	w.Host = "a"
	r.actor.Tell(w)
	if got := r.askedIn(time.Minute); got["a"] < 6 {
		t.Errorf("asked %v", got)
	}
}

// TestManyOfAStaticPod: a result costs the same however many containers its pod has, also if it is remembered for the
// next agent.
func TestManyOfAStaticPod(t *testing.T) {
	linear.Held(t, 250, func(n int) func() {
		r := newRig(t, n)
		w := r.watch("web", func(p *v1.Probe) { p.PeriodSeconds, p.FailureThreshold = 1, 1 }, probe.Unknown)
		c := w.Pod.Spec.Containers[0]
		w.Pod.Annotations = map[string]string{podspec.AnnotationSource: string(podspec.File)}
		w.Pod.Spec.Containers, w.Containers = nil, nil
		for i := range n {
			c.Name = fmt.Sprintf("c%05d", i)
			w.Pod.Spec.Containers = append(w.Pod.Spec.Containers, c)
			w.Containers = append(w.Containers, pod.ProbedContainer{Name: c.Name, ID: "id-" + c.Name, StartedAt: r.Now()})
		}
		r.actor.Tell(w)
		r.Advance(10 * time.Second)
		r.told, r.fail = nil, errors.New("connection refused")
		return func() {
			r.Advance(3 * time.Second)
			check.Equal(t, len(r.told), n, "containers that are not ready any more")
		}
	})
}
