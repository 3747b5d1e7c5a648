package podset

import (
	"iter"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/checkpoint"
	"github.com/troupe-dev/troupe/actors/decide/admit"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podresize"
	"github.com/troupe-dev/troupe/actors/decide/podset"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/pods"
)

// record is one pod. podset.State has its states.
type record struct {
	podset.Entry
	podresize.Grant
	seen time.Time // when this actor first heard of it
	rank int64
	// first is Assign.FirstSandbox, next is its value in another life. before has the containers'
	// status from the pod's earlier life, or what the apiserver shows of this one.
	first, next uint32
	before      *v1.PodStatus
	// restarts are, by name, containers that are stopped to be restarted. noted is the version of the stops that has
	// them, and Stop. decided is the version of the allocations that has Saving.
	restarts       map[string]podlife.RestartNote
	noted, decided checkpoint.Version
	// view is what the runtime has of the pod, for the first Assign; nil after it.
	view  *observed.Pod
	found bool // the runtime had a part of it when it began
	// lives: it has had an actor since before this one began. ref is zero until pods has said that there is one.
	lives  bool
	ref    kernel.Ref[pod.Message]
	report pod.Report // the last one; its status is nil if there was none
	reject *admit.Rejection
	// read is the reading of the Node that the pod waits for, or has waited for, 0 for none.
	read  uint64
	place place
	// behind: Behind comes if it still waits for another pod of its name.
	behind bool
	crash  *kernel.CrashReport
	// applied is Pod with the resources of Alloc, for the version appliedTo.
	applied, appliedTo *v1.Pod
}

func (r *record) name() string { return r.Pod.Namespace + "/" + r.Pod.Name }

// abandoned: only the UID of the pod is known.
func (r *record) abandoned() bool { return r.Pod.Name == "" }

// put adds a record, as the youngest.
func (a *registry) put(r *record) {
	delete(a.stuck, r.Pod.UID)
	there, ofLife := a.claim(r)
	if r.lives = ofLife; there && !ofLife {
		a.deps.End(r.Pod.UID)
	}
	a.ranks++
	r.rank = a.ranks
	a.of[r.Pod.UID] = r
	a.ranked = append(a.ranked, r)
}

// drop forgets a record. A loop over ranked keeps iterating over the old slice.
func (a *registry) drop(uid types.UID) {
	r := a.of[uid]
	delete(a.of, uid)
	if r != nil && r.Alloc != nil {
		a.given.Changed() // the next write includes it
	}
	if r != nil && r.remembers() != nil {
		a.stops.Changed()
	}
	if r != nil && r.State == podset.Waiting && r.lives {
		a.unclaimed[uid] = pods.Child{Pod: r.podRef(), Life: r.first} // it is an orphan now
	}
	// One that had not begun, and runs since an earlier agent, is an orphan now: it keeps what it has until it is down.
	if r != nil && (r.State != podset.Waiting || !a.runs(r)) {
		a.release(r)
	}
	left := make([]*record, 0, len(a.ranked)) // a new slice: see above
	for _, o := range a.ranked {
		if o != r {
			left = append(left, o)
		}
	}
	a.ranked = left
}

// entries are all pods, oldest first.
func (a *registry) entries() iter.Seq[*podset.Entry] {
	ranked := a.ranked
	return func(yield func(*podset.Entry) bool) {
		for _, r := range ranked {
			if !yield(&r.Entry) {
				return
			}
		}
	}
}

// runs says whether a pod that waits runs already: an earlier agent or incarnation of this actor has admitted it.
func (a *registry) runs(r *record) bool { return r.lives || podset.Runs(a.runtime[r.Pod.UID]) }

// podRef is what the runtime calls the pod.
func (r *record) podRef() observed.PodRef {
	return observed.PodRef{UID: r.Pod.UID, Namespace: r.Pod.Namespace, Name: r.Pod.Name}
}

// occupies says whether a pod has begun and still has its resources: something of it may run.
func (r *record) occupies() bool { return r.State == podset.Running && !r.Down }

// beside lists the pods that run beside one, with the resources that are taken by each. One that was admitted, by an
// earlier incarnation too, and waits, for CPUs of its own for example, counts already. One of which nothing runs any
// more does not, nor does one that the apiserver does not have any more: the scheduler has given its place to others.
func (a *registry) beside(r *record) (others []*v1.Pod) {
	for _, o := range a.ranked {
		if o != r && (o.occupies() && !o.Released() || o.State == podset.Waiting && (o.place.state.asked() || o.lives)) {
			others = append(others, o.holds())
		}
	}
	return others
}

// uids lists the UIDs of all pods, oldest first.
func (a *registry) uids() []types.UID {
	out := make([]types.UID, len(a.ranked))
	for i, r := range a.ranked {
		out[i] = r.Pod.UID
	}
	return out
}

// living is the set of pods that garbage collection must not touch: see Living. Of a pod that has ended for good, the
// apiserver knows that, or the checkpoint knows that it was evicted.
func (a *registry) living(m Living) map[types.UID]bool {
	living := make(map[types.UID]bool, len(a.of))
	for uid, r := range a.of { // order-free: a set
		if r.State == podset.Collecting || r.State == podset.Finished && m.Up ||
			r.State == podset.Rejected && (m.Up || m.Spent && a.left(r)) {
			continue
		}
		living[uid] = (!m.Spent || !r.Spent()) && (!m.Ended || !r.EndedForGood())
	}
	for uid := range a.unread { // order-free: a set
		living[uid] = true // something of it may run
	}
	return living
}
