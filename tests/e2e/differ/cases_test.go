package differ

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/supervisor/chaos/live/criproxy"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// TestCases: a seed is one pod, also when it is read again, and a thousand seeds have all features.
//
//tier:unit
func TestCases(t *testing.T) {
	drawn := map[string]int{}
	for seed := range uint64(1000) {
		c := Draw(seed)
		again := check.Value(ParseCase(c.String()))(t)
		if !reflect.DeepEqual(c.Make().Pod, again.Make().Pod) {
			t.Fatalf("%s is not the same pod twice", c)
		}
		for _, f := range c.Features {
			drawn[f]++
			c.without(f).Make() // which must not panic
		}
	}
	for _, f := range features {
		if drawn[f.name] == 0 {
			t.Errorf("no seed has %s", f.name)
		}
	}
	for _, bad := range []string{"", "x", "1:none"} {
		check.Fails(t, check.Err(ParseCase(bad)), "case %q was read", bad)
	}
	check.Same(t, check.Value(ParseCase("7"))(t).Features, Draw(7).Features, "the features of a seed")
}

// TestWithout: what a feature draws does not depend on the others.
//
//tier:unit
func TestWithout(t *testing.T) {
	c := Case{Seed: 3, Features: []string{"env", "labels", "empty-dir"}}
	alone := Case{Seed: 3, Features: []string{"empty-dir"}}.Make()
	check.Deep(t, c.Make().Pod.Spec.Volumes, alone.Pod.Spec.Volumes, "the volumes")
}

// TestNormal: what differs from run to run is gone, and all else is there.
//
//tier:unit
func TestNormal(t *testing.T) {
	n := newNormal("/tmp/x/n", "/AGENT", "", "EMPTY", "10.1.0.3", "POD_IP")
	for text, want := range map[string]string{
		"/tmp/x/n/root/pods/1b4e28ba-2fa1-11d2-883f-0016d3cca427": "/AGENT/root/pods/UUID",
		"10.1.0.3\tp1":                                                           "POD_IP\tp1",
		"..2026_11_29_01_02_03.123456789":                                        "..TIME",
		"at 2026-11-29T01:02:03Z":                                                "at TIME",
		"in 12ms (1.2s including waiting). Image size: 5":                        "in DURATION (DURATION including waiting). Image size: 5",
		"tmpfs / rw mode=755,uid=2147483648,gid=65536":                           "tmpfs / rw mode=755,uid=OF_USERS,gid=OF_USERS",
		"back-off 10s restarting":                                                "back-off DURATION restarting",
		"x eyJhbGciOiJSUzI1NiJ9.eyJhdWQiOiJhIiwiZXhwIjo5MDAsImlhdCI6MTAwfQ.c2ln": `x TOKEN {"aud":"a","life":800}`,
		"x eyJhbGciOiJSUzI1NiJ9.eyJhdWQiOiJhIiwiZXhwIjo5MDAs.c2ln":               "x a token that can't be read",
	} {
		check.Equal(t, n.text(text), want, "%q", text)
	}
}

// TestKeys: lists of objects are sets by name, and lists of words are as they are.
//
//tier:unit
func TestKeys(t *testing.T) {
	k := keys{}
	check.Fatal(t, k.addJSON("r", []byte(`{"envs":[{"key":"B","value":"1"},{"key":"A","value":"2"},{"key":"A","value":"3"}],"args":["b","a"],
		"addCapabilities":["B","A"],"empty":{},"n":3}`)))
	check.Deep(t, k, keys{
		"r/envs[B]/value": "1", "r/envs[A]/value": "2", "r/envs[A]/value#2": "3", "r/envs[B]/key": "B", "r/envs[A]/key": "A", "r/envs[A]/key#2": "A",
		"r/args": "b, a", "r/addCapabilities": "A, B", "r/empty": "{}", "r/n": "3",
	}, "the keys")
}

// TestUsersOfAPod: which block of IDs a pod has is chance, and that it is a block is not.
//
//tier:unit
func TestUsersOfAPod(t *testing.T) {
	for first, want := range map[uint32]string{65536: "a block", 1 << 31: "a block", 0: "", 65537: "65537"} {
		k := keys{}
		check.Fatal(t, k.request("m", &runtimeapi.Mount{UidMappings: []*runtimeapi.IDMapping{{HostId: first, Length: 65536}}}))
		check.Equal(t, k["m/uidMappings[0]/hostId"], want, "where users from %d on begin", first)
	}
}

// TestCompare: a difference is told once, at the highest place.
//
//tier:unit
func TestCompare(t *testing.T) {
	got := compare(
		keys{"a": "1", "seen/main": "x", "seen/main/Dir": "/", "cri/create/main/1": "x", "cri/create/main/1/image": "i", "same": "s"},
		keys{"a": "2", "b": "", "same": "s"})
	check.Deep(t, got, []Difference{{"a", "1", "2"}, {"b", none, ""}, {"seen/main", "x", none}}, "the differences")
	check.Same(t, classes(append(got, Difference{Key: "status/phase"}, Difference{Key: "seen/second"})), []string{"status/phase", "seen/*", "a", "b"}, "classes")
}

// TestShrink: what is left is what is needed, also if that is two things.
//
//tier:unit
func TestShrink(t *testing.T) {
	c := Case{Seed: 1, Features: []string{"a", "b", "c", "d", "e", "f", "g"}}
	for _, need := range [][]string{{}, {"d"}, {"b", "f"}, {"a", "d", "g"}} {
		got := check.Value(shrink(c, func(cases []Case) (out []bool, _ error) {
			for _, c := range cases {
				out = append(out, !slices.ContainsFunc(need, func(f string) bool { return !slices.Contains(c.Features, f) }))
			}
			return out, nil
		}))(t)
		check.Same(t, got.Features, need, "the smallest")
	}
}

// TestEarly: a main container that runs beside an init container is early, and not one beside a sidecar.
//
//tier:unit
func TestEarly(t *testing.T) {
	running := func(name string) []v1.ContainerStatus {
		return []v1.ContainerStatus{{Name: name, State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}}
	}
	p := Case{Seed: 1, Features: []string{"init", "sidecar"}}.Make().Pod
	for name, want := range map[string][]string{"init": {"main"}, "sidecar": nil} {
		p.Status.InitContainerStatuses, p.Status.ContainerStatuses = running(name), running("main")
		check.Same(t, early(p), want, "who is early beside %s", name)
	}
}

// TestAgain: a container's own policy and rules come before its pod's policy.
//
//tier:unit
func TestAgain(t *testing.T) {
	p := &v1.Pod{Spec: v1.PodSpec{RestartPolicy: v1.RestartPolicyOnFailure, Containers: []v1.Container{{Name: "plain"}, {
		Name: "ruled", RestartPolicy: new(v1.ContainerRestartPolicyNever),
		RestartPolicyRules: []v1.ContainerRestartRule{{ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Values: []int32{3}}}},
	}}}}
	for name, want := range map[string][]int32{"plain": {3, 4}, "ruled": {3}, "none": nil} {
		got := slices.DeleteFunc([]int32{0, 3, 4}, func(code int32) bool { return !again(p, name, code) })
		check.Same(t, got, want, "the codes with which %s is made again", name)
	}
}

// TestBeside: some differences are known only of a pod that shows why.
//
//tier:unit
func TestBeside(t *testing.T) {
	kubelet, troupe := keys{"cri/sandboxes": "0"}, keys{"cri/sandboxes": "1", "cri/sandbox": "asked for", "status/podIP": "POD_IP"}
	check.Equal(t, len(unknown(kubelet, troupe)), 3, "differences of a pod that has its volumes")
	kubelet["event/Warning/FailedMount//why"], troupe["event/Warning/FailedMount//why"] = "kubelet", "kubelet"
	check.Equal(t, len(unknown(kubelet, troupe)), 0, "of one whose volumes are missing")
}

// TestSettled: a pod need not wait for what never becomes the same.
//
//tier:unit
func TestSettled(t *testing.T) {
	done := &v1.Pod{Status: v1.PodStatus{Phase: v1.PodSucceeded}}
	of := func(more string, since time.Duration) *side {
		shown := keys{"status/phase": "Succeeded"}
		if more != "" {
			shown[more] = "some"
		}
		return &side{lives: lives{of: map[string]*life{"p": {pod: done, shown: shown, changed: time.Now().Add(-since)}}}}
	}
	const restarts = "status/containerStatuses[main]/restartCount"
	for more, when := range map[string]time.Duration{
		"": unmoved, "status/resources/limits/cpu": unmoved, "status/reason": given, restarts: waiting,
	} {
		for _, times := range []time.Duration{1, secondTime} {
			if when != unmoved {
				when *= times
			}
			for since, want := range map[time.Duration]bool{when: true, when - time.Second: false} {
				r := rig{sides: []*side{of(more, since), of("", since)}}
				check.Equal(t, r.settled("p", times), want, "settled after %v with %q of one, at %d times as long", since, more, times)
			}
		}
	}
}

// TestEventsOfAPod: all are there that come soon enough, each with its last text.
//
//tier:unit
func TestEventsOfAPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e events
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u", Name: "p7"}}
		tell := func(name, uid, message string) {
			e.see(&v1.Event{
				ObjectMeta: metav1.ObjectMeta{Name: name}, InvolvedObject: v1.ObjectReference{UID: types.UID(uid)}, Type: "Normal",
				Reason: "Started", Message: message, Source: v1.EventSource{Component: "kubelet"},
			})
		}
		tell("a", "u", "p7 begins")
		tell("b", "other", "not its")
		time.AfterFunc(silence-time.Millisecond, func() { tell("a", "u", "p7 begins, twice") })
		begin := time.Now()
		check.Deep(t, e.about(t.Context(), p, newNormal("p7", "POD")), keys{"event/Normal/Started//POD begins, twice": "kubelet"}, "the events")
		check.AtLeast(t, time.Since(begin), 2*silence-time.Millisecond, "until no more came")
	})
}

// TestAwait: what the runtime is asked for a pod is looked at when its sandbox is stopped, or that takes too long.
//
//tier:unit
func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u"}}
		r := recorder{calls: map[string][]criproxy.Call{}}
		took := func() time.Duration {
			begin := time.Now()
			r.await(t.Context(), p)
			return time.Since(begin)
		}
		check.Equal(t, took(), 0, "the wait for a pod without a sandbox")
		r.look(criproxy.Call{PodUID: "u", Request: &runtimeapi.RunPodSandboxRequest{}})
		check.Equal(t, took(), stopSoon, "the wait for one that is not stopped")
		time.AfterFunc(time.Second, func() { r.look(criproxy.Call{PodUID: "u", Request: &runtimeapi.StopPodSandboxRequest{}}) })
		between := took()
		check.Equal(t, between >= time.Second && between < stopSoon, true, "the wait for one that is stopped after a second ends then: %v", between)
	})
}

// TestByChance: that a container just ran says something only of one that is not made again and again.
//
//tier:unit
func TestByChance(t *testing.T) {
	for kept, restarts := range map[int]string{0: "some", 3: "0"} {
		loops := keys{"status/containerStatuses[main]/restartCount": restarts}
		also := keys{
			"status/containerStatuses[main]/restartCount": restarts, "seen/main": "x", "cri/stop/main": "2",
			"event/Normal/Killing/spec.containers{main}/Stopping container main": "kubelet",
		}
		check.Equal(t, len(compare(loops, also)), kept, "differences of one with %q restarts", restarts)
	}
	for kept, code := range map[int]string{0: "3", 1: "137"} {
		loops := keys{"status/containerStatuses[main]/restartCount": "some", "status/containerStatuses[main]/state/terminated/exitCode": code}
		probed := maps.Clone(loops)
		probed["cri/exec/main//work exit 0"] = "1"
		check.Equal(t, len(compare(loops, probed)), kept, "differences of one that was probed and ended with %s", code)
	}
	ready := keys{"history/condition/Ready=True ": "seen"}
	check.Equal(t, len(compare(keys{}, ready)), 1, "differences of a pod that was ready alone")
	const ended = "status/containerStatuses[main]/state/terminated/exitCode"
	ready[ended] = "0"
	check.Equal(t, len(compare(keys{ended: "0"}, ready)), 0, "differences of one whose container has ended")
}

// TestCaughtRunning: how a pod ended says nothing if one of its containers, made again and again, just ran on one node alone.
//
//tier:unit
func TestCaughtRunning(t *testing.T) {
	of := func(restarts, code, phase string) keys {
		return keys{
			"status/containerStatuses[main]/restartCount": restarts, "status/phase": phase, "end/phase": phase,
			"end/containerStatuses[main]/state/terminated/exitCode": code,
		}
	}
	for kept, troupe := range map[int]keys{
		1: of("some", "0", "Succeeded"), // the phase before the end
		3: of("some", "137", "Succeeded"),
		4: of("0", "0", "Succeeded"),
	} {
		check.Equal(t, len(compare(of("some", "143", "Failed"), troupe)), kept, "differences from %v", troupe)
	}
}

// TestSidecarsAreSeen: what comes after a sidecar starts when an agent has seen it run, so that none ends at once.
//
//tier:unit
func TestSidecarsAreSeen(t *testing.T) {
	ended := 0
	for seed := range uint64(300) {
		for _, c := range Draw(seed).Make().Pod.Spec.InitContainers {
			if c.RestartPolicy != nil && slices.Contains(c.Args, "exit") && !slices.Contains(c.Args, "trap") {
				ended++
				check.Has(t, strings.Join(c.Args, " "), "sleep 3s then", "the sidecar of %d", seed)
			}
		}
	}
	check.AtLeast(t, ended, 1, "sidecars that end")
}

// TestKept: what was kept of runs is compared again as it was.
//
//tier:unit
func TestKept(t *testing.T) {
	was := *dump
	*dump = t.TempDir()
	defer func() { *dump = was }()
	c := Case{Seed: 7, Features: []string{"labels"}}
	o := Observed{Case: c, Keys: []keys{{"status/phase": "Running", "gone": "true"}, {"status/phase": "Failed", "gone": "false"}}}
	again := Observed{Case: c, Keys: []keys{{"status/phase": "Running"}, {"status/phase": "Failed"}}}
	check.Fatal(t, errors.Join(save(verdict{[]Observed{o, again}}), save(verdict{[]Observed{{Case: Case{Seed: 8}, Keys: []keys{{}, {}}}}})))
	got := check.Value(load(*dump))(t)
	check.Equal(t, len(got), 2, "cases")
	check.Deep(t, got[0].runs, []Observed{o, again}, "the runs of the first")
	check.Deep(t, got[0].differ(), []Difference{{"status/phase", "Running", "Failed"}}, "what differs twice")
	check.None(t, got[1].differ(), "what differs in the other")
}

// TestKnown: each known difference has its line, and its patterns can be read.
//
//tier:unit
func TestKnown(t *testing.T) {
	docs := filepath.Join(check.Value(lab.Repository())(t), "docs")
	for _, k := range knowns {
		for _, pattern := range []string{k.class, k.kubelet, k.troupe} {
			check.Error(t, check.Err(regexp.Compile(pattern)))
		}
		found := false
		for line := range strings.Lines(string(check.Value(os.ReadFile(filepath.Join(docs, k.doc)))(t))) {
			found = found || strings.HasPrefix(line, "|") && strings.Contains(line, k.row)
		}
		check.Equal(t, found, true, "a line of docs/%s with %q", k.doc, k.row)
	}
}
