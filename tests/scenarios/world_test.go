package scenarios

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/troupe-dev/troupe/actors/decide/podcgroup"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/node"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/podview"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/agent"
	"github.com/troupe-dev/troupe/supervisor/sim/machine"
)

const nodeName = "n1"

var epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// world is one machine with its agent. All of it runs on the test's goroutine.
type world struct {
	t    testing.TB
	seed uint64
	v    *kernel.Virtual

	rt       *simcri.Runtime
	registry *simcri.Registry

	// The machine, apart from its runtime.
	host           *machine.Host
	cgroups        *machine.Cgroups
	manifests      *machine.Manifests
	checkpoints    *machine.Checkpoints
	facts          *machine.Facts
	containerFiles *machine.ContainerFiles
	// unmounts and kills count calls that took volumes or a cgroup from under a running
	// container, cgroupCalls all calls about cgroups.
	unmounts, kills, cgroupCalls int

	events     []port.Event
	keepEvents bool

	// The agent; nil system while it is dead.
	system *kernel.System
	agent  *agent.Agent
	// fatal is why the agent gave up, if it did.
	fatal   *kernel.CrashReport
	crashes int

	// fault says what goes wrong with a call of the runtime; nil is nothing.
	fault func(simcri.Call) simcri.Fault
	// files may be nil.
	files port.ContainerFiles
	// wrap is put around the runtime, if set.
	wrap func(port.Runtime) port.Runtime
	// around is called around each message of each actor, may be nil.
	around node.Around
	tracer *kernel.HashTracer
	// log gets what the agent logs; nil for nobody.
	log io.Writer

	watch *watcher
	// cluster is the apiserver, nil for none.
	cluster *cluster
	config  agent.Config
	limit   int // of mailboxes
}

// option changes the world before its agent starts.
type option func(*world, *simcri.Config)

func withEvents(p simcri.EventPolicy) option {
	return func(_ *world, c *simcri.Config) { c.Events = p }
}

func withLateEffects(p float64) option {
	return func(_ *world, c *simcri.Config) { c.LateEffect = p }
}

func withURL() option {
	return func(w *world, _ *simcri.Config) {
		w.config.ManifestURL, w.config.ManifestURLPeriod = "http://manifests.test/pods", 20*time.Second
	}
}

func withMailboxes(limit int) option {
	return func(w *world, _ *simcri.Config) { w.limit = limit }
}

// newWorld makes a machine whose agent is not started yet.
func newWorld(t testing.TB, seed uint64, options ...option) *world {
	t.Helper()
	w := &world{t: t, seed: seed, v: kernel.NewVirtual(seed, epoch), registry: simcri.NewRegistry(), keepEvents: true}
	w.tracer = kernel.NewHashTracer()
	w.watch = newWatcher(w)
	c := simcri.Config{
		Clock: w.v, Registry: w.registry, Bandwidth: 1 << 30,
		Rand: func(stream string) *rand.Rand {
			h := uint64(14695981039346656037)
			for i := range len(stream) {
				h = (h ^ uint64(stream[i])) * 1099511628211
			}
			return rand.New(rand.NewPCG(seed, h))
		},
		Fault: func(call simcri.Call) simcri.Fault {
			w.watch.called(call)
			if call.Method == simcri.RunPodSandbox && !w.cgroups.Has(call.Pod.UID) {
				w.failf("%s is made before the pod's cgroup", call.Object)
			}
			if w.cluster != nil {
				w.cluster.called(call)
			}
			if w.fault == nil {
				return simcri.Fault{}
			}
			return w.fault(call)
		},
	}
	w.config = defaults(nodeName)
	w.config.Cgroups = podcgroup.Settings{Capacity: w.config.Admit.Allocatable}
	w.setMachine(&port.Machine{
		Capacity: w.config.Admit.Allocatable, Allocatable: w.config.Admit.Allocatable,
		Addresses: []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "192.0.2.1"}, {Type: v1.NodeHostName, Address: nodeName}},
		Info:      v1.NodeSystemInfo{KernelVersion: "6.1", BootID: "1"},
	})
	for _, o := range options {
		o(w, &c)
	}
	var err error
	if w.rt, err = simcri.New(c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if w.agent != nil {
			w.kill()
		}
	})
	return w
}

// newNode makes a machine with a running agent.
func newNode(t testing.TB, seed uint64, options ...option) *world {
	t.Helper()
	w := newWorld(t, seed, options...)
	w.start()
	return w
}

// defaults are those of the daemon on a machine of two cores, with room for more pods
// than usual.
func defaults(name string) agent.Config {
	c := agent.Default(2)
	c.Name, c.HostIPs, c.RuntimeName = name, []string{"192.0.2.1"}, "simcri"
	c.Admit.Name, c.Admit.Arch, c.Admit.Labels = name, "amd64", map[string]string{v1.LabelHostname: nodeName}
	c.Admit.Allocatable = v1.ResourceList{
		v1.ResourceCPU: resource.MustParse("64"), v1.ResourceMemory: resource.MustParse("256Gi"), v1.ResourcePods: resource.MustParse("5000"),
	}
	c.ManifestPath = "/etc/manifests"
	return c
}

// start starts an agent.
func (w *world) start() {
	w.t.Helper()
	log := zerolog.Nop()
	if w.log != nil {
		log = zerolog.New(w.log)
	}
	var err error
	w.system, err = kernel.NewSystem(kernel.Config{
		Clock: w.v, Seed: w.seed, Tracer: w.tracer, MailboxLimit: w.limit, Log: log,
		OnCrash: func(r *kernel.CrashReport) {
			w.crashes++
			agent.Crashed(w.system, r)
		},
		OnFatal: func(r *kernel.CrashReport) { w.fatal = r },
	})
	if err != nil {
		w.t.Fatal(err)
	}
	c := w.config
	c.Ports = node.Ports{
		Runtime: w.runtime(), Host: w.host, Files: w.files, Network: w.rt.Network(), Manifests: w.manifests,
		Checkpoints: w.checkpoints, Events: recorder{w}, Cgroups: w.cgroups,
	}
	if w.cluster != nil {
		c.Ports.API, c.Ports.Facts, c.Ports.Events = w.cluster.api.Client(nodeName), w.facts, w.cluster.recorder()
	}
	c.Around = func(actor string, m any, handled bool) {
		if w.around != nil {
			w.around(actor, m, handled)
		}
	}
	c.Wrap = func(p *v1.Pod, construct func() kernel.Behavior[pod.Message]) func() kernel.Behavior[pod.Message] {
		return node.Wrapped(c.Around, "pod/"+plainName(p.Name), construct)
	}
	if w.agent, err = agent.Start(w.system, c); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) runtime() port.Runtime {
	if w.wrap == nil {
		return w.rt
	}
	return w.wrap(w.rt)
}

// kill ends the agent as kill -9 does.
func (w *world) kill() {
	w.agent.Kill()
	if w.cluster != nil {
		w.cluster.events.Close()
	}
	w.system, w.agent = nil, nil
	w.v.Settle()
}

func (w *world) restart() {
	w.kill()
	w.start()
}

// plainName is the name of a pod as its manifest has it.
func plainName(name string) string { return strings.TrimSuffix(name, "-"+nodeName) }

// step handles one message or, if there is none, lets the next timer fire, by
// end at the latest. It reports false if there is neither.
func (w *world) step(end time.Time) bool {
	if w.v.Step() {
		return true
	}
	asked := 0
	w.v.RunUntil(end, func() bool { asked++; return asked > 1 })
	if asked < 2 {
		return false
	}
	w.watch.look()
	return true
}

// run lets d pass.
func (w *world) run(d time.Duration) {
	end := w.v.Now().Add(d)
	for w.step(end) {
	}
	w.v.Advance(end.Sub(w.v.Now()))
}

// until runs until cond holds, and fails the test if it does not within limit.
// It gives the time that it took.
func (w *world) until(limit time.Duration, what string, cond func() bool) time.Duration {
	w.t.Helper()
	begin := w.v.Now()
	end := begin.Add(limit)
	for !cond() {
		if !w.step(end) {
			w.failf("%s: not within %v", what, limit)
		}
	}
	return w.v.Now().Sub(begin)
}

func (w *world) failf(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("seed %d, %v: %s\n%s", w.seed, w.v.Now().Sub(epoch), fmt.Sprintf(format, args...), w.dump())
}

// dump is what the node looks like, for the one who reads of a failure.
func (w *world) dump() string {
	var b strings.Builder
	for _, p := range w.rt.Truth().Runtime.Pods {
		fmt.Fprintf(&b, "runtime %s %s:", p.Ref.Name, short(string(p.Ref.UID)))
		for _, s := range p.Sandboxes {
			fmt.Fprintf(&b, " sandbox#%d %v", s.Attempt, s.State)
		}
		for _, c := range p.Containers {
			fmt.Fprintf(&b, " %s#%d %v", c.Name, c.Attempt, c.State)
		}
		b.WriteByte('\n')
	}
	if w.cluster != nil {
		b.WriteString(w.cluster.dump())
	}
	if w.system != nil {
		for _, a := range w.system.Snapshot("") {
			if a.Status == "Running" && a.Depth == 0 && len(a.Effects) == 0 && a.Crashes == 0 {
				continue
			}
			fmt.Fprintf(&b, "actor %s %s %s crashes=%d depth=%d", short(a.Path), a.Label, a.Status, a.Crashes, a.Depth)
			for _, e := range a.Effects {
				fmt.Fprintf(&b, " [%s %s %s since %v]", e.Kind, e.Object, e.Phase, e.Since.Sub(epoch))
			}
			if a.LastCrash != nil {
				fmt.Fprintf(&b, " last crash: %s", a.LastCrash.Reason)
				if !strings.Contains(a.LastCrash.Reason, planted) {
					b.WriteString("\n" + a.LastCrash.Stack)
				}
			}
			b.WriteByte('\n')
		}
		v := w.view()
		for _, p := range v.Pods {
			fmt.Fprintf(&b, "view %s %s %s %s %s %s %v", p.Name, short(string(p.UID)), p.Source, p.Life, p.Phase, p.Problem, p.Doing)
			for _, c := range p.Containers {
				fmt.Fprintf(&b, " %s=%s/%s#%d", c.Name, c.State, c.Reason, c.Restarts)
			}
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "ready=%v waiting=%v problems=%v\n", v.Ready, v.WaitingFor, v.Problems)
	}
	return b.String()
}

// planted is in the reason of every panic that a test makes.
const planted = "planted"

func short(s string) string {
	if len(s) > 40 {
		return s[:20] + "…"
	}
	return s
}

// view asks the podview actor, and lets waiting messages be handled for that.
func (w *world) view() podview.View {
	w.t.Helper()
	var v podview.View
	answered := false
	w.agent.Look(podview.Query{Reply: func(got podview.View) { v, answered = got, true }})
	for range 100 {
		w.v.Settle()
		if answered {
			return v
		}
		if !w.step(w.v.Now().Add(10 * time.Second)) {
			break
		}
	}
	return v
}

// found is what who serves requests about a pod is told of it.
func (w *world) found(name string) (out []*v1.Pod) {
	w.t.Helper()
	answered := false
	full := ""
	if name != "" {
		full = w.pod(name).Name
	}
	w.agent.Look(podview.Find{
		Namespace: "default", Name: full, Reply: func(got []*v1.Pod) { out, answered = got, true },
	})
	w.v.Settle()
	if !answered {
		w.t.Fatal("the podview actor does not answer")
	}
	return out
}

// pod is the view of one pod; a zero one if it is not there.
func (w *world) pod(name string) podview.Pod {
	w.t.Helper()
	for _, p := range w.view().Pods {
		if plainName(p.Name) == name {
			return p
		}
	}
	return podview.Pod{}
}
