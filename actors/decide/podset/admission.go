package podset

import (
	"fmt"
	"iter"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/decide/admit"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// Queue is the waiting pods in the order in which they are admitted: orphans first, because others
// may wait for their end, then the oldest.
func Queue(ranked iter.Seq[*Entry]) (out []*Entry) {
	for _, orphans := range [...]bool{true, false} {
		for e := range ranked {
			if e.State == Waiting && (e.Origin == podspec.Orphan) == orphans {
				out = append(out, e)
			}
		}
	}
	return out
}

// Admission says whether a waiting pod may begin now.
type Admission uint8

const (
	// Wait: another pod of its name must end first, or the Node object is not known yet.
	Wait Admission = iota
	// Clean: it begins without admission, because its actor only removes its remains.
	Clean
	// Adopt: it is already running. It begins without admission, whatever the node has become since it was admitted.
	Adopt
	// Ask: it begins if it is admitted.
	Ask
)

func (t Admission) String() string {
	switch t {
	case Wait:
		return "Wait"
	case Clean:
		return "Clean"
	case Adopt:
		return "Adopt"
	case Ask:
		return "Ask"
	default:
		return fmt.Sprintf("Admission(%d)", uint8(t))
	}
}

// Admission says whether e may begin now, given all pods of the node. known: the Node object was read.
// runs: the runtime has a ready sandbox of e.
func (e *Entry) Admission(all iter.Seq[*Entry], known, runs bool) Admission {
	if e.onlyEnds() {
		return Clean
	}
	if e.Origin == podspec.API && !known && !runs {
		return Wait // its labels and taints are not known yet
	}
	if o := e.Namesake(all); o != nil && (!runs || !o.Released() && o.Origin.Static() == e.Origin.Static()) {
		return Wait // if both run, an earlier agent did not wait
	}
	if runs {
		return Adopt
	}
	return Ask
}

// Namesake is the pod of its name that must end before e may begin; nil if none must.
func (e *Entry) Namesake(all iter.Seq[*Entry]) *Entry {
	if e.State != Waiting || e.onlyEnds() {
		return nil
	}
	for o := range all {
		if o != e && nameOf(o.Pod) == nameOf(e.Pod) && o.blocks(e) {
			return o
		}
	}
	return nil
}

// blocks says whether e must end before next begins, if both have one name. No static pod waits for one that the
// apiserver has: whoever may make pods in a namespace could keep those of the node from starting.
func (e *Entry) blocks(next *Entry) bool {
	if next.Origin.Static() && e.Origin == podspec.API && !e.Released() {
		return false
	}
	return e.holdsName()
}

// onlyEnds says whether all that is to be done for a pod that waits is to take down what there is of it.
func (e *Entry) onlyEnds() bool {
	return e.Origin == podspec.Orphan || e.Removal != Kept || e.Eviction != Kept || e.neverStarts()
}

// neverStarts says whether a pod of the apiserver is being deleted or has already ended.
func (e *Entry) neverStarts() bool {
	return e.Origin == podspec.API && (e.Stop != nil || podspec.Finished(e.Pod))
}

// holdsName says whether e blocks other pods of its name. One that the apiserver does not have any more blocks none
// once it is down, or was given up: what else is left, such as mounts, is by UID.
func (e *Entry) holdsName() bool {
	switch e.State {
	case Running, Finished:
		return !e.Released() || !e.Down && !e.GivenUp
	case Waiting:
		return e.Origin == podspec.Orphan
	case Collecting, Rejected:
	}
	return false
}

// Runs says whether the runtime has a ready sandbox of a pod. An earlier agent has admitted such a pod.
func Runs(rp observed.RuntimePod) bool {
	_, ready := rp.ReadySandbox()
	return ready
}

// Down are the containers of a pod of which no incarnation lives, or may live, in order of their names.
func Down(p *v1.Pod, rp observed.RuntimePod) (down []string) {
	for c := range podspec.Lasting(&p.Spec) {
		if !slices.ContainsFunc(rp.Of(c.Name), func(o observed.Container) bool {
			return o.Name == c.Name && o.State != observed.ContainerExited
		}) {
			down = append(down, c.Name)
		}
	}
	slices.Sort(down)
	return down
}

// DownSince adds to the containers of which nothing lives those of some that have ended since, and can't be made again:
// they wait for what is not known of them. The order is that of their names.
func DownSince(down []string, s *v1.PodStatus, of map[string]string) []string {
	out := slices.Clone(down)
	for _, list := range [...][]v1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses} {
		for i := range list {
			w := list[i].State.Waiting
			if _, is := of[list[i].Name]; is && w != nil && w.Reason == "CreateContainerConfigError" {
				out = append(out, list[i].Name)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Expel is how to stop a pod that has begun, and may not go on: it was rejected after a reboot, or its volume can't be
// had.
func Expel(p *v1.Pod, why *admit.Rejection, now time.Time) *podlife.Stop {
	var shown v1.PodStatus
	why.Show(&shown)
	return &podlife.Stop{
		At: now, Grace: podspec.Grace(p), Fail: true,
		Reason: shown.Reason, Message: shown.Message, Why: why.Message,
	}
}

// RejectedStatus is the status of a pod that was not admitted.
func RejectedStatus(p *v1.Pod, why *admit.Rejection, now time.Time) *v1.PodStatus {
	s := p.Status
	why.Show(&s)
	s.ObservedGeneration = max(s.ObservedGeneration, p.Generation)
	if s.StartTime == nil {
		at := metav1.NewTime(now).Rfc3339Copy()
		s.StartTime = &at
	}
	s.QOSClass = podspec.Class(p)
	return &s
}
