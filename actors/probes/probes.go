package probes

import (
	"container/heap"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/probe"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/smallmap"
)

// Pools of slots bound the probes that run at once on the machine: commands, which are processes,
// and network probes.
const (
	execPool    = "exec-probe"
	networkPool = "probe"
)

// networkSlots is how many network probes run at once.
const networkSlots = 128

// Pools are the actor's pools, with slots for so many commands. Slots for commands are few, so a
// hanging command releases its slot soon. A network probe does too, but after most timeouts have
// passed.
func Pools(commands int) []kernel.Pool {
	return []kernel.Pool{
		{Name: execPool, Size: commands, MinHold: 200 * time.Millisecond, MaxHold: time.Second, Unkept: true, Fair: true},
		{
			Name: networkPool, Size: networkSlots, MinHold: time.Second + slack, MaxHold: time.Second + slack,
			Unkept: true, Fair: true,
		},
	}
}

// Runtime is what the actor uses of port.Runtime.
type Runtime interface {
	ExecSync(ctx context.Context, containerID string, command port.Command, timeout time.Duration,
		done func(port.ExecResult, error))
}

// Network is what the actor uses of port.Network.
type Network interface {
	ProbeHTTP(ctx context.Context, r probe.HTTP, timeout time.Duration, done func(port.HTTPAnswer, error))
	ProbeTCP(ctx context.Context, r probe.TCP, timeout time.Duration, done func(error))
	ProbeGRPC(ctx context.Context, r probe.GRPC, timeout time.Duration, done func(status string, err error))
}

// Deps are what the actor needs.
type Deps struct {
	Runtime     Runtime
	Network     Network
	Events      port.Recorder
	Checkpoints port.Checkpoints
	// Restarted is called when an incarnation after the first begins, or when one missed
	// messages: pods must repeat their requests.
	Restarted func()
	// RequestTimeout is how much longer than its timeout it may take until the runtime answers for a command
	// (runtimeRequestTimeout).
	RequestTimeout time.Duration
}

// tick is the time grid of probes. Periods are whole seconds.
const tick = time.Second

// sweepAfter is how long after a PodsRestarted pods may take to report.
const sweepAfter = 5 * time.Minute

// New makes the constructor of the actor.
func New(deps *Deps) func() kernel.Behavior[Message] {
	return func() kernel.Behavior[Message] {
		return &probes{
			deps: deps, pods: map[types.UID]*podProbes{}, running: map[kernel.EffectID]*run{},
			inherited: map[string]kernel.EffectID{},
		}
	}
}

type probes struct {
	deps *Deps
	grid probe.Grid
	pods map[types.UID]*podProbes
	// queue has the probes that will run again, the next one first. seq counts all queued so far.
	queue queue
	seq   uint64
	// began is when this incarnation did. Times of probes go on from there; see now.
	began time.Time
	// timer is set for timerAt (Unix nanoseconds).
	timer   kernel.Alarm[Message]
	timerAt int64
	// running are the running probes. Those of a predecessor are inherited, by lane, until their
	// containers are known again.
	running   map[kernel.EffectID]*run
	inherited map[string]kernel.EffectID

	// round counts the Doubts.
	round  uint32
	memory memory
}

// Check implements kernel.Checked.
func (a *probes) Check() error {
	for _, p := range a.pods { // order-free: any of them is told
		for _, c := range p.containers {
			for _, r := range c.runs {
				if err := r.Check(); err != nil {
					return fmt.Errorf("%s: %w", c.object, err)
				}
			}
		}
	}
	return a.memory.Check()
}

// podProbes is one pod.
type podProbes struct {
	pod        *v1.Pod
	host       string
	static     bool
	reply      kernel.Ref[pod.Message]
	containers []*container
	// counts are of all its probes since it was first probed.
	counts map[tallied]*counts
	// round is when its last request came.
	round uint32
}

// container is one incarnation of a container.
type container struct {
	probe.Container
	pod  *podProbes
	spec *v1.Container
	id   string
	// object is its name for users: web/app.
	object string
	runs   []*run // one for each probe
}

// run is one probe of a container, and its place in the queue.
type run struct {
	probe.Probe
	of   *container
	lane string
	// target is what to probe; nil while it is unknown. broken is why it can never be known,
	// empty if it can.
	target probe.Target
	broken string
	// under is the running effect, 0 for none. foreign: a predecessor's effect. Its result does
	// not count.
	under   kernel.EffectID
	foreign bool
	// asked is when the run began that is under way, and tries how often it was tried.
	asked time.Time
	tries uint8
	// at orders the queue, then seq, which counts the entries; index is the place in the queue,
	// -1 if not queued.
	at    int64
	seq   uint64
	index int
}

// Start implements kernel.Behavior.
func (a *probes) Start(ctx *kernel.Context[Message]) {
	a.grid = probe.Grid{Tick: tick, Phase: time.Duration(ctx.Rand().Int64N(int64(tick)))}
	for _, e := range ctx.InFlight() {
		a.inherited[e.Lane] = e.ID
	}
	a.began = ctx.Now()
	a.load(ctx)
}

// Resync implements kernel.Resyncer.
func (a *probes) Resync(*kernel.Context[Message]) { a.deps.Restarted() }

// Receive implements kernel.Behavior.
func (a *probes) Receive(ctx *kernel.Context[Message], m Message) {
	switch m := m.(type) {
	case Watch:
		a.watch(ctx, m.ProbeContainers)
	case PodsRestarted:
		a.round++
		ctx.After(sweepAfter, sweep{a.round})
	case due:
		a.timer.Fired()
		a.runDue(ctx)
	case answered:
		a.answered(ctx, m)
	case journaled:
		a.journaled(ctx, m.Event)
	case Query:
		m.Reply(a.tallies())
	case sweep:
		a.sweep(ctx, m.round)
	}
	a.arm(ctx)
}

// now is the time that probes are scheduled by: it goes on evenly when the clock is set. Otherwise
// no probe would be due for as long as the clock was set back.
func (a *probes) now(ctx *kernel.Context[Message]) time.Time {
	return a.began.Add(ctx.Now().Sub(a.began))
}

// arm sets the one timer, unless it fires early enough.
func (a *probes) arm(ctx *kernel.Context[Message]) {
	if len(a.queue) == 0 || a.timer.IsSet() && a.timerAt <= a.queue[0].at {
		return
	}
	a.timerAt = a.queue[0].at
	a.timer.SetIn(ctx, time.Duration(a.timerAt-a.now(ctx).UnixNano()), due{})
}

// watch applies the list of a pod's probed containers.
func (a *probes) watch(ctx *kernel.Context[Message], m pod.ProbeContainers) {
	p := a.pods[m.Pod.UID]
	if len(m.Containers) == 0 {
		if p != nil {
			a.forget(ctx, m.Pod.UID)
		}
		return
	}
	if a.holdBack(m) {
		return
	}
	if p == nil {
		p = &podProbes{}
		a.pods[m.Pod.UID] = p
	}
	moved := p.host != m.Host
	p.pod, p.host, p.static, p.reply, p.round = m.Pod, m.Host, podspec.Static(m.Pod), m.ReplyTo, a.round
	before := len(p.containers)
	var wanted smallmap.Many[string, bool]
	for i := range m.Containers {
		wanted.Set(m.Containers[i].ID, true)
	}
	var there smallmap.Many[string, *container]
	p.containers = slices.DeleteFunc(p.containers, func(c *container) bool {
		if wanted.Has(c.id) {
			there.Set(c.id, c)
			return false
		}
		a.drop(ctx, c)
		return true
	})
	changed := len(p.containers) < before
	for i := range m.Containers {
		b := &m.Containers[i]
		c := there.At(b.ID)
		if c == nil {
			if c = a.begin(ctx, p, b); c == nil {
				continue
			}
			p.containers = append(p.containers, c)
			there.Set(b.ID, c)
			changed = true
		}
		if b.Stopping {
			c.Stopping()
		}
		for _, r := range c.runs {
			if moved || r.target == nil {
				r.aim()
			}
			a.requeue(r)
		}
		if h := c.Health(); b.Wait || !alike(h, b.Known) {
			a.tell(c, h)
		}
	}
	if changed {
		a.remember(ctx, p, p.containers...)
	}
}

// begin starts to probe a container; nil if the pod's spec has no container of that name.
func (a *probes) begin(ctx *kernel.Context[Message], p *podProbes, b *pod.ProbedContainer) *container {
	spec, _ := podspec.Find(&p.pod.Spec, b.Name)
	if spec == nil {
		return nil
	}
	c := &container{pod: p, spec: spec, id: b.ID, object: p.pod.Name + "/" + b.Name}
	for k := range probe.Kinds {
		s := probe.Of(spec, k)
		if s == nil {
			continue
		}
		r := &run{Probe: probe.Probe{Rules: probe.RulesOf(k, s)}, of: c, lane: k.String() + "/" + b.ID, seq: a.seq, index: -1}
		a.seq++
		c.Probes[k] = &r.Probe
		c.runs = append(c.runs, r)
		if id, is := a.inherited[r.lane]; is {
			delete(a.inherited, r.lane)
			r.foreign = true
			a.runs(r, id)
		}
	}
	known := b.Known
	if b.Wait {
		known = a.memory.recall(b.ID, known)
	}
	now, started := a.now(ctx), b.StartedAt
	if !started.IsZero() {
		started = now.Add(-ctx.Now().Sub(started))
	}
	c.Begin(probe.Beginning{Now: now, StartedAt: started, Known: known, Jitter: ctx.Rand().Float64()})
	return c
}

// aim resolves a probe's target.
func (r *run) aim() {
	t, known, err := probe.TargetOf(probe.Of(r.of.spec, r.Kind), r.of.spec, r.of.pod.host)
	r.target, r.broken = nil, ""
	switch {
	case err != nil:
		r.broken = err.Error()
	case known:
		r.target = t
	}
}

// forget drops a pod.
func (a *probes) forget(ctx *kernel.Context[Message], uid types.UID) {
	p := a.pods[uid]
	for _, c := range p.containers {
		a.drop(ctx, c)
	}
	p.containers = nil
	delete(a.pods, uid)
	a.remember(ctx, p)
}

// drop ends the probing of a container.
func (a *probes) drop(ctx *kernel.Context[Message], c *container) {
	for _, r := range c.runs {
		if r.index >= 0 {
			heap.Remove(&a.queue, r.index)
		}
		if r.under != 0 {
			ctx.Cancel(r.under)
			a.ended(r)
		}
	}
	a.memory.note(c.id, record{})
}

// sweep drops the pods that were not mentioned since a PodsRestarted.
func (a *probes) sweep(ctx *kernel.Context[Message], round uint32) {
	for _, uid := range slices.Sorted(maps.Keys(a.pods)) {
		if a.pods[uid].round < round {
			a.forget(ctx, uid)
		}
	}
}

// tell sends a container's health to its pod.
func (a *probes) tell(c *container, h probe.Health) {
	c.pod.reply.Tell(pod.Probed{ID: c.id, Health: h})
}

func alike(a, b probe.Health) bool {
	return a.Startup == b.Startup && a.Liveness == b.Liveness && a.Readiness == b.Readiness
}

// answered applies one result.
func (a *probes) answered(ctx *kernel.Context[Message], m answered) {
	r := a.running[m.id]
	if r == nil {
		// Late, or of a removed container, or of a predecessor before its container is known
		// again: then it must not delay the container's probes.
		maps.DeleteFunc(a.inherited, func(_ string, id kernel.EffectID) bool { return id == m.id })
		return
	}
	a.ended(r)
	if r.foreign {
		r.foreign = false // a predecessor began it, so the time is unknown
		return
	}
	if m.answer.Verdict == probe.Errored && r.tries < tries && r.target != nil && r.Due() != 0 {
		a.ask(ctx, r)
		return
	}
	r.of.pod.count(r, m.answer.Verdict, ctx.Now().Sub(r.asked))
	a.take(ctx, r, m.answer)
}

// take counts a result.
func (a *probes) take(ctx *kernel.Context[Message], r *run, answer probe.Answer) {
	c := r.of
	counted, changed := c.Answered(r.Kind, answer.Verdict, a.now(ctx))
	if counted && answer.Verdict != probe.Passed {
		reason, message := probe.Event(r.Kind, answer)
		a.deps.Events.Record(port.Event{
			Pod: c.pod.pod, Container: c.spec.Name, Warning: true, Reason: reason, Message: message, At: ctx.Now(),
		})
	}
	if !changed {
		a.requeue(r)
		return
	}
	for _, o := range c.runs {
		a.requeue(o)
	}
	h := c.Health()
	if h.Failed() {
		h.Message = answer.Output
	}
	a.tell(c, h)
	a.remember(ctx, c.pod, c)
}
