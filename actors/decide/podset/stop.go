package podset

import (
	"fmt"
	"iter"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/apipod"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// NextAction is what to do with a pod, given what its source wants.
type NextAction uint8

const (
	// Stay: it is wanted, or its source has not reported yet.
	Stay NextAction = iota
	// Return: it has stopped and is wanted again. It begins another life.
	Return
	// Pass: it is not wanted, but nothing needs to be done now.
	Pass
	// Forget: it is not wanted, and was never begun.
	Forget
	// Stop it with its grace period.
	Stop
	// Release it: the apiserver does not have it any more, and may have given its place to another pod. It is stopped
	// with its grace period.
	Release
	// Collect it: it has stopped, and its remains are removed.
	Collect
	// Discard: it waited for another life. The remains of its earlier life are removed.
	Discard
)

func (f NextAction) String() string {
	if int(f) < len(fates) {
		return fates[f]
	}
	return fmt.Sprintf("NextAction(%d)", uint8(f))
}

var fates = [...]string{"Stay", "Return", "Pass", "Forget", "Stop", "Release", "Collect", "Discard"}

// NextAction is what to do with the pod in this round. heard: its source has reported.
func (e *Entry) NextAction(round uint64, heard bool) NextAction {
	switch {
	case e.State == Finished && e.Returns(round):
		return Return
	case e.Origin != podspec.Orphan && (e.Wanted == round || !heard):
		return Stay
	}
	switch e.State {
	case Waiting, Rejected:
		switch {
		case e.HasPreviousLife:
			return Discard
		case e.Origin != podspec.Orphan:
			return Forget
		}
	case Running:
		switch {
		case e.Origin == podspec.API && e.Removal == Kept:
			return Release
		case e.Origin != podspec.API && e.Stop == nil:
			return Stop
		}
	case Finished:
		return Collect
	case Collecting:
	}
	return Pass
}

// RemovalStop is how to stop a pod that no source wants.
func RemovalStop(p *v1.Pod, now time.Time) *podlife.Stop {
	return &podlife.Stop{At: now, Grace: podspec.Grace(p), Why: NotWanted}
}

// Lingers says whether the remains of e are removed later than at once, so that log collectors find the logs of a short
// pod. One of another source may come back.
func (e *Entry) Lingers() bool { return e.Alone && e.Origin == podspec.API }

// Deletion is how to stop a pod that the apiserver deletes; nil if it does not. since is when the
// node first knew of the deletion, zero before. Deletion returns the updated since. A later version
// with a shorter grace period counts from since.
func Deletion(p *v1.Pod, since, now time.Time) (*podlife.Stop, time.Time) {
	if since.IsZero() {
		since = now
	}
	s := apipod.Stop(p, since, now)
	if s == nil {
		return nil, time.Time{}
	}
	return s, since
}

// Released says whether the apiserver has no pod e any more, so that the scheduler has given what it holds to others.
func (e *Entry) Released() bool {
	return e.DesiredAgain == nil && (e.Origin == podspec.API && e.Removal != Kept ||
		e.Origin == podspec.Orphan && e.Pod.Annotations[podspec.AnnotationSource] == string(podspec.API))
}

// InTheWay are the pods that have a grace period left although the apiserver has them no more, while another pod of
// their name waits for their end. A static pod whose manifest has changed keeps its grace period, as with a kubelet.
func InTheWay(all iter.Seq[*Entry]) (out []*Entry) {
	var waiting map[name]bool
	for e := range all {
		if !e.Released() || !e.holdsName() || e.State == Finished || e.Stop == nil || e.Stop.Grace <= 0 {
			continue
		}
		if waiting == nil {
			waiting = map[name]bool{}
			for o := range all {
				if o.State == Waiting && o.Origin != podspec.Orphan && !o.neverStarts() {
					waiting[nameOf(o.Pod)] = true
				}
			}
		}
		if waiting[nameOf(e.Pod)] {
			out = append(out, e)
		}
	}
	return out
}

// Unknown are the pods of the runtime that must stop because no source has them, in order of UID.
// known says that a pod has an entry already. unwanted says that a source has reported without a pod: no other wants
// a pod whose sandbox names it. A pod without that may belong to any, and stays until all sources have reported (all).
// But of two pods of one name only one may run.
func Unknown(
	runtime map[types.UID]observed.RuntimePod, known func(types.UID) bool, wanted []Want,
	unwanted func(types.UID, podspec.Origin) bool, all bool,
) (out []types.UID) {
	if len(runtime) == 0 {
		return nil
	}
	uids, names := map[types.UID]bool{}, map[name]bool{}
	for _, w := range wanted {
		uids[w.Pod.UID] = true
		names[nameOf(w.Pod)] = true
	}
	for uid, rp := range runtime { // order-free: sorted below
		if known(uid) || uids[uid] {
			continue
		}
		if all || unwanted(uid, sourceOf(rp)) || names[name{rp.Ref.Namespace, rp.Ref.Name}] {
			out = append(out, uid)
		}
	}
	slices.Sort(out)
	return out
}

// sourceOf is the source that the newest sandbox of a pod names; empty for none.
func sourceOf(rp observed.RuntimePod) podspec.Origin {
	if len(rp.Sandboxes) == 0 {
		return ""
	}
	return podspec.Origin(rp.Sandboxes[0].Source)
}

// orphanGrace is the longest grace period of an orphan. The grace periods recorded with its
// containers end it sooner.
const orphanGrace = 24 * time.Hour

// Orphan makes a pod from the runtime's data: enough to stop it.
func Orphan(rp observed.RuntimePod) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: rp.Ref.UID, Namespace: rp.Ref.Namespace, Name: rp.Ref.Name}}
	seen := map[string]bool{}
	for i := range rp.Containers {
		c := &rp.Containers[i]
		if !seen[c.Name] {
			seen[c.Name] = true
			p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: c.Name, Image: c.Image})
		}
	}
	grace := int64(orphanGrace / time.Second)
	p.Spec.TerminationGracePeriodSeconds = &grace
	for i := range rp.Sandboxes {
		p.Spec.HostNetwork = p.Spec.HostNetwork || rp.Sandboxes[i].HostNetwork
	}
	if source := sourceOf(rp); source != "" {
		p.Annotations = map[string]string{podspec.AnnotationSource: string(source)}
	}
	return p
}
