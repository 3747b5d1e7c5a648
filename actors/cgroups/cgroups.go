// Package cgroups is the actor that owns the cgroups of pods: one cgroup per pod, and
// one per QoS class (decide/podcgroup).
//
//	pod ──Ensure, Remove──► cgroups ──Set, RemovePod──► cgroups
//	pod ◄──CgroupAnswer── cgroups
//	cgroups ──Living──► podset (in each sweep)      nodestatus ──NodeSeen──► cgroups
//
// Each pod has its own lane. The cgroup of a QoS class is updated a moment later with
// the sum of the requests of its pods. A sweep removes leftover cgroups: it first lists
// cgroups, and then asks which pods live.
//
// After a restart the actor has no state. Pods send their requests again, and existing
// cgroups are kept (port.Cgroups is idempotent).
package cgroups

import (
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/decide/podcgroup"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/portcall"
)

// Message is what the resources actor understands.
//
//sumtype:decl
type Message interface{ isResourcesMessage() }

// Ensure is a pod's wish for its cgroup. From pod. Lost: asked again when told
// that this actor restarted. Twice: answered twice.
type Ensure struct{ pod.EnsureCgroup }

// Remove is a pod's wish to be rid of it. From pod; as with Ensure.
type Remove struct{ pod.RemoveCgroup }

// NodeSeen has what the machine has now. Published by nodestatus, or by machine, with each change.
type NodeSeen struct{ Node *v1.Node }

// done is the result of one effect for one pod: of its removal, or of what made it.
type done struct {
	id      kernel.EffectID
	uid     types.UID
	removal bool
	err     error
}

// again is this actor's own timer for one pod.
type again struct{ uid types.UID }

// settled is this actor's own timer: the classes' cgroups are to be brought up
// to date.
type settled struct{}

// nodeSet is the result of one effect on a cgroup above those of pods.
type nodeSet struct {
	what string
	// classes is what those of the classes were given.
	classes podcgroup.ClassValues
	err     error
}

// sweep is this actor's own timer, found what a sweep found, and living the
// answer of podset to it. swept is the result of a removal in it.
type (
	sweep struct{}
	found struct {
		uids []types.UID
		err  error
	}
	living struct {
		pods  map[types.UID]bool
		uids  []types.UID
		asked uint64 // resources.asked when podset was asked
	}
	swept struct {
		uid types.UID
		err error
	}
)

func (Ensure) isResourcesMessage()   {}
func (Remove) isResourcesMessage()   {}
func (NodeSeen) isResourcesMessage() {}
func (done) isResourcesMessage()     {}
func (again) isResourcesMessage()    {}
func (settled) isResourcesMessage()  {}
func (nodeSet) isResourcesMessage()  {}
func (sweep) isResourcesMessage()    {}
func (found) isResourcesMessage()    {}
func (living) isResourcesMessage()   {}
func (swept) isResourcesMessage()    {}

// Outcome implements kernel.Outcome.
func (m done) Outcome() (kernel.EffectID, error) { return m.id, m.err }

// Cgroups is what the actor uses of port.Cgroups.
type Cgroups interface {
	Set(ctx context.Context, name podcgroup.Name, v podcgroup.Values, done func(error))
	RemovePod(ctx context.Context, uid types.UID, done func(error))
	Pods(ctx context.Context, done func([]types.UID, error))
}

// Deps are what the actor is connected to.
type Deps struct {
	Cgroups  Cgroups
	Settings podcgroup.Settings
	Events   port.Recorder
	// Node is this node's name, for events.
	Node string
	// Living asks podset which pods there are; it may not be answered.
	Living func(reply func(map[types.UID]bool))
	// Restarted has pods send their requests again.
	Restarted func()
	Backoff   backoff.Policy
	// Period is the time between sweeps, Deadline bounds one call.
	Period, Deadline time.Duration
}

const (
	// firstSweep is when an agent first looks for what its predecessor left.
	firstSweep = 10 * time.Second
	// settling is how long the cgroups of classes wait for the next change, so
	// that many pods at once are one change.
	settling = 250 * time.Millisecond
	// firstSettling is longer: after the agent's start all pods come again.
	firstSettling = 2 * time.Second
)

// New makes the constructor of the actor.
func New(deps *Deps) func() kernel.Behavior[Message] {
	return func() kernel.Behavior[Message] {
		return &cgroups{deps: deps, settings: deps.Settings, pods: map[types.UID]*podded{}}
	}
}

type cgroups struct {
	deps *Deps
	// settings are those of Deps, on the machine as it is now.
	settings podcgroup.Settings
	pods     map[types.UID]*podded
	// sums is what all pods ask for. Invariant: the sum of the shares of pods.
	sums podcgroup.Sums
	// classes are those that were last set without error; nil: not known.
	classes *podcgroup.ClassValues
	// settling: a timer for the classes runs, or they are being set.
	settling bool
	// topSet: the cgroup of all pods has its limits.
	topSet bool
	// enforced is why the limits of all pods can't be set, empty if they are; nil until that is known.
	enforced *string
	// asked counts what pods asked for.
	asked uint64
}

// Check implements kernel.Checked.
func (a *cgroups) Check() error {
	var sums podcgroup.Sums
	for _, p := range a.pods { // order-free: a sum
		if p.pod != nil {
			sums.Add(p.share, 1)
		}
	}
	if sums != a.sums {
		return fmt.Errorf("resources: sums: the sum of the shares of pods: %+v, and those are %+v", a.sums, sums)
	}
	return nil
}

// stage is how far the cgroup of a pod is.
//
//	known ──Ensure{Make}──► wanted ──its call begins──► making ──worked──► made
//	                         ▲  ▲                        │  │               │
//	                         │  └─────────failed─────────┘  │               │
//	                         └───Ensure{Make}: once more────┴───────────────┘
//	any ──Remove──► going ──RemovePodCgroup worked──► (forgotten)
//
// A wanted one may still have the call of before under way, which is waited for.
type stage uint8

const (
	// known: the pod counts for the cgroups of classes, and has not asked for its own.
	known stage = iota
	wanted
	making
	made
	going
)

func (s stage) String() string { return [...]string{"known", "wanted", "making", "made", "going"}[s] }

// next are the stages that may follow.
var next = [...][]stage{
	known: {wanted, going}, wanted: {wanted, making, going}, making: {made, wanted, going}, made: {wanted, going},
	going: {},
}

// become changes the stage. A change that the diagram does not have is a bug.
func (p *podded) become(s stage) {
	if !slices.Contains(next[p.stage], s) {
		panic(fmt.Sprintf("resources: a cgroup that is %v becomes %v", p.stage, s))
	}
	p.stage = s
}

// podded is one pod's share.
type podded struct {
	pod   *v1.Pod
	share podcgroup.Share
	reply kernel.Ref[pod.Message]
	stage stage
	// asked is resources.asked when it was last asked for something.
	asked uint64
	// running is the effect under way.
	running  kernel.Call
	failures backoff.Failures
	retry    kernel.Alarm[Message]
}

// Start implements kernel.Behavior.
func (a *cgroups) Start(ctx *kernel.Context[Message]) {
	a.settling = true
	ctx.After(firstSettling, settled{})
	ctx.After(min(firstSweep, a.deps.Period), sweep{})
}

// Resync implements kernel.Resyncer.
func (a *cgroups) Resync(*kernel.Context[Message]) { a.deps.Restarted() }

// Receive implements kernel.Behavior.
func (a *cgroups) Receive(ctx *kernel.Context[Message], m Message) {
	switch m := m.(type) {
	case Ensure:
		a.ensure(ctx, m.EnsureCgroup)
	case Remove:
		p := a.get(m.UID)
		p.reply = m.ReplyTo
		if p.stage != going {
			p.become(going)
			p.failures = backoff.Failures{}
		}
		a.advance(ctx, m.UID)
	case NodeSeen:
		a.nodeSeen(ctx, m.Node)
	case done:
		a.done(ctx, m)
	case again:
		if p := a.pods[m.uid]; p != nil {
			p.retry.Fired()
			a.advance(ctx, m.uid)
		}
	case settled:
		a.settle(ctx)
	case nodeSet:
		a.nodeSet(ctx, m)
	case sweep:
		ctx.After(a.deps.Period, sweep{})
		a.sweep(ctx)
	case found:
		a.found(ctx, m)
	case living:
		a.remove(ctx, m)
	case swept:
		if m.err != nil {
			ctx.Log().Warn().Str("uid", string(m.uid)).Str("error",
				m.err.Error()).Msg("cannot remove a leftover pod cgroup; retrying in the next sweep")
		}
	}
}

func (a *cgroups) get(uid types.UID) *podded {
	p := a.pods[uid]
	if p == nil {
		p = &podded{}
		a.pods[uid] = p
	}
	a.asked++
	p.asked = a.asked
	return p
}

func (a *cgroups) ensure(ctx *kernel.Context[Message], m pod.EnsureCgroup) {
	p := a.get(m.Pod.UID)
	p.reply = m.ReplyTo
	if p.stage != going && p.pod != m.Pod {
		if p.pod != nil {
			a.sums.Add(p.share, -1)
		}
		p.pod, p.share = m.Pod, podcgroup.ShareOf(m.Pod)
		a.sums.Add(p.share, 1)
		a.changed(ctx)
	}
	if m.Make && p.stage != going {
		p.become(wanted)
	}
	a.advance(ctx, m.Pod.UID)
}

// advance begins what can begin now, and tells the pod how far it is.
func (a *cgroups) advance(ctx *kernel.Context[Message], uid types.UID) {
	p := a.pods[uid]
	if !p.running.Busy() && (p.stage == going || p.stage == wanted) && p.due(ctx, a.deps.Backoff, uid) {
		a.begin(ctx, uid, p)
	}
	p.tell()
}

// due reports whether the next try may be made now, and sets the timer if not.
func (p *podded) due(ctx *kernel.Context[Message], policy backoff.Policy, uid types.UID) bool {
	at := p.failures.RetryAt(policy)
	due := !at.After(ctx.Now())
	if !due && !p.retry.IsSet() {
		p.retry.SetAt(ctx, at, again{uid})
	}
	return due
}

func (a *cgroups) begin(ctx *kernel.Context[Message], uid types.UID, p *podded) {
	if p.stage == going {
		p.running.Begin(a.removePod(ctx, uid, objectOf(p.pod, uid), func(id kernel.EffectID, err error) Message {
			return done{id, uid, true, err}
		}))
		return
	}
	p.become(making)
	name, err := a.settings.Pod(p.pod)
	values := a.settings.PodValues(p.pod)
	p.running.Begin(portcall.Do0(ctx, a.effect("SetPodCgroup", uid, objectOf(p.pod, uid)),
		func(c context.Context, answer func(error)) {
			if err != nil {
				answer(&port.Error{Kind: port.InvalidConfig, Verb: "SetPodCgroup", Object: string(uid), Detail: err.Error()})
				return
			}
			a.deps.Cgroups.Set(c, name, values, answer)
		}, func(id kernel.EffectID, err error) Message { return done{id, uid, false, err} }))
}

// effect is one call for a pod, on the pod's lane.
func (a *cgroups) effect(kind string, uid types.UID, object string) kernel.Effect[Message] {
	return kernel.Effect[Message]{Kind: kind, Object: object, For: string(uid), Lane: "cgroup/" + string(uid),
		Deadline: a.deps.Deadline}
}

func (a *cgroups) removePod(
	ctx *kernel.Context[Message], uid types.UID, object string, result func(kernel.EffectID, error) Message,
) kernel.EffectID {
	return portcall.Do0(ctx, a.effect("RemovePodCgroup", uid, object),
		func(c context.Context, answer func(error)) { a.deps.Cgroups.RemovePod(c, uid, answer) }, result)
}

func objectOf(p *v1.Pod, uid types.UID) string {
	if p == nil {
		return string(uid)
	}
	return p.Namespace + "/" + p.Name
}

func (a *cgroups) done(ctx *kernel.Context[Message], m done) {
	p := a.pods[m.uid]
	if p == nil || !p.running.Take(m.id) {
		return // late, or of a predecessor: what it did is found by the one that is asked for next
	}
	if p.stage == going && !m.removal {
		a.advance(ctx, m.uid) // however it ended, there may be something to remove
		return
	}
	if m.err != nil {
		a.failed(ctx, p, m)
		return
	}
	p.failures = backoff.Failures{}
	if p.stage != going {
		if p.stage == making { // else it is to be made once more
			p.become(made)
		}
		a.advance(ctx, m.uid)
		return
	}
	a.forget(ctx, m.uid, p)
	p.reply.Tell(pod.CgroupAnswer{Cgroup: podcgroup.Cgroup{Own: true, Removed: true}})
}

// forget drops the share of a pod.
func (a *cgroups) forget(ctx *kernel.Context[Message], uid types.UID, p *podded) {
	if p.pod != nil {
		a.sums.Add(p.share, -1)
		a.changed(ctx)
	}
	p.retry.Stop()
	delete(a.pods, uid)
}

func (a *cgroups) failed(ctx *kernel.Context[Message], p *podded, m done) {
	p.failures = p.failures.Failed(ctx.Now(), m.err.Error())
	reason, text := "FailedCreatePodContainer", "unable to ensure pod container exists: "+p.failures.Message
	if p.stage == going {
		reason, text = "FailedKillPod", "cannot remove the pod cgroup: "+p.failures.Message
	} else {
		p.become(wanted)
	}
	if p.pod != nil {
		a.deps.Events.Record(port.Event{Pod: p.pod, Warning: true, Reason: reason, Message: text, At: ctx.Now()})
	}
	a.advance(ctx, m.uid)
}

// tell says how far the pod's cgroup is.
func (p *podded) tell() {
	c := podcgroup.Cgroup{Own: true, State: podcgroup.Known, Going: p.stage == going}
	switch {
	case p.failures.Count > 0:
		c.State, c.Message = podcgroup.Failed, p.failures.Message
	case p.stage == wanted || p.running.Busy():
		c.State = podcgroup.Pending
	case p.stage == made:
		c.State = podcgroup.Up
	}
	p.reply.Tell(pod.CgroupAnswer{Cgroup: c})
}
