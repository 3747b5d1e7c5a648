package cluster

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/supervisor/admin"
	"github.com/troupe-dev/troupe/supervisor/chaos/live/criproxy"
	"github.com/troupe-dev/troupe/supervisor/timeline"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// held are the calls of the runtime that hang, those of one node in a line: no two of them need a slot of
// the same pool, so that a slot is left for others on the smallest machine.
var held = [][]string{
	{"RunPodSandbox", "StopPodSandbox", "PullImage"},
	{"CreateContainer", "RemovePodSandbox", "ExecSync"},
	{"StartContainer", "StopContainer", "ImageStatus"},
	{"RemoveContainer", "PodSandboxStatus", "ContainerStatus"},
}

// visitors is how many pods come and go meanwhile, one after the other.
const visitors = 20

// TestOthersDoNotWait: one call of the runtime hangs for one pod. Others start and end meanwhile, and none of
// their calls waits for a slot, or for something that is done for a pod that is not theirs.
func TestOthersDoNotWait(t *testing.T) {
	t.Parallel()
	plane(t)
	for i, methods := range held {
		t.Run(strings.Join(methods, "+"), func(t *testing.T) {
			t.Parallel()
			testOthersDoNotWait(t, newBed(t, fmt.Sprint("isolation-", i), onServed), methods)
		})
	}
}

func testOthersDoNotWait(t *testing.T, b *bed, methods []string) {
	proxy, err := criproxy.Start(criproxy.Config{
		Socket: filepath.Join(b.Root(), "proxy.sock"), Target: strings.TrimPrefix(b.runtime.Endpoint(), "unix://"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := proxy.Close(); err != nil {
			t.Error(err)
		}
	})
	b.SetEndpoint(proxy.Endpoint())
	b.start(t)
	b.awaitNode(t, "is ready for pods", usable)
	rules := map[string]*criproxy.Rule{}
	for _, m := range methods {
		rules[m] = b.hold(t, proxy, m)
	}
	hangs := func() error {
		for m, r := range rules {
			if r.Waiting() != 1 {
				return fmt.Errorf("%d calls of %s hang", r.Waiting(), m)
			}
		}
		return nil
	}
	b.await(t, "a call of each method hangs", hangs)
	var uids []string
	begun := time.Now()
	for i := range visitors {
		uids = append(uids, b.comesAndGoes(t, fmt.Sprint("other-", i)))
	}
	t.Logf("%d pods came and went in %v", visitors, time.Since(begun).Round(time.Millisecond))
	if err := hangs(); err != nil {
		t.Errorf("the others were not beside calls that hang: %v", err)
	}
	calls := 0
	for _, uid := range uids {
		calls += b.wantNoWait(t, uid)
	}
	t.Logf("none of %d calls waited", calls)
	proxy.Release()
}

// hold makes one call of a method hang, for a pod of its own.
func (b *bed) hold(t *testing.T, proxy *criproxy.Proxy, method string) *criproxy.Rule {
	t.Helper()
	name := strings.ToLower(method)
	image := "troupe.local/demo/work:" + b.name + "-" + name
	b.push(t, image, "work")
	match := criproxy.OfPod(name)
	if strings.Contains(method, "Image") {
		match = criproxy.OfImage(image)
	}
	ends := slices.Contains([]string{"StopContainer", "StopPodSandbox", "RemoveContainer", "RemovePodSandbox"}, method)
	fault := criproxy.Fault{Method: method, Match: match, Do: criproxy.Hold, Times: 1}
	pod := b.visitor(name, image)
	if ends {
		b.create(t, pod)
		b.awaitPod(t, name, "is ready", ready)
	}
	rule, err := proxy.Inject(fault)
	if err != nil {
		t.Fatal(err)
	}
	if ends {
		b.remove(t, name)
	} else {
		b.create(t, pod)
	}
	return rule
}

// visitor is a pod whose image is looked up and pulled, and whose readiness is asked for by a command.
func (b *bed) visitor(name, image string) *v1.Pod {
	return b.pod(name, func(s *v1.PodSpec) {
		s.NodeName, s.NodeSelector, s.TerminationGracePeriodSeconds = b.name, nil, new(int64(1))
		s.InitContainers = []v1.Container{{
			Name: "first", Image: image, Args: []string{"print", "first"}, ImagePullPolicy: v1.PullIfNotPresent,
		}}
		c := &s.Containers[0]
		c.Image, c.Args, c.ImagePullPolicy = image, []string{"sleep"}, v1.PullAlways
		c.ReadinessProbe = &v1.Probe{PeriodSeconds: 1, ProbeHandler: v1.ProbeHandler{
			Exec: &v1.ExecAction{Command: []string{"/work", "print", "ready"}},
		}}
	})
}

// comesAndGoes starts a pod, ends it, and returns its UID.
func (b *bed) comesAndGoes(t *testing.T, name string) string {
	t.Helper()
	p := b.create(t, b.visitor(name, lab.WorkImage))
	b.awaitPod(t, name, "is ready", ready)
	b.remove(t, name)
	b.awaitGone(t, name)
	return string(p.UID)
}

// wantNoWait fails the test if a call for a pod waited, by what the agent's timeline has of it. It returns how many
// calls there are.
func (b *bed) wantNoWait(t *testing.T, uid string) (calls int) {
	t.Helper()
	line, err := admin.Client{Socket: admin.SocketIn(b.Root())}.Timeline(t.Context(), uid)
	if err != nil {
		t.Fatal(err)
	}
	if line.Dropped > 0 {
		t.Errorf("the timeline of pod %s lacks %d entries", line.Name, line.Dropped)
	}
	seen := map[string]bool{}
	for _, e := range line.Entries {
		if e.Kind != timeline.Call.String() {
			continue
		}
		calls++
		seen[e.What] = true
		// A pod's own calls wait for each other.
		if e.WaitedFor != "" && (e.WaitedFor != kernel.WaitedForLane || e.By != "") {
			t.Errorf("pod %s: %s %s of %s waited %v for %s", line.Name, e.What, e.Object, e.By, e.Waited, e.WaitedFor)
		}
	}
	for _, what := range []string{"PullImage", "RunPodSandbox", "StartContainer", "ExecSync", "StopPodSandbox"} {
		if !seen[what] {
			t.Errorf("the timeline of pod %s has no %s: %v", line.Name, what, seen)
		}
	}
	return calls
}
