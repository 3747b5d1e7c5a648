package chaos

import (
	"cmp"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/node"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/podset"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/apiclient/simapi"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/agent"
	"github.com/troupe-dev/troupe/supervisor/chaos/plan"
	"github.com/troupe-dev/troupe/supervisor/invariants"
	"github.com/troupe-dev/troupe/supervisor/sim"
	"github.com/troupe-dev/troupe/supervisor/sim/machine"
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

// WithTrace tells of each message from one actor to another when it is sent, by their paths, and tracer of all that is
// handled and called. It takes the place of WithStory.
func WithTrace(tracer kernel.Tracer, sent func(from, to string, m any)) Option {
	return func(r *runner) { r.tracer, r.sent = tracer, sent }
}

// runner runs one case.
type runner struct {
	c            *plan.Case
	record, bare bool
	// states: the state of the node is taken down at each point; marked is what its actors were at.
	states bool
	marked uint64
	// panicked are the pods that a port has panicked for; empty for a call that is not of one pod.
	panicked map[string]bool
	versions func(string, *v1.Pod)
	rec      *recording // nil if there is none
	tracer   kernel.Tracer
	sent     func(from, to string, m any) // nil if nobody asks

	world *sim.World
	v     *kernel.Virtual
	inj   *injector
	// caseNodes are the machines, in order of their names.
	caseNodes []*caseNode
	*history
	backup *backup
	out    *Result

	// dirty: something happened that an operation or the end may wait for.
	dirty bool
	// next is the operation that is waited for.
	next int
	pressed
	attacher
	// rests: the agent is killed at rest. resting: it was. settling: all is well, and is to stay so; stirred is
	// what the agent did then.
	rests, resting, settling bool
	stirred                  string
}

// caseNode is one machine of the case with its agent, and the rules that are held against it.
type caseNode struct {
	*sim.Node
	rules *invariants.Node
	// lost: it was taken away.
	lost bool
	// Asked for by hooks, which can't do it themselves.
	killed, downed bool
	// within is what an actor is about to do to itself, by actor.
	within map[string]*plan.Effect
}

// newRunner makes the world of a case.
func newRunner(c *plan.Case, options ...Option) *runner {
	r := &runner{c: c, history: newHistory(c)}
	r.panicked = map[string]bool{}
	r.uses, r.unused = map[plan.Role]machine.Use{}, map[string]time.Time{}
	for _, o := range options {
		o(r)
	}
	r.out = &Result{Case: c, Ready: map[string]time.Duration{}, Restarts: map[string]int{}}
	r.inj = newInjector(c, r.record)
	r.inj.killAgent = func(node string) { r.on(node).killed, r.dirty = true, true }
	r.inj.killRuntime = func(node string) { r.on(node).downed, r.dirty = true, true }
	if r.states {
		r.inj.state = r.state
	}
	r.inj.strikes = r.struck
	r.build()
	return r
}

// Run runs a case to its end: until all is well and stays so, or a rule is broken.
func Run(c *plan.Case, options ...Option) *Result {
	r := newRunner(c, options...)
	r.live()
	if !r.cluster {
		// A call that hangs is given up when its pod ends: nobody waits for the answer.
		answers := r.world.System().DeadLettersByName()["pod.ActionDone"]
		r.caseNodes[0].rules.Undelivered(r.world.System().DeadLetters()-answers, r.world.System().Dropped())
	}
	for _, m := range r.caseNodes {
		r.out.Sometimes = append(r.out.Sometimes, m.rules.Reached()...)
		m.KillAgent()
	}
	r.v.Settle()
	r.out.Hash, r.out.Messages, r.out.Simulated = r.world.TraceHash(), r.world.Messages(), r.world.Elapsed()
	r.out.ended = r.v.Now()
	r.out.Story = r.rec.story(r.nodes, r.names, c.Standalone)
	r.out.Points, r.out.Reached = r.inj.points, r.inj.reached()
	r.out.states, r.out.struck = r.inj.states, r.inj.struck
	for name, c := range r.pods { // order-free: a map of the same
		c.readySince(false, r.v.Now())
		if c.first > 0 {
			r.out.Ready[name] = c.first
		}
		if !c.looped {
			r.out.Restarts[name] = c.restarts
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

// on is the machine of that name, the first for no name.
func (r *runner) on(node string) *caseNode {
	for _, m := range r.caseNodes {
		if m.Name() == node {
			return m
		}
	}
	return r.caseNodes[0]
}

// build makes the world. What can't be is a fault of this package: the case was validated.
func (r *runner) build() {
	config := sim.Config{
		Seed: r.c.Seed, Bare: r.c.Nodes == 0, RestartDelay: restartDelay, Schedule: r.schedule(),
		Tracer: r.rec.tracer(),
		Hooks: sim.Hooks{
			Runtime: r.called, Transition: r.changed, Host: r.hosted, API: r.asked,
			Event: r.event, Crashed: r.crashed,
		},
	}
	if !r.bare {
		config.Hooks.Violated = r.inconsistent
	}
	if r.tracer != nil {
		config.Tracer = r.tracer
	}
	if faults := r.inj.watches(plan.Send); faults || r.sent != nil {
		config.Hooks.Message = func(node, from, to string, m any) (f kernel.Fate) {
			if r.sent != nil {
				r.sent(from, to, m)
			}
			if faults {
				f = r.inj.sent(node, r.actor(to), m)
				r.on(node).rules.Stands(f.Delay)
			}
			return f
		}
	}
	if r.inj.watches(plan.Message) {
		config.Hooks.Within = func(node, actor string, _ any, k int) { inside(r.actor(actor), k, r.on(node).within) }
	}
	var err error
	if r.world, err = sim.New(config); err != nil {
		panic(err)
	}
	r.v = r.world.Clock()
	r.rec.begin(r.v.Now)
	if !r.c.Standalone {
		watches := [...]struct {
			kind port.APIKind
			see  func(simapi.Event)
		}{{port.PodKind, r.shown}, {port.LeaseKind, r.lease}, {port.NodeKind, r.nodeShown}}
		for _, w := range watches {
			if _, err = r.world.API().Watch(simapi.WatchOptions{Select: simapi.Select{Kind: w.kind}}, w.see); err != nil {
				panic(err)
			}
		}
	}
	r.registerDriver()
	r.keepPrivate()
	for _, name := range r.nodes {
		r.join(name)
	}
}

// join adds a machine.
func (r *runner) join(name string) {
	m := &caseNode{rules: invariants.New(r.v.Now, r.violated), within: map[string]*plan.Effect{}}
	if r.steady() {
		m.rules.Timely()
	}
	m.rules.Entitles(plan.Entitled)
	var err error
	s := sim.NodeSpec{
		Name: name, Manifests: true, Cgroups: true, Standalone: r.c.Standalone, Stopped: true,
		Events: simcri.EventPolicy{Off: r.c.NoEvents}, Pressure: r.capacity(), PullRecords: true,
		Configure: func(c *agent.Config) { r.configure(m, c) },
	}
	r.equip(&s)
	r.drive(&s)
	if m.Node, err = r.world.AddNode(s); err != nil {
		panic(err)
	}
	done := func(c sim.HostCall) {
		if !r.bare {
			m.rules.Done(c)
		}
		r.dirty = true
	}
	m.Machine().Host.Observe, m.Machine().Cgroups.Observe = done, done
	m.Machine().Pressure.Observe = func(c sim.HostCall) { r.measured(m, c) }
	r.caseNodes = append(r.caseNodes, m)
	r.served(m)
	r.driven(m)
	m.StartAgent()
}

// steady says that a case is such that what must be in time is so: its schedule costs no time, no others
// have a hand in it, and no restore takes back what the agent was told of a pod.
func (r *runner) steady() bool {
	restores := slices.ContainsFunc(r.c.Ops, func(o plan.Op) bool { return o.Verb == plan.Restore })
	return !r.cluster && !restores && r.c.Schedule == (plan.Schedule{})
}

// schedule is that of the case, in the words of the world.
func (r *runner) schedule() kernel.Schedule {
	c := &r.c.Schedule
	s := kernel.Schedule{Priorities: c.Priorities, Changes: c.Depth, Span: span, Cost: c.Cost}
	if c.Starve != "" {
		s.Starve = func(path string) bool { return r.actor(path) == c.Starve }
	}
	if c.Cost > 0 && c.Slow != plan.EveryActor {
		s.Slow = func(path string) bool { return r.actor(path) == c.Slow }
	}
	return s
}

// span is how many messages from the start priorities change within: a life has some hundreds.
const span = 2000

// actor is what cases call an actor: its name, or pod/ and the name of its pod.
func (r *runner) actor(path string) string {
	last := path[strings.LastIndexByte(path, '/')+1:]
	if name := r.nameOf(types.UID(last)); name != "" {
		return "pod/" + r.role(name)
	}
	return last
}

func (r *runner) violated(v invariants.Violation) {
	r.rec.broke(r.podName(v.Pod.Name), r.nodes[0], v)
	r.out.Violations = append(r.out.Violations, v)
	r.dirty = true
}

// configure is before each start of an agent.
func (r *runner) configure(m *caseNode, c *agent.Config) {
	clear(m.within)
	m.rules.Began()
	if r.policy = c.Eviction; r.c.Disks > 0 {
		m.rules.Protects(r.policy.Transition)
	}
	r.rec.started(m.Name())
	c.Ports.Events = r.rec.events(m.Name(), c.Ports.Events)
	c.PullDeadline = pullDeadline
	c.Around = func(actor string, msg any, handled bool) {
		if handled {
			r.mark()
			m.rules.Handled(msg)
			switch msg := msg.(type) {
			case podset.Wanted:
				for _, p := range msg.Pods {
					r.names[p.UID] = r.podName(p.Name)
				}
			case podset.Evict:
				r.evicting(m, &msg)
			case podset.Reported:
				r.reported(msg)
			}
		}
		r.inj.message(m.Name(), actor, msg, handled, m.within)
	}
	c.Wrap = func(p *v1.Pod, construct func() kernel.Behavior[pod.Message]) func() kernel.Behavior[pod.Message] {
		return node.Wrapped(c.Around, "pod/"+r.roleOf(p.Name, "").Pod, construct)
	}
}

// pending says that time must not pass before something was looked at or done.
func (r *runner) pending() bool { return r.dirty }

// pullDeadline is when a pull without progress ends: a real runtime ends it itself, the simulated one does not.
const pullDeadline = 3 * time.Minute

// settle is how long all is to stay well, patience how long it may take to get so once the
// last operation was done: a call that hangs is given up after four minutes, and there may
// be several in a row.
const (
	settle   = 90 * time.Second
	patience = 40 * time.Minute
	// waits is how long an operation waits for its state.
	waits = 15 * time.Minute
	// relist is how often the agent lists what the runtime has, in case an event was lost.
	relist = time.Minute
)

// live does the operations one after the other, and then waits until all is well.
func (r *runner) live() {
	for r.next < len(r.c.Ops) {
		if !r.waitFor(&r.c.Ops[r.next]) || r.broken() {
			return
		}
		r.rec.operation(r.on(r.c.Ops[r.next].Node).Name(), &r.c.Ops[r.next])
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
		for _, m := range r.caseNodes {
			if m.killed {
				m.killed = false
				r.restart(m, restartDelay)
			}
			if m.downed {
				m.downed = false
				r.down(m, runtimeDelay)
			}
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

// unsettled says what keeps the nodes from being at rest; empty if nothing does.
func (r *runner) unsettled() string {
	if why := r.missing(); why != "" {
		return why
	}
	for m := range r.there() {
		truth := m.Runtime().Truth().Runtime.Pods
		why := cmp.Or(r.busy(m), invariants.Cgroups(truth, m.Machine().Cgroups.Owners()), r.misassigned(m),
			r.mislaid(m))
		if why != "" {
			return why
		}
	}
	return r.twice()
}
