package podset

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/apipod"
	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podset"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/mirrors"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/status"
)

// Cluster has the receivers that only a node with an apiserver needs.
type Cluster struct {
	// Show, ShowAll and Forget go to status, ReadNode to nodestatus. Statics publishes the static pods.
	Show     func(status.Show)
	ShowAll  func(status.Shows)
	Forget   func(types.UID)
	Statics  func(mirrors.Statics)
	ReadNode func(number uint64)
}

// refresh applies a newer version of a pod of the apiserver.
func (a *registry) refresh(ctx *kernel.Context[Message], r *record, p *v1.Pod) {
	old := r.Pod
	r.Pod = p
	if apipod.Same(old, p) {
		return
	}
	r.asks(old)
	a.countResizing(r, old)
	if s := r.deletion(ctx.Now()); s != nil {
		if r.Stop == nil {
			ctx.Log().Info().Str("pod", r.name()).Dur("grace", s.Grace).Msg("pod is being deleted; stopping it")
		}
		r.Add(podset.ForDeletion, *s)
	}
	if r.State.HasActor() {
		a.assign(p.UID)
	}
	a.show(p.UID, r)
}

// renew applies a version of a pod of the apiserver that changes nothing for it. Every holder of
// the older version gets it.
func (a *registry) renew(p *v1.Pod) {
	r := a.of[p.UID]
	if r == nil || r.Origin != podspec.API || !apipod.Same(r.Pod, p) {
		return
	}
	w := a.wanted[podspec.API]
	if i := slices.Index(w.Pods, r.Pod); i >= 0 {
		w.Pods = slices.Clone(w.Pods) // it is shared
		w.Pods[i] = p
		a.wanted[podspec.API] = w
	}
	r.Pod = p
	r.ref.Tell(pod.Renewed{Pod: r.allocated()})
}

// deletion returns how to stop a pod that is deleted in the apiserver, nil if it is not.
func (r *record) deletion(now time.Time) (s *podlife.Stop) {
	s, r.Deleted = podset.Deletion(r.Pod, r.Deleted, now)
	return s
}

// letGo stops a pod that the apiserver does not have any more, with its grace period.
func (a *registry) letGo(ctx *kernel.Context[Message], r *record) {
	if r.Stop == nil {
		ctx.Log().Info().Str("pod", r.name()).Msg("pod was deleted from the apiserver; stopping it")
	}
	a.stopFor(r, podset.ForRelease, *podset.RemovalStop(r.Pod, ctx.Now()))
}

// forced stops a pod by force that is gone from the apiserver, or will be.
func (a *registry) forced(ctx *kernel.Context[Message], uid types.UID) {
	if r := a.of[uid]; r != nil && r.Origin == podspec.API && r.State == podset.Running {
		a.stopFor(r, podset.ForDeletion, podlife.Stop{At: ctx.Now(), Why: "the pod was deleted by force"})
	}
}

// stopFor stops a pod, or stops it sooner.
func (a *registry) stopFor(r *record, why podset.StopReason, s podlife.Stop) {
	before := r.EffectiveStop()
	r.Add(why, s)
	if now := r.EffectiveStop(); now != nil && (before == nil || *before != *now) {
		a.assign(r.Pod.UID)
	}
}

// hurry stops by force what is in the way of another pod of its name.
func (a *registry) hurry(ctx *kernel.Context[Message]) {
	for _, e := range podset.InTheWay(a.entries()) {
		ctx.Log().Info().Str("pod", e.Pod.Namespace+"/"+e.Pod.Name).Str("uid", string(e.Pod.UID)).
			Msg("stopping a deleted pod by force, because a new pod of the same name waits for its end")
		s := podlife.Stop{At: ctx.Now(), Why: "another pod of its name waits"}
		a.stopFor(a.of[e.Pod.UID], podset.ForDeletion, s)
	}
}

// rejected shows in the apiserver why a pod does not run.
func (a *registry) rejected(ctx *kernel.Context[Message], r *record) {
	if a.deps.Cluster == nil {
		return
	}
	r.report.Status = podset.RejectedStatus(r.Pod, r.reject, ctx.Now())
	a.show(r.Pod.UID, r)
}

// show sends a pod's status to the status actor.
func (a *registry) show(uid types.UID, r *record) {
	if s, is := a.shown(uid, r); is {
		a.deps.Cluster.Show(s)
	}
}

// shown is what the apiserver is to know of a pod, if anything.
func (a *registry) shown(uid types.UID, r *record) (s status.Show, is bool) {
	if a.deps.Cluster == nil || r.Origin == podspec.Orphan || r.report.Status == nil {
		return s, false
	}
	over := r.State == podset.Finished || r.State == podset.Rejected
	return status.Show{
		UID: uid, Status: r.report.Status,
		Final: over && r.Origin == podspec.API && r.Pod.DeletionTimestamp != nil,
	}, true
}

func (a *registry) forget(uid types.UID) {
	if a.deps.Cluster != nil {
		a.deps.Cluster.Forget(uid)
	}
}

// showAll sends everything again.
func (a *registry) showAll() {
	if a.deps.Cluster == nil {
		return
	}
	var all []status.Show
	for _, r := range a.ranked {
		if s, is := a.shown(r.Pod.UID, r); is {
			all = append(all, s)
		}
	}
	a.deps.Cluster.ShowAll(status.Shows{All: all})
}

// tellStatics publishes the static pods, if they changed.
func (a *registry) tellStatics() {
	if a.deps.Cluster == nil {
		return
	}
	now := mirrors.Statics{Seen: true}
	for _, source := range a.deps.Sources {
		if source != podspec.API && !a.wanted[source].Seen {
			now.Seen = false
		}
	}
	for _, r := range a.ranked {
		if r.Origin.Static() && r.State != podset.Collecting {
			now.Pods = append(now.Pods, apipod.StaticPod{Pod: r.Pod, Life: r.first, HasActor: r.State.HasActor()})
		}
	}
	if now.Seen == a.statics.Seen && slices.Equal(now.Pods, a.statics.Pods) {
		return
	}
	a.statics = now
	a.deps.Cluster.Statics(now)
}
