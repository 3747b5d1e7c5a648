package images

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/pullahead"
	"github.com/troupe-dev/troupe/actors/decide/pullrecord"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pod"
)

// image is all that is known of one image.
type image struct {
	name string
	// checking and pulling are the effects under way, 0 for none. Results of
	// others are late.
	checking kernel.EffectID
	pulling  kernel.EffectID
	// asked is pulling while that is a call of the runtime, and not what comes before it. abandoned: the call was given
	// up, because nobody waited for it any more.
	asked     kernel.EffectID
	abandoned bool
	// checkedAt is when the runtime last answered, info and present what.
	checkedAt time.Time
	present   bool
	info      *observed.Image // shared, never changed
	// failures are those of each pod's pulls since it last had the image, looks of looks.
	failures map[types.UID]failures
	looks    imagepull.Failures
	// begun is when the pull under way was asked for. took is the duration of the last one that worked, which was at
	// ended.
	begun, ended time.Time
	took         time.Duration
	// told are the pods of which a container was told that it is being pulled.
	told map[types.UID]bool
	// with is what the pull under way is made with, next what is tried after it,
	// and tried what failed before it.
	with  imagepull.Credential
	next  []imagepull.Credential
	tried []attempt
	// inherited: the pull under way is a predecessor's; its credential is unknown.
	inherited bool
	// turnAt is when the next pull may begin; zero: it has no turn yet. turnOf are the pods among whose turns it is.
	turnAt time.Time
	turnOf []types.UID
	// pullsOf is the pod that the pull under way is for.
	pullsOf types.UID
	// by is whose the credential of the pull under way is, of those who do not wait any more, or have others now.
	by []imagepull.Offer
	// parted is who was the last of them.
	parted purse
	// timer wakes it at wakeAt, the first time at which a waiter needs something; nil: it has fired, or was never set.
	timer   func() bool
	wakeAt  time.Time
	waiting []*waiter
}

// failures are the failed pulls of a pod. What the last one was made with is not tried again before its backoff is
// over.
type failures struct {
	imagepull.Failures
	with map[imagepull.Credential]bool
	// all are those of which it is known that with has all.
	all map[purse]bool
	// inTurn: one of them was no pull ahead of a container's turn.
	inTurn bool
}

// attempt is what a pull has failed with, and why.
type attempt struct {
	with imagepull.Credential
	err  string
}

// waiter is one container that waits for an image.
type waiter struct {
	pod   *v1.Pod
	ask   imagepull.Request
	reply kernel.Ref[pod.Message]
	// prepull is instead of pod and reply for the request of prepull, and gaveWay why that was given up.
	prepull func(pullahead.End)
	gaveWay pullahead.Outcome
	secrets *imagepull.Fit
	lookup
	// told is what it was told last; again, that it has asked since. pulled: a pull was made that brought it the image.
	told   imagepull.Image
	again  bool
	pulled bool
	// since is when people were told that it waits for a pull; zero if they were not, or that pull failed.
	since time.Time
	// served: it has it, and is about to leave.
	served bool
	// verdict is whether it may use the image that is there, and refusedBy the record that says that it may not.
	verdict   verdict
	refusedBy *pullrecord.Record
}

func (a *images) get(name string) *image {
	i := a.of[name]
	if i == nil {
		i = &image{name: name, failures: map[types.UID]failures{}}
		a.of[name] = i
	}
	return i
}

// drop forgets an image that no pod waits for. The backoffs of pods are remembered until they are over: one that asks
// again does not shorten its own.
func (a *images) drop(ctx *kernel.Context[Message], i *image) {
	a.leaveTurn(ctx, i)
	if len(i.waiting) > 0 || i.pulling != 0 || i.checking != 0 {
		return
	}
	var last time.Time
	for _, f := range i.failures { // order-free: the latest
		if at := f.RetryAt(a.deps.Backoff); at.After(last) {
			last = at
		}
	}
	if ctx.Now().Before(last) {
		a.wake(ctx, i, last)
		return
	}
	if i.timer != nil {
		i.timer()
	}
	delete(a.of, i.name)
}
