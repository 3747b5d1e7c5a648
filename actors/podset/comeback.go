package podset

import (
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podset"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pod"
)

// endUnwanted stops a pod that was removed from its source.
func (a *registry) endUnwanted(ctx *kernel.Context[Message], r *record) {
	ctx.Log().Info().Str("pod", r.name()).Msg("pod was removed from its source; stopping it")
	r.Add(podset.ForRemoval, *podset.RemovalStop(r.Pod, ctx.Now()))
	a.remember(ctx, r)
}

// remade ends static pods whose manifests were removed and are there again. One that was refused is judged again.
func (a *registry) remade(ctx *kernel.Context[Message], uids []types.UID) {
	for _, uid := range uids {
		switch r := a.of[uid]; {
		case r == nil || r.Origin == podspec.API || r.Origin == podspec.Orphan:
		case r.State == podset.Running && r.Stop == nil:
			a.endUnwanted(ctx, r)
		case r.State == podset.Finished:
			r.State = podset.Next(r.State, podset.Removed)
			a.collect(r)
		case r.State == podset.Rejected:
			r.readmitted()
		}
	}
	a.reconcile(ctx)
}

// wantAgain records that a source wants a pod that is being stopped.
func (a *registry) wantAgain(ctx *kernel.Context[Message], r *record, w podset.Want) {
	if r.Removal == podset.Kept {
		return
	}
	if r.DesiredAgain == nil {
		ctx.Log().Info().Str("pod", r.name()).
			Msg("pod was added again while it is stopping; it starts again after it has stopped")
	}
	r.DesiredAgain = &w
}

// discard removes what is left of a pod's earlier life. It was added again, and removed again
// before it could start.
func (a *registry) discard(uid types.UID, r *record) {
	r.Recall(podset.ForRemoval, podlife.Stop{Why: podset.NotWanted})
	r.State = podset.Next(r.State, podset.Removed)
	a.stops.Changed()
	a.forget(uid)
	a.collect(r)
}

// comeBack starts another life of a stopped pod.
func (a *registry) comeBack(ctx *kernel.Context[Message], r *record) {
	ctx.Log().Info().Str("pod", r.name()).Msg("pod has stopped and was added again; starting it")
	a.deps.End(r.Pod.UID)
	a.deps.ForgetImages(r.Pod.UID)
	a.forget(r.Pod.UID)
	r.Return()
	r.first, r.restarts = podset.NextLife(r.next, r.first), nil
	r.ref, r.lives, r.crash, r.reject = kernel.Ref[pod.Message]{}, false, nil, nil
	delete(a.stuck, r.Pod.UID)
	if r.Origin == podspec.API && r.Alloc == nil {
		a.recall(r)
	}
	if s := r.status(); s != nil {
		r.before = podset.EarlierStatus(s.InitContainerStatuses, s.ContainerStatuses)
	}
	r.report = pod.Report{}
	a.stops.Changed()
	a.saveStops(ctx)
}

// left reports whether all that there can be of a rejected pod is on the host: the agent before this one had begun it,
// and its sandbox was not made.
func (a *registry) left(r *record) bool {
	_, known := a.runtime[r.Pod.UID]
	return r.Origin == podspec.API && !known
}

// abandoned has gc remove the directories of an unknown pod. No pod of that UID starts until they
// are gone. The directories, mounts and cgroup of a rejected pod are given up by an actor of its own.
func (a *registry) abandoned(ctx *kernel.Context[Message], uid types.UID) {
	_, runs := a.runtime[uid]
	if !a.ready() || !a.allSeen() || runs {
		return
	}
	if r := a.of[uid]; r != nil {
		if why := r.reject; r.State == podset.Rejected && a.left(r) {
			r.readmitted()
			r.reject = why
			r.Add(podset.ForRefusal, *podset.Expel(r.Pod, why, ctx.Now()))
			a.reconcile(ctx)
		}
		return
	}
	a.collect(a.putCollecting(observed.PodRef{UID: uid}))
}

// putCollecting adds the record of a pod whose remains gc removes.
func (a *registry) putCollecting(ref observed.PodRef) *record {
	r := &record{Entry: podset.Entry{
		Pod:    &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: ref.UID, Namespace: ref.Namespace, Name: ref.Name}},
		Origin: podspec.Orphan, State: podset.Collecting,
	}}
	r.Recall(podset.ForRemoval, podlife.Stop{Why: podset.NotWanted})
	a.recallStop(r)
	a.put(r)
	return r
}

// askCollecting asks gc for the pods that it is removing, until it answers.
func (a *registry) askCollecting(ctx *kernel.Context[Message]) {
	if !a.collecting {
		return
	}
	self := ctx.Self()
	a.deps.Collecting(func(refs []observed.PodRef) { self.Tell(BeingCollected{refs}) })
	ctx.After(askEvery, AskCollecting{})
}

const askEvery = time.Second

func (a *registry) beingCollected(ctx *kernel.Context[Message], refs []observed.PodRef) {
	if !a.collecting {
		return
	}
	a.collecting = false
	for _, ref := range refs {
		if a.of[ref.UID] == nil {
			a.putCollecting(ref)
		}
	}
	a.reconcile(ctx)
}
