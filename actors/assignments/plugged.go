package assignments

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/cpuset"

	"github.com/troupe-dev/troupe/actors/decide/admit"
	"github.com/troupe-dev/troupe/actors/decide/cpus"
	decide "github.com/troupe-dev/troupe/actors/decide/devices"
	"github.com/troupe-dev/troupe/actors/decide/devicestate"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/topology"
	"github.com/troupe-dev/troupe/actors/devices"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/portcall"
)

const (
	preferVerb   = "GetPreferredAllocation"
	allocateVerb = "Allocate"
	// preferDeadline and allocateDeadline bound how long a request waits for what device plugins prefer, and for what
	// they allocate, also while calls for other pods are before it. A kubelet waits for ever, and with it all pods.
	preferDeadline   = 30 * time.Second
	allocateDeadline = time.Minute
	// endGrace is how long a call that is cancelled may keep later ones of its plugin from beginning.
	endGrace = time.Second
	// refusedAgain is how long after a plugin did not allocate devices a static pod is tried again. Nothing else may
	// change that would have it tried.
	refusedAgain = time.Minute
	// maxAnswer bounds what a plugin says for one container, in bytes: it is in the checkpoint, with all others.
	maxAnswer = 64 << 10
	// decideAgain is when a request is decided again that waits for a device plugin.
	decideAgain = time.Second
)

// plugged is what is known of device plugins and of the requests that need them.
type plugged struct {
	snapshot devices.Snapshot
	// heard: snapshot was told.
	heard bool
	// requests are those that wait for a device plugin, by pod.
	requests map[types.UID]*request
	// calls are those under way. All are of requests.
	calls map[kernel.EffectID]call
	// refuses: a plugin has refused a pod, and the timer forgiven runs.
	refuses bool
	// last counts requests, for request.id.
	last uint64
}

// request is a Place on its way.
type request struct {
	// id tells it from others of its pod. Number may be another one meanwhile.
	id     uint64
	Pod    *v1.Pod
	Number uint64
	// runs: it is not refused, and of its containers only those in down get new devices. unknown are those whose devices
	// nobody knows.
	runs    bool
	down    []string
	unknown map[string]string
	// own are the CPUs that its containers are to run on alone.
	own map[string]cpuset.CPUSet
	// aligned is Decision.Alignments, if it gets what it asks for.
	aligned map[cpus.Alignment]int
	since   time.Time
	// counted: it was, when the pod began.
	counted bool
	// prefers are the answers of plugins that were asked which devices they prefer.
	prefers map[decide.Key][]string
	// left is how many calls have no answer.
	left int
	// phase counts how often calls were begun together: their deadline is that of the phase.
	phase int
	// taken: devices are the pod's, and their plugins are being told. fresh are those parts without an answer.
	taken bool
	fresh map[decide.Key]bool
	// ticks: the timer again runs.
	ticks bool
}

// call is a call of a plugin for a request.
type call struct {
	of    *request
	key   decide.Key
	begun time.Time
}

// placing is the choice of devices for one request; none without device plugins.
func (a *assignments) placing(q *request) (*decide.Placing, []topology.Provider) {
	if a.deps.Plugins == nil {
		return nil, nil
	}
	p := decide.Place(a.snapshot.Inventory, a.given, q.Pod, q.prefers, a.deps.Rules.Nodes())
	p.Keep, p.Down = q.runs, q.down
	return p, []topology.Provider{p}
}

// plugins notes what device plugins offer, and decides again what waits for them.
func (a *assignments) plugins(ctx *kernel.Context[Message], s devices.Snapshot) {
	before, begun := a.snapshot.Inventory, a.known()
	// After its restart, devices does not know all at once. A pod must not do without for that.
	s.Inventory = s.Inventory.Missing(before)
	a.snapshot, a.heard = s, true
	if !a.known() {
		return
	}
	if !begun {
		a.begin(ctx)
	}
	if !maps.EqualFunc(before.Registered(), s.Inventory.Registered(), slices.Equal[[]string]) {
		a.changed.given = a.files.Changed()
		a.version++
	}
	if begun && !maps.EqualFunc(a.healths(before), a.healths(s.Inventory), devicestate.Health.Equal) {
		a.tell(nil)
	}
	for _, uid := range slices.Sorted(maps.Keys(a.requests)) {
		a.reconsider(ctx, a.requests[uid])
	}
	a.settle(ctx)
}

// reconsider decides a request again that waits for a plugin, and for no answer of one.
func (a *assignments) reconsider(ctx *kernel.Context[Message], q *request) {
	if q.left > 0 || q.taken {
		return
	}
	delete(a.requests, q.Pod.UID)
	if answer := a.consider(ctx, q); answer != nil {
		a.tell([]Placed{*answer})
	}
}

func (a *assignments) again(ctx *kernel.Context[Message], m again) {
	if q := a.requests[m.uid]; q != nil && q.id == m.id {
		q.ticks = false
		a.reconsider(ctx, q)
		a.settle(ctx)
	}
}

// nobodys says whether no device plugin has served a resource, and nobody else can.
func (a *assignments) nobodys(name v1.ResourceName) bool {
	return a.deps.Standalone && a.deps.Plugins != nil && a.snapshot.Inventory[name] == nil && podspec.IsExtended(name)
}

// unserved rejects a pod that asks for what nobody has. A kubelet starts it without; a plugin that registers for the
// first time after the pod has begun would come too late for it.
func (a *assignments) unserved(q *request) *admit.Rejection {
	if q.runs {
		return nil
	}
	for c := range podspec.Lasting(&q.Pod.Spec) {
		for _, name := range slices.Sorted(maps.Keys(c.Resources.Limits)) {
			if n := c.Resources.Limits[name]; n.Sign() > 0 && a.nobodys(name) {
				return admit.Unexpected(fmt.Errorf("no device plugin serves %s, which container %q asks for", name, c.Name))
			}
		}
	}
	return nil
}

// waits keeps a request whose devices can't be had because their plugin is not there yet.
func (a *assignments) waits(ctx *kernel.Context[Message], q *request) bool {
	if a.deps.Plugins == nil || ctx.Now().Sub(q.since) >= devices.Patience {
		return false
	}
	awaited := false
	for c := range podspec.Lasting(&q.Pod.Spec) {
		for name := range c.Resources.Limits { // order-free: any
			r := a.snapshot.Inventory[name]
			awaited = awaited || r != nil && r.Awaited || a.nobodys(name)
		}
	}
	if awaited && ctx.Now().Equal(q.since) {
		ctx.Log().Info().Str("pod", q.Pod.Namespace+"/"+q.Pod.Name).Dur("atMost", devices.Patience).
			Msg("the pod waits for a device plugin that is not running yet")
	}
	if awaited {
		a.wait(ctx, q)
	}
	return awaited
}

// wait keeps a request until it is decided again.
func (a *assignments) wait(ctx *kernel.Context[Message], q *request) {
	a.keepRequest(q)
	if !q.ticks {
		q.ticks = true
		ctx.After(decideAgain, again{q.Pod.UID, q.id})
	}
}

// keepRequest notes that a request waits.
func (a *assignments) keepRequest(q *request) {
	if a.requests == nil {
		a.requests = map[types.UID]*request{}
	}
	a.requests[q.Pod.UID] = q
}

// asks asks plugins which devices they prefer. It reports whether a request has to wait for that.
func (a *assignments) asks(ctx *kernel.Context[Message], q *request, p *decide.Placing) bool {
	if p == nil {
		return false
	}
	for _, question := range p.Result().Ask {
		plugin := a.snapshot.Plugins[question.Resource]
		a.call(ctx, q, question.Key, preferVerb, preferDeadline,
			func(e kernel.Effect[Message]) kernel.EffectID {
				return portcall.Do(ctx, e, func(c context.Context, done func([]string, error)) {
					a.deps.Plugins.Prefer(c, plugin, question, done)
				}, func(id kernel.EffectID, ids []string, err error) Message { return preferred{id, ids, err} })
			})
	}
	a.bound(ctx, q, preferDeadline)
	return q.left > 0
}

// allocates takes new devices for a pod, and tells their plugins. It reports whether a request has to wait for that.
func (a *assignments) allocates(ctx *kernel.Context[Message], q *request, p *decide.Placing) bool {
	if p == nil {
		return false
	}
	got := p.Result()
	for _, key := range got.Fresh {
		plugin, ids := a.snapshot.Plugins[key.Resource], got.IDs(key)
		a.call(ctx, q, key, allocateVerb, allocateDeadline, func(e kernel.Effect[Message]) kernel.EffectID {
			return portcall.Do(ctx, e, func(c context.Context, done func([]byte, error)) {
				a.deps.Plugins.Allocate(c, plugin, ids, done)
			}, func(id kernel.EffectID, answer []byte, err error) Message { return allocated{id, answer, err} })
		})
	}
	if q.left > 0 {
		q.taken, q.fresh = true, map[decide.Key]bool{}
		for _, key := range got.Fresh {
			q.fresh[key] = true
		}
		a.given[q.Pod.UID] = got.Own
	}
	a.bound(ctx, q, allocateDeadline)
	return q.left > 0
}

// bound sets the timer of calls that were begun together.
func (a *assignments) bound(ctx *kernel.Context[Message], q *request, within time.Duration) {
	if q.left > 0 {
		q.phase++
		ctx.After(within, overdue{q.Pod.UID, q.id, q.phase})
	}
}

// overdue ends the calls of a request that were begun too long ago, also those that still wait for others.
func (a *assignments) overdue(ctx *kernel.Context[Message], m overdue) {
	q := a.requests[m.uid]
	if q == nil || q.id != m.id || q.phase != m.phase || q.left == 0 {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(a.calls)) {
		c, is := a.calls[id]
		switch {
		case !is || c.of != q:
		case q.taken: // it refuses the request, and cancels the other calls
			a.allocated(ctx, allocated{id: id, err: portcall.NoAnswer(allocateVerb, string(c.key.Resource), allocateDeadline)})
			ctx.Cancel(id)
		default:
			a.preferred(ctx, preferred{id: id, err: portcall.NoAnswer(preferVerb, string(c.key.Resource), preferDeadline)})
			ctx.Cancel(id)
		}
	}
}

// cancel ends the calls of a request. What they answer does not count any more.
func (a *assignments) cancel(ctx *kernel.Context[Message], q *request) {
	for _, id := range slices.Sorted(maps.Keys(a.calls)) {
		if a.calls[id].of == q {
			ctx.Cancel(id)
			delete(a.calls, id)
		}
	}
	q.taken, q.fresh, q.left, q.prefers = false, nil, 0, nil
}

func (a *assignments) call(
	ctx *kernel.Context[Message], q *request, key decide.Key, verb string, within time.Duration,
	do func(kernel.Effect[Message]) kernel.EffectID,
) {
	if a.calls == nil {
		a.calls = map[kernel.EffectID]call{}
	}
	// One call of a plugin after the other, as a kubelet does: plugins need not expect more.
	id := do(kernel.Effect[Message]{
		Kind: verb, Object: string(key.Resource), For: string(q.Pod.UID), Lane: fmt.Sprintf("plugin/%s", key.Resource),
		Deadline: within + endGrace,
	})
	a.calls[id] = call{q, key, ctx.Now()}
	a.keepRequest(q)
	q.left++
}

// called is the call that an answer is for. It is nil if its request has gone.
func (a *assignments) called(id kernel.EffectID) *call {
	c, is := a.calls[id]
	delete(a.calls, id)
	if !is || a.requests[c.of.Pod.UID] != c.of {
		return nil
	}
	c.of.left--
	return &c
}

// preferred notes what a plugin prefers. One that does not say so has no preference.
func (a *assignments) preferred(ctx *kernel.Context[Message], m preferred) {
	c := a.called(m.id)
	if c == nil {
		return
	}
	if m.err != nil {
		ctx.Log().Warn().Str("resource", string(c.key.Resource)).Str("pod", c.of.Pod.Namespace+"/"+c.of.Pod.Name).
			Str("error", m.err.Error()).Msg("GetPreferredAllocation of a device plugin failed; choosing devices without it")
	}
	if c.of.prefers == nil {
		c.of.prefers = map[decide.Key][]string{}
	}
	c.of.prefers[c.key] = m.ids
	a.reconsider(ctx, c.of)
	a.settle(ctx)
}

// allocated notes what a plugin says that a container with its devices is created with.
func (a *assignments) allocated(ctx *kernel.Context[Message], m allocated) {
	c := a.called(m.id)
	if c == nil {
		return
	}
	q := c.of
	uid := q.Pod.UID
	if n := len(m.answer); m.err == nil && n > maxAnswer {
		m.err = fmt.Errorf("the device plugin of %s has answered with %d bytes for container %q, and may with %d at most",
			c.key.Resource, n, c.key.Container, maxAnswer)
	}
	if m.err != nil {
		a.refused(ctx, q, c.key, m.err)
		a.settle(ctx)
		return
	}
	if a.deps.Counts != nil {
		a.deps.Counts.Allocated(c.key.Resource, max(0, ctx.Now().Sub(c.begun)))
	}
	a.given[uid] = devicestate.Answered(a.given[uid], c.key.Container, c.key.Resource, m.answer)
	delete(q.fresh, c.key)
	if q.left > 0 {
		return
	}
	delete(a.requests, uid)
	a.note(uid, &a.changed.given)
	ctx.Log().Info().Str("pod", q.Pod.Namespace+"/"+q.Pod.Name).Interface("devices", devicestate.Names(a.given[uid])).
		Msg("allocated devices to containers")
	if answer := a.answer(ctx, q); answer != nil {
		a.tell([]Placed{*answer})
	}
	a.settle(ctx)
}

// refused gives the devices of a request back, because a plugin did not allocate them. If the plugin is gone, they are
// asked for again. A pod that runs goes on with what it has.
func (a *assignments) refused(ctx *kernel.Context[Message], q *request, key decide.Key, err error) {
	uid := q.Pod.UID
	// Pods that did not get these devices meanwhile are tried again later. At once, two whose plugin refuses them would
	// have each other tried without end.
	if q.runs {
		a.giveBack(ctx, q)
	} else {
		a.free(ctx, uid)
	}
	if !a.refuses {
		a.refuses = true
		ctx.After(refusedAgain, forgiven{})
	}
	if port.KindOf(err) == port.Unavailable && ctx.Now().Sub(q.since) < devices.Patience {
		a.wait(ctx, q)
		return
	}
	ctx.Log().Warn().Str("resource", string(key.Resource)).Str("pod", q.Pod.Namespace+"/"+q.Pod.Name).
		Str("container", key.Container).Str("error", err.Error()).
		Msg("Allocate of a device plugin failed; the pod is rejected, or only the container if the pod runs already")
	if !q.runs {
		why := admit.Unexpected(err)
		a.count(ctx.Now(), q, why)
		a.tell([]Placed{{UID: uid, Number: q.Number, Rejected: why}})
		return
	}
	q.unknown = maps.Clone(q.unknown)
	if q.unknown == nil {
		q.unknown = map[string]string{}
	}
	q.unknown[key.Container] = fmt.Sprintf("resources.limits[%s]: the device plugin did not allocate devices: %s",
		key.Resource, err)
	if answer := a.answer(ctx, q); answer != nil {
		a.tell([]Placed{*answer})
	}
}

// giveBack takes from a pod that runs what its plugins have not answered yet.
func (a *assignments) giveBack(ctx *kernel.Context[Message], q *request) {
	uid := q.Pod.UID
	if q.taken {
		a.given[uid] = devicestate.Without(a.given[uid], func(container string, g devicestate.Grant) bool {
			return q.fresh[decide.Key{Container: container, Resource: g.Resource}]
		})
		a.note(uid, &a.changed.given)
	}
	if len(a.given[uid]) == 0 {
		delete(a.given, uid)
	}
	a.cancel(ctx, q)
	delete(a.requests, uid)
}

// forgiven lets pods that a plugin refused be asked for again: only static ones are.
func (a *assignments) forgiven() {
	a.refuses = false
	a.version++
	a.announce()
}
