package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/apiclient/simapi"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/sim/controlplane"
	"github.com/troupe-dev/troupe/supervisor/sim/machine"
	"github.com/troupe-dev/troupe/tests/check"
)

func newWorld(t testing.TB, nodes int, change ...func(*Config)) *World {
	t.Helper()
	c := Config{Seed: 1}
	for _, f := range change {
		f(&c)
	}
	w := check.Value(New(c))(t)
	check.Value(w.AddNodes(nodes, NodeSpec{}))(t)
	w.Advance(5 * time.Second)
	return w
}

func (w *World) deploy(t testing.TB, name string, replicas int, annotations ...string) {
	t.Helper()
	notes := map[string]string{}
	for i := 0; i < len(annotations); i += 2 {
		notes[simcri.AnnotationPrefix+annotations[i]] = annotations[i+1]
	}
	check.Fatal(t, w.ControlPlane().Apply(controlplane.Workload{Name: name, Replicas: replicas, Template: v1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Annotations: notes},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: name, Image: "registry.test/" + name + ":1"}}},
	}}))
}

func (w *World) until(t testing.TB, limit time.Duration, what string, cond func() bool) {
	t.Helper()
	if !w.RunUntil(limit, cond) {
		t.Fatalf("at %v: not %s within %v: %+v", w.Elapsed(), what, limit, w.Metrics())
	}
}

func (w *World) untilReady(t testing.TB, n int) {
	t.Helper()
	w.until(t, 5*time.Minute, fmt.Sprint(n, " pods are ready"), func() bool { return w.Ready() == n })
}

// life is ten minutes of a cluster in which pods come, go and crash, agents are
// killed, and calls fail.
func life(t testing.TB, seed uint64, nodes, pods int, length time.Duration) uint64 {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	w := newWorld(t, nodes, func(c *Config) {
		c.Seed = seed
		c.Hooks.Runtime = func(string, simcri.Call) simcri.Fault {
			if rng.IntN(200) == 0 {
				return simcri.Fault{Fail: true, Kind: port.Unavailable, Detail: "planted"}
			}
			return simcri.Fault{}
		}
		c.Hooks.API = func(simapi.Call) simapi.Fault {
			if rng.IntN(200) == 0 {
				return simapi.Fault{LoseReply: true}
			}
			return simapi.Fault{}
		}
		c.Hooks.Around = func(_, _ string, _ any, _ bool) {
			if rng.IntN(20000) == 0 {
				panic("planted")
			}
		}
	})
	w.deploy(t, "web", pods/2)
	w.deploy(t, "crash", pods/4, "run-for", "5s..60s", "crash-loop", "true")
	w.deploy(t, "job", pods-pods/2-pods/4, "start-latency", "10ms..2s", "term-delay", "10ms~3s")
	for end := w.Elapsed() + length; w.Elapsed() < end; w.Advance(time.Duration(rng.IntN(20000)) * time.Millisecond) {
		all := w.Nodes()
		n := all[rng.IntN(len(all))]
		switch rng.IntN(6) {
		case 0:
			n.RestartAgent()
		case 1:
			n.Runtime().Kill()
			w.clock.AfterFunc(time.Second, n.Runtime().Restart)
		default:
			list := check.Value(simapi.Objects[*v1.Pod](w.API(), simapi.Select{Kind: port.PodKind}))(t)
			if len(list) > 0 {
				p := list[rng.IntN(len(list))]
				check.Fatal(t,
					w.API().Delete(port.APIDelete{Key: port.APIKey{Kind: port.PodKind, Namespace: p.Namespace, Name: p.Name}}))
			}
		}
	}
	return w.TraceHash()
}

// The same seed gives the same run, on however many processors, and others give others.
func TestDeterminism(t *testing.T) {
	seeds := uint64(4)
	if testing.Short() {
		seeds = 2
	}
	seen := map[uint64]uint64{}
	for seed := range seeds {
		var first uint64
		for i, procs := range []int{1, 2, 8} {
			before := runtime.GOMAXPROCS(procs)
			hash := life(t, seed, 4, 20, 3*time.Minute)
			runtime.GOMAXPROCS(before)
			if i == 0 {
				first = hash
			}
			check.Fatal(t, check.Is(hash, first, "seed %d: hash %x on %d processors, %x on one", seed, hash, procs, first))
		}
		if other, taken := seen[first]; taken {
			t.Errorf("seeds %d and %d give one hash", other, seed)
		}
		seen[first] = seed
	}
}

// A draw more in one stream does not shift another.
func TestStreams(t *testing.T) {
	w := newWorld(t, 0)
	a, b := w.Rand("a"), w.Rand("b")
	b.Uint64()
	again := w.Rand("a")
	for range 5 {
		check.Fatal(t, check.Is(a.Uint64(), again.Uint64(), "a stream is not its own"))
	}
	if w.Rand("a").Uint64() == w.Rand("b").Uint64() {
		t.Error("two streams are one")
	}
}

func TestKilledAgentRestartsNothing(t *testing.T) {
	w := newWorld(t, 3)
	w.deploy(t, "web", 60)
	w.untilReady(t, 60)
	w.Advance(time.Minute)
	dips := 0
	for _, n := range w.Nodes() {
		n.RestartAgent()
		n.RestartAgent() // while it starts
	}
	w.until(t, time.Minute, "all agents run", func() bool {
		if w.Ready() < 60 {
			dips++
		}
		return w.Node("n00000").Runner() != nil && w.Node("n00001").Runner() != nil && w.Node("n00002").Runner() != nil
	})
	w.RunUntil(2*time.Minute, func() bool {
		if w.Ready() < 60 {
			dips++
		}
		return false
	})
	if m := w.Metrics(); dips > 0 || m.Restarts > 0 || m.PodsReady != 60 {
		t.Errorf("%d moments with too few ready, %+v", dips, m)
	}
	for _, n := range w.Nodes() {
		for _, p := range n.Runtime().Truth().Runtime.Pods {
			if len(p.Sandboxes) != 1 || len(p.Containers) != 1 {
				t.Errorf("pod %s has %d sandboxes and %d containers", p.Ref, len(p.Sandboxes), len(p.Containers))
			}
		}
	}
}

func TestPowerOffAndOn(t *testing.T) {
	w := newWorld(t, 2, func(c *Config) { c.NodeGrace = time.Hour })
	w.deploy(t, "web", 20)
	w.untilReady(t, 20)
	n := w.Node("n00000")
	n.PowerOff()
	n.PowerOff()
	if n.On() || n.Running() {
		t.Error("it runs")
	}
	for _, p := range n.Runtime().Truth().Runtime.Pods {
		if p.Containers[0].State != observed.ContainerExited || p.Sandboxes[0].State != observed.SandboxNotReady {
			t.Fatalf("%+v lives on", p)
		}
	}
	n.StartAgent() // not on a machine that is off
	w.Advance(time.Minute)
	n.PowerOn()
	n.PowerOn()
	w.until(t, 2*time.Minute, "the pods are ready again", func() bool { return w.Ready() == 20 && w.Metrics().Restarts == 10 })
	w.Advance(2 * time.Minute)
	if node, err := simapi.Object[*v1.Node](w.API(), "", "n00000"); err != nil || node.Status.NodeInfo.BootID == "1" {
		t.Errorf("the node does not show that it was booted again: %v %+v", err, node.Status.NodeInfo)
	}
}

func TestRemoveNode(t *testing.T) {
	w := newWorld(t, 3)
	w.deploy(t, "web", 30)
	w.untilReady(t, 30)
	w.Node("n00002").Remove()
	if w.Node("n00002") != nil || len(w.Nodes()) != 2 {
		t.Error("it is still there")
	}
	w.until(t, time.Minute, "its pods are gone", func() bool { return w.Ready() < 30 })
	w.untilReady(t, 30)
	if _, err := w.AddNode(NodeSpec{Name: "n00002"}); err != nil {
		t.Error(err)
	}
	w.Advance(10 * time.Second)
	if _, err := simapi.Object[*v1.Node](w.API(), "", "n00002"); err != nil {
		t.Error(err)
	}
	if m := w.Metrics(); m.Nodes != 3 {
		t.Errorf("%+v", m)
	}
}

// An agent that gives up is started again, and its pods know nothing of it.
func TestFatalAgent(t *testing.T) {
	var w *World
	panics := true
	w = newWorld(t, 1, func(c *Config) {
		c.Hooks.Around = func(_, actor string, _ any, handled bool) {
			if w != nil && panics && actor == "pleg" && !handled {
				panic("planted")
			}
		}
	})
	w.deploy(t, "web", 5)
	before := w.Node("n00000").Runner()
	w.until(t, time.Hour, "the agent was started again", func() bool {
		now := w.Node("n00000").Runner()
		return now != nil && now != before
	})
	panics = false
	w.untilReady(t, 5)
	if m := w.Metrics(); m.Crashes == 0 || m.Restarts > 0 {
		t.Errorf("%+v", m)
	}
}

func TestHooks(t *testing.T) {
	calls := map[string]int{}
	w := newWorld(t, 1, func(c *Config) {
		c.Hooks.Runtime = func(node string, c simcri.Call) simcri.Fault {
			if calls[node+" "+c.Method.String()]++; c.Method == simcri.StartContainer && calls[node+" "+c.Method.String()] == 1 {
				return simcri.Fault{Fail: true, Detail: "planted"}
			}
			return simcri.Fault{}
		}
		c.Hooks.API = func(c simapi.Call) simapi.Fault {
			calls[c.Node+" "+c.Verb.String()]++
			return simapi.Fault{}
		}
		c.Hooks.Host = func(node string, c HostCall) HostFault {
			if calls[node+" "+c.Verb]++; c.Verb == "PreparePod" && calls[node+" "+c.Verb] < 3 {
				return HostFault{Err: errors.New("planted"), Latency: time.Second}
			}
			return HostFault{}
		}
		c.Hooks.Around = func(node, actor string, _ any, _ bool) {
			if len(actor) > 30 {
				actor = "<uid>"
			}
			calls[node+" "+actor]++
		}
	})
	tl := w.Follow("default", "web")
	if w.Follow("default", "web") != tl {
		t.Error("two timelines of one pod")
	}
	check.Value(w.API().Create(&v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "app", Image: "registry.test/app:1"}}},
	}))(t)
	w.untilReady(t, 1)
	for _, want := range []string{"n00000 StartContainer", "n00000 Patch", "n00000 PreparePod", "n00000 pods", "n00000 status", "n00000 <uid>"} {
		if calls[want] == 0 {
			t.Errorf("no hook for %s", want)
		}
	}
	if calls["n00000 StartContainer"] < 2 || calls["n00000 PreparePod"] < 3 {
		t.Errorf("faults had no effect: %v", calls)
	}
	var text []string
	for _, m := range tl.Moments {
		text = append(text, m.String())
	}
	for _, want := range []string{"FailedMount planted", "Failed Error: planted", "Started Container started", "Status phase=Running"} {
		if !strings.Contains(strings.Join(text, "\n"), want) {
			t.Errorf("the timeline lacks %q:\n%s", want, strings.Join(text, "\n"))
		}
	}
}

// TestPullsAsTheDaemon: a node pulls as many images at once as the daemon does by
// default (maxParallelImagePulls is not set), and a pull that hangs does not keep its
// place from another for ever.
func TestPullsAsTheDaemon(t *testing.T) {
	begun := 0
	w := newWorld(t, 1, func(c *Config) {
		c.Hooks.Runtime = func(_ string, call simcri.Call) simcri.Fault {
			if call.Method == simcri.PullImage {
				begun++
				return simcri.Fault{Hang: true}
			}
			return simcri.Fault{}
		}
	})
	for i := range 8 {
		w.deploy(t, fmt.Sprint("w", i), 1)
	}
	w.Advance(time.Minute)
	check.Equal(t, begun, 5, "%d images are pulled at once", begun)
	w.Advance(15 * time.Minute)
	check.Equal(t, begun, 8, "after a quarter of an hour %d pulls were begun", begun)
}

func TestManifests(t *testing.T) {
	w := newWorld(t, 0)
	n := check.Value(w.AddNode(NodeSpec{Name: "edge", Manifests: true}))(t)
	w.Advance(5 * time.Second)
	n.WriteManifest("web.yaml", []byte("apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: app, image: registry.test/app:1}]}\n"))
	w.untilReady(t, 1) // its mirror
	n.RestartAgent()
	w.Advance(time.Minute)
	if w.Ready() != 1 || w.Metrics().Restarts > 0 {
		t.Errorf("%+v", w.Metrics())
	}
	n.WriteManifest("web.yaml", nil)
	w.until(t, time.Minute, "the pod is gone", func() bool { return w.Pods().Len() == 0 })
}

// What a pod does that nobody touches costs nothing: no timers, no messages.
func TestIdlePodsAreFree(t *testing.T) {
	idle := func(pods int) (timers int, messages uint64) {
		w := newWorld(t, 2)
		w.deploy(t, "web", pods)
		w.untilReady(t, pods)
		w.Advance(10 * time.Minute)
		before := w.Messages()
		w.Advance(10 * time.Minute)
		return w.clock.Timers(), w.Messages() - before
	}
	fewTimers, few := idle(2)
	manyTimers, many := idle(200)
	if manyTimers > fewTimers+4 || many > few+few/10 {
		t.Errorf("2 pods: %d timers and %d messages; 200 pods: %d and %d", fewTimers, few, manyTimers, many)
	}
}

func TestValidate(t *testing.T) {
	for _, tc := range []struct {
		config Config
		spec   NodeSpec
		want   string
	}{
		{Config{History: -1}, NodeSpec{}, "Config.History is -1: it can't be negative"},
		{Config{RestartDelay: -1}, NodeSpec{}, "Config.RestartDelay is -1"},
		{Config{API: simapi.Config{WatchSkip: 2}}, NodeSpec{}, "WatchSkip 2: want a chance"},
		{Config{API: simapi.Config{Fault: func(simapi.Call) simapi.Fault { return simapi.Fault{} }}}, NodeSpec{}, "faults come from Hooks.API"},
		{Config{}, NodeSpec{Name: "Node 1"}, `node name "Node 1"`},
		{Config{}, NodeSpec{Starts: -1}, "Starts is -1"},
		{Config{}, NodeSpec{CSI: map[string]machine.CSIDriver{"Disks": {}}}, `CSI driver "Disks"`},
		{Config{}, NodeSpec{LateEffect: 2}, "LateEffect 2"},
	} {
		w, err := New(tc.config)
		if err == nil {
			_, err = w.AddNode(tc.spec)
		}
		check.Says(t, err, tc.want, "%+v", tc)
	}
	w := newWorld(t, 1)
	check.Fails(t, check.Err(w.AddNode(NodeSpec{Name: "n00000"})), "two nodes have one name")
}

// What can't be added or deployed is refused, and nothing of it is there.
func TestRefused(t *testing.T) {
	w := newWorld(t, 1)
	bare := newWorld(t, 0, func(c *Config) { c.Bare = true })
	added, err := w.AddNodes(-3, NodeSpec{})
	for want, err := range map[string]error{
		"sim: add -3 nodes: can't be negative":               err,
		"sim: deploy web: no image is given":                 w.Deploy("web", 3, ""),
		"sim: deploy web: a bare world has no control plane": bare.Deploy("web", 3, "web:v1"),
	} {
		if err == nil || err.Error() != want {
			t.Errorf("got %v; want %s", err, want)
		}
	}
	if w.Advance(time.Minute); len(added) != 0 || len(w.Nodes()) != 1 || w.Pods().Len() != 0 {
		t.Errorf("%d nodes, %d pods", len(w.Nodes()), w.Pods().Len())
	}
}
