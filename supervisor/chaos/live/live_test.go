package live

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/chaos/live/criproxy"
	"github.com/troupe-dev/troupe/supervisor/chaos/plan"
	"github.com/troupe-dev/troupe/tests/check"
)

func parse(t *testing.T, text string) *plan.Case {
	t.Helper()
	return check.Value(plan.Parse(text))(t)
}

// TestPossible: what can't be done on a real node is refused by its name.
func TestPossible(t *testing.T) {
	kills := func(context.Context, time.Duration) error { return nil }
	for text, want := range map[string]string{
		"create a main=app; kill-agent; on a Ready: delete a":               "",
		"create a main=app; fault call StopContainer a/app #1 = hang":       "",
		"create a main=app; fault api Patch-Pod-status a #1 = kill":         "",
		"create a main=app; fault event stopped a #1 = twice":               "",
		"create a main=app; power-cycle for=1s":                             "power-cycle, which is not possible on a real node",
		"create a main=app; step-clock by=1h":                               "step-clock, which is not possible on a real node",
		"create a main=app; suspend for=1s":                                 "suspend, which is not possible on a real node",
		"create a main=app; lose-task a/app":                                "lose-task, which is not possible on a real node",
		"csi plain; create a main=app claim=c":                              "csi, which is not possible on a real node",
		"standalone; write a main=app":                                      "standalone, which is not possible on a real node",
		"create a main=app; fault msg podset:Wanted - #1 = panic":           "the stream msg",
		"create a main=app; fault send podset:Wanted - #1 = twice":          "the stream send",
		"create a main=app; fault host UnmountPod a #1 = fail":              "the stream host",
		"create a main=app; fault call StopContainer a/app #1 = partial":    "call faults with partial",
		"create a main=app ready=app; fault call ProbeHTTP a/app #1 = fail": "faults of ProbeHTTP",
		"create a main=app app.memory=1Mi":                                  "memory, which is not possible on a real node",
		"create a main=app app.run-for=1s..3s":                              "one duration for run-for",
		"write a main=app":                                                  "--manifests",
		"create a main=app; kill-runtime":                                   "--kill-runtime",
	} {
		err := (&Config{}).Possible(parse(t, text))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	able := Config{Manifests: "/manifests", KillRuntime: kills}
	if err := able.Possible(parse(t, "write a main=app; kill-runtime; fault call StopContainer a/app #1 = kill-runtime")); err != nil {
		t.Error(err)
	}
}

// TestPod: a real pod does what the words of its shape say.
func TestPod(t *testing.T) {
	c := (&Config{Node: "n", Image: "busybox"}).withDefaults()
	of := parse(t, "create a init=setup main=app main=log app.term-delay=2s app.term-exit-code=0 log.crash-loop=2 ready=app "+
		"ready=log app.unhealthy-after=5s; oom a/app")
	p := check.Value(c.pod(&of.Ops[0], "ns", []plan.Role{{Pod: "a", Container: "app"}}))(t)
	setup, app, log := &p.Spec.InitContainers[0], &p.Spec.Containers[0], &p.Spec.Containers[1]
	for _, want := range []struct {
		of   *v1.Container
		text string
	}{
		{setup, "busybox sleep 0.3 & wait $!; exit 0"}, {app, "trap 'busybox sleep 2; exit 0' TERM"},
		{app, "busybox httpd -f -p 8081"}, {app, "(busybox sleep 5; kill $httpd) &"},
		{log, "if [ $n -lt 2 ]; then busybox sleep 0 & wait $!; exit 1; fi"},
	} {
		if got := want.of.Command[3]; !strings.Contains(got, want.text) {
			t.Errorf("container %s has no %q:\n%s", want.of.Name, want.text, got)
		}
	}
	if app.ReadinessProbe.HTTPGet.Port == log.ReadinessProbe.HTTPGet.Port {
		t.Error("two containers of a pod serve the same port")
	}
	if app.Resources.Limits.Memory().IsZero() || !log.Resources.Limits.Memory().IsZero() {
		t.Error("the container that is to be killed for want of memory has no limit, or another has one")
	}
	if len(p.Annotations) > 0 || p.Namespace != "ns" || p.Spec.NodeName != "n" || len(log.VolumeMounts) != 1 {
		t.Errorf("%+v", p)
	}
}

// TestSignalled: a signal is sent again and again, until its container has ended.
func TestSignalled(t *testing.T) {
	for signal, command := range map[string][]string{"USR1": endCommand("3"), "USR2": oomCommand} {
		check.Has(t, command[3], "while kill -"+signal+" 1; do busybox sleep", "the command")
	}
}

// TestRequests: requests have the names that cases have for them.
func TestRequests(t *testing.T) {
	for line, want := range map[string]string{
		"GET /api/v1/pods?fieldSelector=x":                                     "List-Pod",
		"GET /api/v1/pods?watch=true&sendInitialEvents=true":                   "List-Pod",
		"GET /api/v1/pods?watch=true":                                          "Watch-Pod",
		"PATCH /api/v1/namespaces/d/pods/a/status":                             "Patch-Pod-status",
		"DELETE /api/v1/namespaces/d/pods/a":                                   "Delete-Pod",
		"POST /api/v1/namespaces/d/pods":                                       "Create-Pod",
		"GET /api/v1/nodes/n":                                                  "Get-Node",
		"PUT /apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n": "Update-Lease",
		"GET /version": "",
		"POST /apis/authentication.k8s.io/v1/tokenreviews": "",
	} {
		method, url, _ := strings.Cut(line, " ")
		q, known := requestOf(httptest.NewRequest(method, url, nil))
		if q.subject != want && known || known != (want != "") {
			t.Errorf("%s is %q, want %q", line, q.subject, want)
		}
	}
}

// TestOnRequest: what goes wrong with a request, and whether it is made.
func TestOnRequest(t *testing.T) {
	const later = 20 * time.Millisecond
	for _, c := range []struct {
		effect plan.Effect
		code   int // 0: there is no answer
		made   bool
	}{
		{plan.Effect{}, 200, true}, {plan.Effect{Do: plan.Fail}, 503, false},
		{plan.Effect{Do: plan.Hang}, 0, false}, {plan.Effect{Do: plan.KillAgent}, 0, false},
		{plan.Effect{Do: plan.Lose}, 0, true},
		{plan.Effect{Do: plan.Slow, For: later}, 200, true}, {plan.Effect{Do: plan.AnswerLate, For: later}, 200, true},
		{plan.Effect{Do: plan.WorkLate, For: later}, 200, true},
	} {
		made := make(chan string, 1)
		next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			made <- string(body)
			_, _ = io.WriteString(w, "done")
		})
		over := make(chan struct{})
		time.AfterFunc(10*later, func() { close(over) })
		w := httptest.NewRecorder()
		answered := func() (answered bool) {
			defer func() { _ = recover() }()
			onRequest(c.effect, over, w, httptest.NewRequest(http.MethodPatch, "/x", strings.NewReader("body")), next)
			return true
		}()
		if answered != (c.code > 0) || answered && w.Code != c.code {
			t.Errorf("%s: answered %v with %d, want %d", c.effect, answered, w.Code, c.code)
		}
		if c.made != (len(made) == 1) || c.made && <-made != "body" {
			t.Errorf("%s: made %v", c.effect, !c.made)
		}
	}
}

// world is a case on a node n in namespace ns.
func testWorld(t *testing.T, text string) *world {
	s := &Session{config: Config{Node: "n"}, namespace: "ns", images: [2]string{"x", "y"}, happened: make(chan struct{}, 1)}
	s.agent = &agent{}
	return newWorld(s, parse(t, text))
}

// TestFaultsByRole: the N-th call, request or event of a role is struck, and those of others are not counted.
func TestFaultsByRole(t *testing.T) {
	w := testWorld(t, "create a main=app; fault call StopContainer a/app #2 = fail; fault call List - #2 = slow 1s; "+
		"fault call ImageStatus - #1 = hang; fault api Delete-Pod a #1 = kill; fault event stopped a #1 = drop")
	call := func(method, namespace, pod, container, image string) plan.EffectKind {
		return w.called(&criproxy.Call{
			Method: method, PodNamespace: namespace, PodName: pod, PodUID: "u", Container: container, ContainerID: "c", Image: image,
		}).Do
	}
	for i, want := range []plan.EffectKind{"", "", plan.Fail, ""} {
		namespace := "ns"
		if i == 0 {
			namespace = "other"
		}
		check.Equal(t, call("StopContainer", namespace, "a", "app", ""), want, "StopContainer %d", i)
	}
	// The runtime has no streams: the first list is asked for twice, and counts once.
	for i, method := range []string{"StreamPodSandboxes", "ListPodSandbox", "ListContainers", "ListPodSandbox"} {
		want := plan.EffectKind("")
		if i == 3 {
			want = plan.Slow
		}
		check.Equal(t, call(method, "", "", "", ""), want, "%s", method)
	}
	if a, b := call("ImageStatus", "", "", "", "pause"), call("ImageStatus", "", "", "", "x"); a != "" || b != plan.Hang {
		t.Errorf("ImageStatus: %q of another image, %q of ours", a, b)
	}
	pod := request{subject: "Delete-Pod", kind: port.PodKind, namespace: "other", name: "a"}
	if e := w.asked(&pod); e.Do != "" || w.killed {
		t.Errorf("a pod of another namespace: %s", e)
	}
	pod.namespace = "ns"
	if e := w.asked(&pod); e.Do != plan.KillAgent || !w.killed {
		t.Errorf("the agent is not killed: %s", e)
	}
	ref := observed.PodRef{Namespace: "ns", Name: "a", UID: "u"}
	w.changed(simcri.Transition{Kind: observed.ContainerCreatedEvent, Pod: ref, ID: "s", Sandbox: "s"})
	// An event of a sandbox that is gone does not say whose it was.
	if f := w.event(port.RuntimeEvent{Kind: observed.ContainerStoppedEvent, ContainerID: "s"}); !f.Drop {
		t.Error("the event is not dropped")
	}
	if left := w.inj.unreached(); len(left) > 0 || len(w.inj.reached()) != 5 {
		t.Errorf("not reached: %v", left)
	}
}

// TestCauses: why a container ends follows from what the runtime was asked.
func TestCauses(t *testing.T) {
	w := testWorld(t, "create a main=app; fault call StopContainer a/app #2 = fail")
	stop := func(method, container, sandbox string) {
		w.called(&criproxy.Call{
			Method: method, PodNamespace: "ns", PodName: "a", Container: "app", ContainerID: container, SandboxID: sandbox,
		})
	}
	stop("StopContainer", "stopped", "")
	stop("StopContainer", "refused", "")
	stop("RemoveContainer", "removed", "")
	stop("StopPodSandbox", "", "down")
	w.outside["ended"] = true
	for _, c := range []struct {
		id, sandbox string
		code        int32
		want        simcri.Cause
	}{
		{"stopped", "", 143, simcri.BySignal}, {"stopped", "", 137, simcri.ByKill}, {"refused", "", 137, simcri.ByItself},
		{"removed", "", 137, simcri.WithRemoval}, {"x", "down", 137, simcri.WithSandbox}, {"ended", "", 1, simcri.FromOutside},
	} {
		check.Equal(t, w.cause(c.id, c.sandbox, c.code), c.want, "%+v", c)
	}
}

// TestDifference: two worlds are compared by the last version of each life of a pod.
func TestDifference(t *testing.T) {
	pod := func(uid string, phase v1.PodPhase, code int32) *v1.Pod {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid)}, Status: v1.PodStatus{
			Phase: phase, ContainerStatuses: []v1.ContainerStatus{{Name: "app", State: v1.ContainerState{
				Terminated: &v1.ContainerStateTerminated{ExitCode: code, Reason: "Error"},
			}}},
		}}
	}
	a, b := newEnds(), newEnds()
	a.shown("a", pod("1", v1.PodRunning, 0))
	a.shown("a", pod("1", v1.PodFailed, 143))
	b.shown("a", pod("2", v1.PodFailed, 143))
	check.Equal(t, a.difference(b), "", "it")
	b.shown("a", pod("2", v1.PodFailed, 137))
	want := "pod a, life 1: simulated [Failed; app ended with 143 (Error)], live [Failed; app ended with 137 (Error)]"
	check.Equal(t, a.difference(b), want, "it")
	if b.looping["a"] = true; a.difference(b) != "" {
		t.Error("a pod that loops is compared")
	}
	b.shown("b", pod("3", v1.PodRunning, 0))
	if what := a.difference(b); !strings.HasPrefix(what, "pod b, life 1: simulated none, live [Running") {
		t.Error(what)
	}
}

// TestOnCall: what the proxy of the runtime does for each effect.
func TestOnCall(t *testing.T) {
	for effect, want := range map[plan.EffectKind]criproxy.Action{
		plan.Fail: criproxy.Refuse, plan.KillRuntime: criproxy.Refuse, plan.Hang: criproxy.Hang, plan.KillAgent: criproxy.Hang,
		plan.Lose: criproxy.Withhold, plan.AnswerLate: criproxy.Withhold, plan.Slow: criproxy.Slow, plan.WorkLate: criproxy.Delay,
	} {
		e := plan.Effect{Do: effect}
		if effect.TakesTime() {
			e.For = time.Second
		}
		if f := onCall("StopContainer", e); f.Do != want || f.Validate() != nil || f.Delay != e.For {
			t.Errorf("%s: %+v", effect, f)
		}
	}
	if f := onCall("PullImage", plan.Effect{Do: plan.Hang}); f.Do != criproxy.Hang || f.Delay != pullLimit {
		t.Errorf("a pull that hangs: %+v", f)
	}
	if f := onCall("StopContainer", plan.Effect{}); f != nil {
		t.Errorf("nothing goes wrong: %+v", f)
	}
}

// TestAgentOfAnotherNode: an agent that is not that of the node which was named gets nowhere.
func TestAgentOfAnotherNode(t *testing.T) {
	s := testWorld(t, "create a main=app").s
	passed := 0
	next := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { passed++ })
	for _, c := range []struct {
		path string
		code int
	}{
		{"/api/v1/nodes/n", 200}, {"/api/v1/pods?fieldSelector=spec.nodeName%3Dn", 200},
		{"/api/v1/pods?fieldSelector=spec.nodeName%3Dother", 503}, {"/api/v1/nodes/n", 503},
	} {
		w := httptest.NewRecorder()
		s.asked(w, httptest.NewRequest(http.MethodGet, c.path, nil), next)
		check.Equal(t, w.Code, c.code, "%s", c.path)
	}
	if passed != 2 || s.foreign != "other" {
		t.Errorf("%d requests were passed on, the agent is that of %q", passed, s.foreign)
	}
}

// TestTimeStands: while the rules are told of something the time stands, and it is not later than now.
func TestTimeStands(t *testing.T) {
	w := testWorld(t, "create a main=app")
	early := time.Now().Add(-time.Second)
	for _, at := range []time.Time{early, time.Now().Add(time.Hour)} {
		w.happened(at, func() {
			first := w.now()
			if second := w.now(); !first.Equal(second) || first.After(time.Now()) || at.Equal(early) && !first.Equal(early) {
				t.Errorf("at %v it is %v, and then %v", at, first, second)
			}
		})
	}
	if !w.now().After(early) || !w.at.IsZero() {
		t.Error("the time stands still afterwards")
	}
}
