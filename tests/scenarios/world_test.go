package scenarios

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/node"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/podview"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/agent"
	"github.com/troupe-dev/troupe/supervisor/invariants"
	"github.com/troupe-dev/troupe/supervisor/sim"
	"github.com/troupe-dev/troupe/supervisor/sim/machine"
	"github.com/troupe-dev/troupe/tests/check"
)

const nodeName = "n1"

var epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// world is a simulated machine with its agent, and what a scenario holds against
// it. All of it runs on the test's goroutine.
type world struct {
	t    testing.TB
	seed uint64
	sim  *sim.World
	node *sim.Node
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
	// cgroupCalls counts the calls about cgroups.
	cgroupCalls int

	events     []port.Event
	keepEvents bool

	system *kernel.System
	// fatal is why the agent gave up, if it did.
	fatal   *kernel.CrashReport
	crashes int

	// fault says what goes wrong with a call of the runtime; nil is nothing.
	fault func(simcri.Call) simcri.Fault
	// wrap is put around the runtime, if set.
	wrap func(port.Runtime) port.Runtime
	// around is called around each message of each actor, may be nil.
	around node.Around

	// rules holds what must always be so against everything that happens.
	rules      *invariants.Node
	violations []invariants.Violation
	watch      *watcher
	// cluster is the apiserver, nil for none.
	cluster *cluster
	// configure are changes of the agent's configuration.
	configure []func(*agent.Config)
}

// option changes the world before its agent starts.
type option func(*setting)

// setting is what a world is made of.
type setting struct {
	w    *world
	sim  sim.Config
	spec sim.NodeSpec
}

func withEvents(p simcri.EventPolicy) option { return func(s *setting) { s.spec.Events = p } }

func withLateEffects(p float64) option { return func(s *setting) { s.spec.LateEffect = p } }

func withMailboxes(limit int) option { return func(s *setting) { s.sim.MailboxLimit = limit } }

func withLog(to io.Writer) option { return func(s *setting) { s.sim.Log = zerolog.New(to) } }

func withConfig(change func(*agent.Config)) option {
	return func(s *setting) { s.w.configure = append(s.w.configure, change) }
}

func withURL() option {
	return withConfig(func(c *agent.Config) {
		c.Sources.URL, c.Sources.URLPeriod = "http://manifests.test/pods", 20*time.Second
	})
}

// newWorld makes a machine whose agent is not started yet.
func newWorld(t testing.TB, seed uint64, options ...option) *world {
	t.Helper()
	w := &world{t: t, seed: seed, registry: simcri.NewRegistry(), keepEvents: true}
	w.watch = newWatcher(w)
	s := &setting{w: w, sim: sim.Config{
		Seed: seed, Start: epoch, Bare: true, Services: true, Registry: w.registry, History: 16,
		Hooks: sim.Hooks{
			Runtime: func(_ string, call simcri.Call) simcri.Fault { return w.called(call) },
			Transition: func(_ string, t simcri.Transition) {
				w.rules.Changed(t)
				w.watch.changed(t)
			},
			Crashed: func(r *kernel.CrashReport) {
				w.crashes++
				if r.Decision != kernel.Contained {
					w.rules.Crashed(r.RetryAfter)
				}
			},
			GaveUp: func(_ string, r *kernel.CrashReport) { w.fatal = r },
			Violated: func(v *kernel.Violation) {
				w.violations = append(w.violations, invariants.Violation{ID: "I49", At: w.v.Now(), What: v.String()})
			},
		},
	}, spec: sim.NodeSpec{
		Name: nodeName, Allocatable: roomy, Bandwidth: 1 << 30, Manifests: true, Cgroups: true, Standalone: true, Stopped: true,
		Configure: w.configured,
	}}
	for _, o := range options {
		o(s)
	}
	w.sim = check.Value(sim.New(s.sim))(t)
	w.v, w.system = w.sim.Clock(), w.sim.System()
	w.rules = invariants.New(w.v.Now, func(v invariants.Violation) { w.violations = append(w.violations, v) })
	if w.cluster != nil {
		w.cluster.begin()
	}
	w.node = check.Value(w.sim.AddNode(s.spec))(t)
	w.setMachine()
	t.Cleanup(func() {
		if len(w.violations) > 0 && !t.Failed() { // after the last step
			t.Errorf("seed %d: %s", w.seed, w.violations[0])
		}
		if w.node.Running() {
			w.kill()
		}
	})
	return w
}

// parallelNode is newNode for a test that runs beside others.
func parallelNode(t *testing.T, seed uint64, options ...option) *world {
	t.Parallel()
	return newNode(t, seed, options...)
}

// newNode makes a machine with a running agent.
func newNode(t testing.TB, seed uint64, options ...option) *world {
	t.Helper()
	w := newWorld(t, seed, options...)
	w.start()
	return w
}

// roomy is room for more pods than usual.
var roomy = v1.ResourceList{
	v1.ResourceCPU: resource.MustParse("64"), v1.ResourceMemory: resource.MustParse("256Gi"), v1.ResourcePods: resource.MustParse("5000"),
}

// called sees each call of the runtime, and says what goes wrong with it.
func (w *world) called(call simcri.Call) simcri.Fault {
	if call.Method == simcri.RunPodSandbox && !w.cgroups.Has(call.Pod.UID) {
		w.failf("%s is made before the pod's cgroup", call.Object)
	}
	var f simcri.Fault
	if w.fault != nil {
		f = w.fault(call)
	}
	w.rules.Called(call, f)
	return f
}

// configured changes the simulated agent's configuration to the scenario's.
func (w *world) configured(c *agent.Config) {
	c.Starts = agent.StartSlots(2)
	if w.wrap != nil {
		c.Ports.Runtime = w.wrap(c.Ports.Runtime)
	}
	c.Ports.Events = recorder{w}
	if w.cluster != nil {
		c.Ports.Events = w.cluster.recorder()
	}
	w.rules.Began()
	c.Around = func(actor string, m any, handled bool) {
		if handled {
			w.rules.Handled(m)
		}
		if w.around != nil {
			w.around(actor, m, handled)
		}
	}
	c.Wrap = func(p *v1.Pod, construct func() kernel.Behavior[pod.Message]) func() kernel.Behavior[pod.Message] {
		return node.Wrapped(c.Around, "pod/"+plainName(p.Name), construct)
	}
	for _, change := range w.configure {
		change(c)
	}
}

// start starts an agent.
func (w *world) start() {
	w.t.Helper()
	w.node.StartAgent()
}

// look asks the actor that people look at.
func (w *world) look(m podview.Message) { w.node.Agent().Look(m) }

// kill ends the agent as kill -9 does.
func (w *world) kill() {
	w.node.KillAgent()
	if w.cluster != nil {
		w.cluster.events.Close()
	}
	w.v.Settle()
}

func (w *world) restart() {
	w.kill()
	w.start()
}

// killFor lets d pass until another agent starts.
func (w *world) killFor(d time.Duration) {
	w.kill()
	w.run(d)
	w.start()
}

// plainName is the name of a pod as its manifest has it.
func plainName(name string) string { return strings.TrimSuffix(name, "-"+nodeName) }

// step handles one message or, if there is none, lets the next timer fire, by
// end at the latest. It reports false if there is neither.
func (w *world) step(end time.Time) bool {
	if len(w.violations) > 0 {
		w.failf("%s", w.violations[0])
	}
	if w.v.Step() {
		return true
	}
	asked := 0
	w.v.RunUntil(end, func() bool { asked++; return asked > 1 })
	return asked > 1
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
	if w.node.Running() {
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
	w.look(podview.Query{Reply: func(got podview.View) { v, answered = got, true }})
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
	w.look(podview.Find{
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
