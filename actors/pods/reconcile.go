package pods

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
func (a *pods) reconcile(ctx *kernel.Context[Message]) {
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
func (a *pods) desired() []podset.Source {
	out := make([]podset.Source, 0, len(a.wanted))
	for _, origin := range slices.Sorted(maps.Keys(a.wanted)) {
		out = append(out, podset.Source{Origin: origin, Pods: a.wanted[origin].Pods})
	}
	return out
}

// want records that a source wants a pod.
func (a *pods) want(ctx *kernel.Context[Message], w podset.Want) {
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

// ready reports whether the runtime's list, the checkpoints, and the pods that gc is removing are
// known. Before that, there are no records of pods.
func (a *pods) ready() bool {
	return a.listed && !a.collecting && a.given.Known() && a.stops.Known()
}

func (a *pods) allSeen() bool { return len(a.unseen()) == 0 }

// heard reports whether a source has said what it wants, so that what it does not name ends.
func (a *pods) heard(source podspec.Origin) bool {
	w := a.wanted[source]
	return w.Seen && (!w.Unread || a.allSeen())
}

// unnamed reports whether a source has said that it does not want a pod that it has not named: it has named all that it
// wants, or had the pod before this agent began.
func (a *pods) unnamed(uid types.UID, source podspec.Origin) bool {
	w := a.wanted[source]
	return a.heard(source) && (!w.Unsure || a.allSeen() || slices.Contains(w.Dropped, uid))
}

// unseen lists the sources that have not reported yet.
func (a *pods) unseen() (out []podspec.Origin) {
	for _, s := range a.deps.Sources {
		if !a.wanted[s].Seen {
			out = append(out, s)
		}
	}
	return out
}

// stopUnwanted stops pods that were removed from their source.
func (a *pods) stopUnwanted(ctx *kernel.Context[Message]) {
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
			a.collect(uid, r)
		case podset.Discard:
			a.discard(uid, r)
		}
	}
}

// stopUnknown stops pods that the runtime has and no source has.
func (a *pods) stopUnknown(ctx *kernel.Context[Message], wanted []podset.Want) {
	known := func(uid types.UID) bool { return a.of[uid] != nil || a.stuck[uid] }
	for _, uid := range podset.Unknown(a.runtime, known, wanted, a.unnamed, a.allSeen()) {
		p := podset.Orphan(a.runtime[uid])
		ctx.Log().Info().Str("pod", p.Namespace+"/"+p.Name).Str("uid", string(uid)).
			Msg("orphaned pod found in the runtime: no source has it; stopping it")
		r := &record{Entry: podset.Entry{
			Pod: p, Origin: podspec.Orphan, Removal: podset.Saved, Stop: podset.RemovalStop(p, ctx.Now()),
		}}
		a.recallStop(r)
		a.put(r)
	}
}

// retainPods tells after a restart which pods there are.
func (a *pods) retainPods() {
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

// begin admits a pod and gives it an actor.
func (a *pods) begin(ctx *kernel.Context[Message], r *record) {
	if a.illegible(ctx, r) || !a.admitted(ctx, r) {
		return
	}
	r.view = &observed.Pod{}
	if rp, ok := a.runtime[r.Pod.UID]; ok {
		r.view, r.found = &rp.Pod, true
	}
	if r.HasPreviousLife {
		r.view = nil
	}
	policy := a.deps.PodPolicy
	if policy == (kernel.Policy{}) {
		policy = kernel.ForPods
	}
	construct := pod.New(r.Pod.UID, a.deps.Pod)
	if a.deps.Wrap != nil {
		construct = a.deps.Wrap(r.Pod, construct)
	}
	ref, err := kernel.Spawn(ctx, kernel.Spec[pod.Message]{
		Name: string(r.Pod.UID), Kind: "pod", Label: r.name(), New: construct, Policy: policy,
	})
	if err != nil {
		return // a stopping pod still has the name: ChildStopped comes
	}
	delete(a.runtime, r.Pod.UID)
	r.ref, r.State = ref, podset.Next(r.State, podset.Begun)
	a.countAdmitted(r)
	a.assign(r.Pod.UID)
}

// assign sends the pod's desired state to its actor.
func (a *pods) assign(uid types.UID) {
	r := a.of[uid]
	if r == nil {
		return
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
func (a *pods) collected(ctx *kernel.Context[Message], uid types.UID, stuck bool) {
	r := a.of[uid]
	if r == nil || r.State != podset.Collecting {
		return
	}
	if stuck {
		a.stuck[uid] = true
	}
	kernel.StopChild(ctx, r.ref)
	delete(a.runtime, uid)
	if r.Returns(a.rounds) {
		a.comeBack(ctx, r)
	} else {
		a.deps.ForgetImages(uid)
		a.drop(uid)
		a.forget(uid)
	}
	a.reconcile(ctx)
}
