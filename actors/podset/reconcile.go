package podset

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podset"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pod"
)

// reconcile makes the running pods match the desired ones.
func (a *registry) reconcile(ctx *kernel.Context[Message]) {
	if !a.ready() {
		return
	}
	wanted := podset.Merge(a.desired())
	a.rounds++
	var fresh []podset.Want
	for _, w := range wanted {
		if a.of[w.Pod.UID] == nil {
			fresh = append(fresh, w)
			continue
		}
		a.want(ctx, w)
	}
	for _, w := range podset.StartOrder(fresh, a.runtime) {
		a.want(ctx, w)
	}
	a.stopUnwanted(ctx)
	a.stopUnknown(ctx, wanted)
	a.hurry(ctx)
	a.retainPods()
	a.releaseEnded()
	a.resize(ctx)
	a.readmit(ctx)
	for _, e := range podset.Queue(a.entries()) {
		// A critical pod before it in the queue may have preempted it.
		if r := a.of[e.Pod.UID]; r != nil && &r.Entry == e && r.State == podset.Waiting {
			a.begin(ctx, r)
		}
	}
	a.resize(ctx)
	a.tellLiving()
	a.tellStatics()
	a.forgetUnclaimed()
	a.saveStops(ctx)
}

// desired lists the pods of all sources, ordered by the names of the sources.
func (a *registry) desired() []podset.Source {
	out := make([]podset.Source, 0, len(a.wanted))
	for _, origin := range slices.Sorted(maps.Keys(a.wanted)) {
		out = append(out, podset.Source{Origin: origin, Pods: a.wanted[origin].Pods})
	}
	return out
}

// want records that a source wants a pod.
func (a *registry) want(ctx *kernel.Context[Message], w podset.Want) {
	r := a.of[w.Pod.UID]
	if r == nil {
		r = &record{Entry: podset.Entry{Pod: w.Pod, Origin: w.Origin, Wanted: a.rounds}, seen: ctx.Now()}
		if w.Origin == podspec.API {
			r.Stop = r.deletion(ctx.Now())
		}
		a.recall(r)
		a.recallStop(r)
		a.put(r)
		return
	}
	r.Wanted = a.rounds
	if w.Origin == podspec.API && r.Origin == podspec.API {
		a.refresh(ctx, r, w.Pod)
		a.wantAgain(ctx, r, w)
		return
	}
	if r.Stop != nil {
		a.wantAgain(ctx, r, w)
		return
	}
	r.Origin = w.Origin
	if old := r.Pod; old != w.Pod {
		r.Pod = w.Pod
		if r.State == podset.Rejected {
			r.readmitted()
		}
		r.asks(old) // its manifest gives it its UID
		a.assign(w.Pod.UID)
	}
}

// ready reports whether the runtime's list, the checkpoints, the pods that gc is removing, and those that have an actor
// are known. Before that, there are no records of pods.
func (a *registry) ready() bool {
	return !a.listed.IsZero() && a.childrenKnown && !a.collecting && a.given.Known() && a.stops.Known()
}

func (a *registry) allSeen() bool { return len(a.unseen()) == 0 }

// heard reports whether a source has said what it wants, so that what it does not name ends.
func (a *registry) heard(source podspec.Origin) bool {
	w := a.wanted[source]
	return w.Seen && (!w.Unread || a.allSeen())
}

// unnamed reports whether a source has said that it does not want a pod that it has not named: it has named all that it
// wants, or had the pod before this agent began.
func (a *registry) unnamed(uid types.UID, source podspec.Origin) bool {
	w := a.wanted[source]
	return a.heard(source) && (!w.Unsure || a.allSeen() || slices.Contains(w.Dropped, uid))
}

// unseen lists the sources that have not reported yet.
func (a *registry) unseen() (out []podspec.Origin) {
	for _, s := range a.deps.Sources {
		if !a.wanted[s].Seen {
			out = append(out, s)
		}
	}
	return out
}

// stopUnwanted stops pods that were removed from their source.
func (a *registry) stopUnwanted(ctx *kernel.Context[Message]) {
	for _, r := range a.ranked {
		uid, fate := r.Pod.UID, r.NextAction(a.rounds, a.heard(r.Origin))
		if fate != podset.Stay && fate != podset.Return {
			r.DesiredAgain = nil // it was added again, and removed again
		}
		switch fate {
		case podset.Stay, podset.Pass:
		case podset.Return:
			a.comeBack(ctx, r)
		case podset.Forget:
			a.drop(uid)
			a.forget(uid)
		case podset.Stop:
			a.endUnwanted(ctx, r)
		case podset.Release:
			a.letGo(ctx, r)
		case podset.Collect:
			r.State = podset.Next(r.State, podset.Removed)
			a.collect(r)
		case podset.Discard:
			a.discard(uid, r)
		}
	}
}

// stopUnknown stops pods that the runtime or an actor has and no source has.
func (a *registry) stopUnknown(ctx *kernel.Context[Message], wanted []podset.Want) {
	known := func(uid types.UID) bool { return a.of[uid] != nil || a.stuck[uid] }
	for _, uid := range podset.Unknown(a.runtime, known, wanted, a.unnamed, a.allSeen()) {
		a.orphan(ctx, a.runtime[uid])
	}
	if !a.allSeen() {
		return
	}
	for _, uid := range slices.Sorted(maps.Keys(a.unclaimed)) { // the runtime has nothing of them yet
		a.orphan(ctx, observed.RuntimePod{Ref: a.unclaimed[uid].Pod})
	}
}

// orphan stops a pod that no source has.
func (a *registry) orphan(ctx *kernel.Context[Message], rp observed.RuntimePod) {
	p := podset.Orphan(rp)
	ctx.Log().Info().Str("pod", p.Namespace+"/"+p.Name).Str("uid", string(p.UID)).
		Msg("orphaned pod found on the node: no source has it; stopping it")
	r := &record{Entry: podset.Entry{Pod: p, Origin: podspec.Orphan}}
	r.Recall(podset.ForRemoval, *podset.RemovalStop(p, ctx.Now()))
	a.recallStop(r)
	a.put(r)
}

// retainPods tells after a restart which pods there are.
func (a *registry) retainPods() {
	if !a.retain || !a.allSeen() {
		return
	}
	a.retain = false
	all, wanted := map[types.UID]bool{}, map[types.UID]bool{}
	for uid, r := range a.of { // order-free: sets
		all[uid] = true
		if r.Origin != podspec.Orphan {
			wanted[uid] = true
		}
	}
	for uid := range a.unread { // order-free: a set
		all[uid] = true
	}
	a.deps.Retain(all, wanted)
}

// begin admits a pod and has its actor made.
func (a *registry) begin(ctx *kernel.Context[Message], r *record) {
	if !r.lives && a.illegible(ctx, r) || !a.admitted(ctx, r) {
		return
	}
	r.view = &observed.Pod{}
	if rp, ok := a.runtime[r.Pod.UID]; ok {
		r.view, r.found = &rp.Pod, true
	}
	if _, unread := a.unread[r.Pod.UID]; unread || r.HasPreviousLife {
		r.view = nil
	}
	delete(a.runtime, r.Pod.UID)
	r.State = podset.Next(r.State, podset.Begun)
	if !r.lives {
		a.countAdmitted(r)
	}
	a.spawn(r)
}

// assign sends the pod's desired state to its actor.
func (a *registry) assign(uid types.UID) {
	r := a.of[uid]
	if r == nil || r.ref.IsZero() {
		return // as soon as it has begun
	}
	r.place.now = a.placement(r)
	r.ref.Tell(pod.Assign{
		Pod: r.allocated(), Origin: r.Origin, Rank: r.rank, Stop: r.EffectiveStop(), View: r.view,
		Status: r.status(), Resized: r.resized(),
		FirstSandbox: r.first, RestartNotes: r.restarts, Placement: r.place.now, Machine: a.machine,
	})
	r.view = nil // true only once; a later incarnation inspects the runtime
}

// collected handles that nothing is left of a pod, or only what the runtime fails to remove.
func (a *registry) collected(ctx *kernel.Context[Message], uid types.UID, stuck bool) {
	r := a.of[uid]
	if r == nil || r.State != podset.Collecting {
		return
	}
	if stuck {
		a.stuck[uid] = true
	}
	delete(a.runtime, uid)
	if r.Returns(a.rounds) {
		a.comeBack(ctx, r)
	} else {
		a.deps.ForgetImages(uid)
		a.drop(uid)
		a.forget(uid)
		a.deps.End(uid) // last: after a panic before it, the actor is found again, and all of this is done again
	}
	a.reconcile(ctx)
}
