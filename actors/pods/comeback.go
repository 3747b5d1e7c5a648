package pods

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/manifest"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pod"
)

// A pod that is stopped because no source wants it may be wanted again before it
// is over: the upgrade of a control plane moves manifests away and back. A stop is
// never taken back, so it ends first. Then it begins another life under the same
// UID: its containers count as never run, and their restart counts go on.
//
//	running ──not wanted──► stopping ──Finished──► wanted? ──► another life: waiting
//	                                                  └─no─► collecting ──Collected──► wanted? ──► another life
//	                                                                                      └─no─► (gone)
//
// Its mirror pod is another one then: of a container that has ended for good by its
// restart policy, the apiserver takes no other state.

// endUnwanted begins to stop a pod that no source wants any more.
func (a *pods) endUnwanted(ctx *kernel.Context[Message], r *record) {
	ctx.Log().Info().Str("pod", r.name()).Msg("pod was removed from its source; stopping it")
	r.stop = &podlife.Stop{At: ctx.Now(), Grace: podspec.Grace(r.pod), Why: notWanted}
	r.unwanted = true
	a.remember(ctx, r)
}

// wantAgain takes in that a source wants a pod that is being stopped.
func (a *pods) wantAgain(ctx *kernel.Context[Message], r *record, w want) {
	if !r.unwanted {
		return
	}
	if r.again == nil {
		ctx.Log().Info().Str("pod", r.name()).Msg("pod was added again while it is stopping; it starts again after it has stopped")
	}
	r.again = &w
}

// endAgain is for a pod that was to begin another life, and is not wanted before it
// could: what its earlier life has left is removed.
func (a *pods) endAgain(uid types.UID, r *record) {
	r.unwanted, r.stopWritten, r.stop = true, true, &podlife.Stop{Why: notWanted}
	r.state = collecting
	a.stops.dirty = true
	a.forget(uid)
	a.collect(uid, r)
}

// returns says whether a pod that has stopped is to begin another life.
func (a *pods) returns(r *record) bool {
	if !r.unwanted || r.wanted != a.rounds || r.again == nil {
		return false
	}
	p := r.again.pod
	return r.again.source != podspec.API || p.DeletionTimestamp == nil && !podspec.Finished(p)
}

// comeBack begins another life of a pod of which nothing runs.
func (a *pods) comeBack(ctx *kernel.Context[Message], r *record) {
	ctx.Log().Info().Str("pod", r.name()).Msg("pod has stopped and was added again; starting it")
	kernel.StopChild(ctx, r.ref)
	a.deps.ForgetImages(r.pod.UID)
	a.forget(r.pod.UID)
	r.pod, r.source, r.first = r.again.pod, r.again.source, max(r.next, r.first+1)
	r.stop, r.again, r.unwanted, r.stopWritten, r.restarts = nil, nil, false, false, nil
	r.ref, r.state, r.look, r.mirror = kernel.Ref[pod.Message]{}, waiting, true, nil
	r.crash, r.reject, r.deleted = nil, nil, time.Time{}
	delete(a.stuck, r.pod.UID)
	if r.source == podspec.API && r.alloc == nil {
		a.recall(r)
	}
	if s := r.report.Status; s != nil {
		r.before = earlierStatus(s.InitContainerStatuses, s.ContainerStatuses)
	}
	r.report = pod.Report{}
	a.stops.dirty = true
	a.saveStops(ctx)
}

// earlierStatus is all that counts of the status of a pod's earlier life: how often
// its containers were restarted, and how they ended last. nil if that is nothing.
func earlierStatus(inits, mains []v1.ContainerStatus) *v1.PodStatus {
	if len(inits)+len(mains) == 0 {
		return nil
	}
	return &v1.PodStatus{InitContainerStatuses: shortened(inits), ContainerStatuses: shortened(mains)}
}

func shortened(list []v1.ContainerStatus) []v1.ContainerStatus {
	out := slices.Clone(list)
	for i := range out {
		s := &out[i]
		last := s.LastTerminationState
		if s.State.Terminated != nil {
			last = s.State
		}
		*s = v1.ContainerStatus{
			Name: s.Name, ContainerID: s.ContainerID, Image: s.Image, ImageID: s.ImageID,
			RestartCount: s.RestartCount, LastTerminationState: last,
		}
	}
	return out
}

// shown is the pod as mirrors has it: the mirror of another life is another one.
func (r *record) shown() *v1.Pod {
	if r.first == 0 {
		return r.pod
	}
	if r.mirror == nil || r.mirrored != r.pod {
		r.mirror, r.mirrored = manifest.InLife(r.pod, r.first), r.pod
	}
	return r.mirror
}

// abandoned has directories collected of a pod that nobody knows. Until they are
// gone, no pod of that UID begins.
func (a *pods) abandoned(uid types.UID) {
	_, runs := a.runtime[uid]
	if !a.ready() || !a.allSeen() || a.of[uid] != nil || runs {
		return
	}
	a.collect(uid, a.putCollecting(observed.PodRef{UID: uid}))
}

// putCollecting adds the record of a pod of which gc removes what is left.
func (a *pods) putCollecting(ref observed.PodRef) *record {
	r := &record{
		pod:    &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: ref.UID, Namespace: ref.Namespace, Name: ref.Name}},
		source: podspec.Orphan, state: collecting, unwanted: true, stopWritten: true, stop: &podlife.Stop{Why: notWanted},
	}
	a.recallStop(r)
	a.put(r)
	return r
}

// askCollecting asks gc which pods it is removing, until it answers.
func (a *pods) askCollecting(ctx *kernel.Context[Message]) {
	if !a.collecting {
		return
	}
	self := ctx.Self()
	a.deps.Collecting(func(refs []observed.PodRef) { self.Tell(BeingCollected{refs}) })
	ctx.After(askEvery, AskCollecting{})
}

const askEvery = time.Second

func (a *pods) beingCollected(ctx *kernel.Context[Message], refs []observed.PodRef) {
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

// abandoned: nothing is known of the pod but its UID.
func (r *record) abandoned() bool { return r.pod.Name == "" }

// returning says to people why a pod that is wanted does not run yet.
func (r *record) returning() string {
	if r.state == collecting {
		return "remains of its previous run are being removed; it starts after that"
	}
	return "it was removed from its source and is stopping; it was added again, and starts after it has stopped"
}
