package pods

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/apipod"
	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/port"
)

// Cluster is where the messages go that only a node with an apiserver needs.
type Cluster struct {
	// Show and Forget go to status, Statics to mirrors.
	Show    func(Shown)
	Forget  func(types.UID)
	Statics func(Statics)
}

// Shown is what the apiserver is to be told of a pod; see status.Show.
type Shown struct {
	UID    types.UID
	Status *v1.PodStatus
	Final  bool
}

// Statics are the static pods that the apiserver is to see. Seen is false until
// every one is known: before, a mirror pod may be that of one yet to come.
type Statics struct {
	Seen bool
	Pods []*v1.Pod
}

// ends says whether a pod of the apiserver is never to be started: it is being
// deleted, or has ended before.
func ends(r *record) bool {
	return r.source == podspec.API && (r.stop != nil || podspec.Finished(r.pod))
}

// refresh takes over a newer version of a pod of the apiserver.
func (a *pods) refresh(ctx *kernel.Context[Message], r *record, p *v1.Pod) {
	old := r.pod
	r.pod = p
	if apipod.Same(old, p) {
		return
	}
	r.asks(old)
	if s := r.deletion(ctx.Now()); s != nil {
		if r.stop == nil {
			ctx.Log().Info().Str("pod", r.name()).Dur("grace", s.Grace).Msg("pod is being deleted; stopping it")
		}
		r.stopBy(*s)
	}
	if r.acts() {
		a.assign(p.UID)
	}
	a.show(p.UID, r)
}

// renew takes over a version of a pod of the apiserver that asks nothing new,
// with everybody who has the older one.
func (a *pods) renew(p *v1.Pod) {
	r := a.of[p.UID]
	if r == nil || r.source != podspec.API || !apipod.Same(r.pod, p) {
		return
	}
	w := a.wanted[podspec.API]
	if i := slices.Index(w.Pods, r.pod); i >= 0 {
		w.Pods = slices.Clone(w.Pods) // it is shared
		w.Pods[i] = p
		a.wanted[podspec.API] = w
	}
	r.pod = p
	r.ref.Tell(pod.Renewed{Pod: r.allocated()})
}

// deletion is how a pod that the apiserver deletes is to be stopped, nil if it does
// not. A shorter grace period of a later version counts from when the deletion began.
func (r *record) deletion(now time.Time) *podlife.Stop {
	if r.deleted.IsZero() {
		r.deleted = now
	}
	s := apipod.Stop(r.pod, r.deleted)
	if s == nil {
		r.deleted = time.Time{}
	}
	return s
}

// stopBy stops a pod as s says, or, if it is being stopped, no later than that.
func (r *record) stopBy(s podlife.Stop) {
	if r.stop != nil {
		s = r.stop.Shortened(s)
	}
	r.stop = &s
}

// force stops a pod that the apiserver has no more: whoever deleted it does not
// wait for it, and another may have taken its place.
func (a *pods) force(ctx *kernel.Context[Message], uid types.UID, r *record) {
	if r.stop != nil && r.stop.Grace <= 0 {
		return
	}
	ctx.Log().Info().Str("pod", r.name()).Msg("pod deleted from apiserver; killing it")
	r.stopBy(podlife.Stop{At: ctx.Now(), Why: "the pod was deleted by force"})
	r.unwanted, r.stopWritten = true, true
	a.assign(uid)
}

// rejected says in the apiserver why a pod does not run.
func (a *pods) rejected(ctx *kernel.Context[Message], r *record) {
	if a.deps.Cluster == nil {
		return
	}
	s := r.pod.Status
	r.reject.Show(&s)
	s.ObservedGeneration = max(s.ObservedGeneration, r.pod.Generation)
	if s.StartTime == nil {
		now := metav1.NewTime(ctx.Now()).Rfc3339Copy()
		s.StartTime = &now
	}
	s.QOSClass = podspec.Class(r.pod)
	r.report.Status = &s
	a.deps.Pod.Events.Record(port.Event{Pod: r.pod, Warning: true, Reason: r.reject.Reason, Message: r.reject.Message, At: ctx.Now()})
	a.show(r.pod.UID, r)
}

// show tells status what there is to say of a pod.
func (a *pods) show(uid types.UID, r *record) {
	if a.deps.Cluster == nil || r.source == podspec.Orphan || r.report.Status == nil {
		return
	}
	over := r.state == finished || r.state == rejected
	a.deps.Cluster.Show(Shown{
		UID: uid, Status: r.report.Status,
		Final: over && r.source == podspec.API && r.pod.DeletionTimestamp != nil,
	})
}

func (a *pods) forget(uid types.UID) {
	if a.deps.Cluster != nil {
		a.deps.Cluster.Forget(uid)
	}
}

// showAll repeats everything.
func (a *pods) showAll() {
	for _, r := range a.ranked {
		a.show(r.pod.UID, r)
	}
	a.statics = Statics{}
	a.tellStatics()
}

// tellStatics tells mirrors which static pods there are, if that changed. Of
// two of one name it is the one that is at work: it has to end first.
func (a *pods) tellStatics() {
	if a.deps.Cluster == nil {
		return
	}
	now := Statics{Seen: true}
	for _, source := range a.deps.Sources {
		if source != podspec.API && !a.wanted[source].Seen {
			now.Seen = false
		}
	}
	if a.anyStatic() {
		now.Pods = a.staticPods()
	}
	if now.Seen == a.statics.Seen && slices.Equal(now.Pods, a.statics.Pods) {
		return
	}
	a.statics = now
	a.deps.Cluster.Statics(now)
}

func (a *pods) anyStatic() bool {
	for _, r := range a.of { // order-free: any
		if r.source.Static() {
			return true
		}
	}
	return false
}

// staticPods are in order of name.
func (a *pods) staticPods() (out []*v1.Pod) {
	at := map[string]int{}
	for _, r := range a.ranked {
		if !r.source.Static() || r.state == collecting {
			continue
		}
		if i, there := at[r.name()]; !there {
			at[r.name()] = len(out)
			out = append(out, r.shown())
		} else if r.acts() {
			out[i] = r.shown()
		}
	}
	slices.SortFunc(out, func(x, y *v1.Pod) int {
		return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
	})
	return out
}

// AppendTrace implements kernel.Traced.
func (m NodeSeen) AppendTrace(b []byte) []byte {
	return fmt.Appendf(b, "%s %s", m.Node.UID, m.Node.ResourceVersion)
}
