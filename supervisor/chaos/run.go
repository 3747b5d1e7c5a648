package chaos

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/node"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/pods"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/apiclient/simapi"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/agent"
	"github.com/troupe-dev/troupe/supervisor/chaos/plan"
	"github.com/troupe-dev/troupe/supervisor/invariants"
	"github.com/troupe-dev/troupe/supervisor/sim"
)

// Option changes how a case is run.
type Option func(*runner)

// WithPoints keeps where faults could strike.
func WithPoints() Option { return func(r *runner) { r.record = true } }

// WithoutRules holds no rule against the run but those about its end, to measure what the
// rules cost.
func WithoutRules() Option { return func(r *runner) { r.bare = true } }

// WithVersions tells seen of each version of each pod in the API, with the name of its role.
func WithVersions(seen func(role string, p *v1.Pod)) Option {
	return func(r *runner) { r.versions = seen }
}

// runner runs one case.
type runner struct {
	c            *plan.Case
	record, bare bool
	versions     func(string, *v1.Pod)

	world *sim.World
	node  *sim.Node
	v     *kernel.Virtual
	rules *invariants.Node
	inj   *injector
	*story
	out *Result

	// Asked for by hooks, which can't do it themselves.
	killed, downed bool
	// dirty: something happened that an operation or the end may wait for.
	dirty bool
	// next is the operation that is waited for.
	next int
	// within is what an actor is about to do to itself, by actor.
	within map[string]*plan.Effect
}

// Run runs a case to its end: until all is well and stays so, or a rule is broken.
func Run(c *plan.Case, options ...Option) *Result {
	r := &runner{c: c, within: map[string]*plan.Effect{}}
	for _, o := range options {
		o(r)
	}
	r.out = &Result{Case: c, Ready: map[string]time.Duration{}}
	r.inj = newInjector(c, r.record)
	r.inj.killAgent = func() { r.killed, r.dirty = true, true }
	r.inj.killRuntime = func() { r.downed, r.dirty = true, true }
	r.build()
	r.live()
	r.node.KillAgent()
	r.v.Settle()
	r.out.Hash, r.out.Messages, r.out.Simulated = r.world.TraceHash(), r.world.Messages(), r.world.Elapsed()
	r.out.Points, r.out.Reached = r.inj.points, r.inj.reached()
	for name, c := range r.pods { // order-free: a map of the same
		if c.first > 0 {
			r.out.Ready[name] = c.first
		}
	}
	if len(r.out.Violations) == 0 {
		r.out.Unreached = r.inj.unreached()
		for i := r.next; i < len(c.Ops); i++ {
			r.out.Unreached = append(r.out.Unreached, c.Ops[i].String())
		}
	}
	return r.out
}

// build makes the world. What can't be is a fault of this package: the case was validated.
func (r *runner) build() {
	config := sim.Config{
		Seed: r.c.Seed, Bare: true, RestartDelay: restartDelay,
		Hooks: sim.Hooks{
			Runtime: r.called, Transition: r.changed, Host: r.hosted, API: r.asked,
			Event:   func(_ string, e port.RuntimeEvent) simcri.EventFate { return r.inj.event(e) },
			Crashed: func(*kernel.CrashReport) { r.out.Crashes++ },
		},
	}
	if r.inj.watches(plan.Send) {
		config.Hooks.Message = func(_, _, to string, m any) kernel.Fate {
			f := r.inj.sent(r.actor(to), m)
			r.rules.Stands(f.Delay)
			return f
		}
	}
	if r.inj.watches(plan.Message) {
		config.Hooks.Within = func(_, actor string, _ any, k int) { r.inj.inside(r.actor(actor), k, r.within) }
	}
	var err error
	if r.world, err = sim.New(config); err != nil {
		panic(err)
	}
	r.v = r.world.Clock()
	r.story = newStory(r.c.Standalone)
	r.rules = invariants.New(r.v.Now, r.violated)
	r.node, err = r.world.AddNode(sim.NodeSpec{
		Name: nodeName, Manifests: true, Cgroups: true, Standalone: r.c.Standalone, Stopped: true,
		Events: simcri.EventPolicy{Off: r.c.NoEvents}, Configure: r.configure,
	})
	if err != nil {
		panic(err)
	}
	m := r.node.Machine()
	m.Host.Observe, m.Cgroups.Observe = r.done, r.done
	if !r.c.Standalone {
		if _, err = r.world.API().Watch(simapi.WatchOptions{Select: simapi.Select{Kind: port.PodKind}}, r.shown); err != nil {
			panic(err)
		}
	}
	r.node.StartAgent()
}

// actor is what cases call an actor: its name, or pod/ and the name of its pod.
func (r *runner) actor(path string) string {
	last := path[strings.LastIndexByte(path, '/')+1:]
	if name := r.nameOf(types.UID(last)); name != "" {
		return "pod/" + name
	}
	return last
}

func (r *runner) done(c sim.HostCall) {
	if !r.bare {
		r.rules.Done(c)
	}
	r.dirty = true
}

func (r *runner) violated(v invariants.Violation) {
	r.out.Violations = append(r.out.Violations, v)
	r.dirty = true
}

// configure is before each start of the agent.
func (r *runner) configure(c *agent.Config) {
	clear(r.within)
	r.rules.Began()
	c.PullDeadline = pullDeadline
	c.Around = func(actor string, m any, handled bool) {
		if handled {
			r.rules.Handled(m)
			switch m := m.(type) {
			case pods.Wanted:
				for _, p := range m.Pods {
					r.names[p.UID] = roleOf(p.Name, "").Pod
				}
			case pods.Reported:
				r.reported(m)
			}
		}
		r.inj.message(actor, m, handled, r.within)
	}
	c.Wrap = func(p *v1.Pod, construct func() kernel.Behavior[pod.Message]) func() kernel.Behavior[pod.Message] {
		return node.Wrapped(c.Around, "pod/"+roleOf(p.Name, "").Pod, construct)
	}
}

func (r *runner) called(_ string, c simcri.Call) simcri.Fault {
	f := r.inj.call(c)
	switch c.Method {
	case simcri.RunPodSandbox, simcri.CreateContainer, simcri.StartContainer, simcri.StopContainer, simcri.StopPodSandbox,
		simcri.RemoveContainer, simcri.RemovePodSandbox, simcri.PullImage, simcri.UpdateContainer:
		r.out.Changes++
	default:
	}
	if !r.bare {
		r.rules.Called(c, f)
	}
	return f
}

func (r *runner) changed(_ string, t simcri.Transition) {
	if !r.bare {
		r.rules.Changed(t)
	}
	r.transition(t)
	r.dirty = true
}

func (r *runner) hosted(_ string, c sim.HostCall) sim.HostFault {
	f := r.inj.host(c, r.nameOf(types.UID(c.Pod)))
	if !r.bare {
		r.rules.Hosted(c, f)
	}
	return f
}

func (r *runner) asked(c simapi.Call) simapi.Fault {
	switch c.Verb {
	case simapi.Create, simapi.Patch, simapi.Delete:
		r.out.Writes++
	default:
	}
	f := r.inj.api(c)
	if f.WorkLate > 0 && c.Key.Kind == port.PodKind {
		r.rules.LateWrite(c.Key.Namespace, c.Key.Name)
	}
	return f
}

// shown is each version of each pod in the API.
func (r *runner) shown(e simapi.Event) {
	p := e.Object.(*v1.Pod)
	if !r.bare {
		r.rules.Shown(p, e.Type == simapi.Deleted)
	}
	r.version(p, e.Type == simapi.Deleted, r.v.Now())
	if r.versions != nil {
		r.versions(roleOf(p.Name, "").Pod, p)
	}
	r.dirty = true
}

// reported is the status of a pod of a standalone node.
func (r *runner) reported(m pods.Reported) {
	if r.c.Standalone && m.Status != nil {
		r.status(r.nameOf(m.UID), m.Status, r.v.Now())
		r.dirty = true
	}
}

// pending says that time must not pass before something was looked at or done.
func (r *runner) pending() bool { return r.dirty || r.killed || r.downed }

// pullDeadline is when a real client gives up a pull that makes no progress; the simulated
// runtime has no such client before it.
const pullDeadline = 3 * time.Minute

// settle is how long all is to stay well, patience how long it may take to get so once the
// last operation was done: a call that hangs is given up after four minutes, and there may
// be several in a row.
const (
	settle   = 90 * time.Second
	patience = 40 * time.Minute
	// waits is how long an operation waits for its state.
	waits = 15 * time.Minute
)

// live does the operations one after the other, and then waits until all is well.
func (r *runner) live() {
	for r.next < len(r.c.Ops) {
		if !r.waitFor(&r.c.Ops[r.next]) || r.broken() {
			return
		}
		r.do(&r.c.Ops[r.next])
		r.next++
	}
	r.end()
}

func (r *runner) broken() bool { return len(r.out.Violations) > 0 }

// pass lets time pass until cond holds or the time has come, does what hooks have asked
// for, and reports whether cond holds. cond is asked when something has happened.
func (r *runner) pass(end time.Time, cond func() bool) bool {
	for {
		if r.killed {
			r.killed = false
			r.restart(restartDelay)
		}
		if r.downed {
			r.downed = false
			r.down(runtimeDelay)
		}
		r.dirty = false
		if r.broken() || cond() {
			return true
		}
		if !r.v.RunUntil(end, r.pending) {
			r.v.Advance(end.Sub(r.v.Now()))
			return cond()
		}
	}
}

// waitFor waits for the time of an operation.
func (r *runner) waitFor(o *plan.Op) bool {
	w := o.When
	if w.On == plan.NoState {
		return r.pass(r.world.Now().Add(max(0, w.At-r.world.Elapsed())), func() bool { return r.world.Elapsed() >= w.At })
	}
	if !r.pass(r.v.Now().Add(waits), func() bool { return r.is(w.Of, w.On) }) {
		return false
	}
	until := r.v.Now().Add(w.After)
	return r.pass(until, func() bool { return !r.v.Now().Before(until) })
}

// end waits until all is well and stays so.
func (r *runner) end() {
	limit := r.v.Now().Add(patience)
	for r.v.Now().Before(limit) {
		if !r.pass(limit, func() bool { return r.missing() == "" }) || r.broken() {
			break
		}
		until := r.v.Now().Add(settle)
		r.pass(until, func() bool { return !r.v.Now().Before(until) })
		if r.broken() {
			return
		}
		if r.unsettled() == "" {
			if !r.bare {
				r.rules.Settled()
			}
			return
		}
	}
	if r.broken() {
		return
	}
	r.violated(invariants.Violation{
		ID: "L01", At: r.v.Now(),
		What: fmt.Sprintf("not all is well %s after the last operation: %s", patience, r.unsettled()),
	})
}

// unsettled says what keeps the node from being at rest; empty if nothing does.
func (r *runner) unsettled() string {
	if why := cmp.Or(r.missing(), r.busy()); why != "" {
		return why
	}
	return invariants.Cgroups(r.node.Runtime().Truth().Runtime.Pods, r.node.Machine().Cgroups.Owners())
}
