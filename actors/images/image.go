package images

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/decide/observed"
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
	// checkedAt is when the runtime last answered, info and present what.
	checkedAt time.Time
	present   bool
	info      *observed.Image // shared, never changed
	// failures of pulls since the last success, looks of looks.
	failures, looks imagepull.Failures
	// begun is when the pull under way was asked for. took is the duration of the last one that worked,
	// waited with the time in the queue.
	begun        time.Time
	took, waited time.Duration
	// with is what the pull under way is made with, next what is tried after it,
	// and tried what failed since the last success or the last backoff.
	with        imagepull.Credential
	next, tried []imagepull.Credential
	// inherited: the pull under way is a predecessor's; its credential is unknown.
	inherited bool
	// ahead: the pull under way was begun before a pod wanted the image.
	ahead bool
	// turnAt is when the next pull may begin; zero: it has no turn yet.
	turnAt time.Time
	// by is whose the credential of the pull under way is.
	by      []imagepull.Offer
	timer   func() bool
	waiting []*waiter
}

// waiter is one container that waits for an image.
type waiter struct {
	pod     *v1.Pod
	ask     imagepull.Request
	reply   kernel.Ref[pod.Message]
	secrets secrets
	lookup
	// told is what it was told last; pulled, that a pull was made for it.
	told   imagepull.Image
	pulled bool
	// verdict is whether it may use the image that is there.
	verdict verdict
}

func (a *images) get(name string) *image {
	i := a.of[name]
	if i == nil {
		i = &image{name: name}
		a.of[name] = i
	}
	return i
}

// drop forgets an image that no pod waits for. Its backoff is remembered until
// it is over: a pod that is made again does not shorten it.
func (a *images) drop(ctx *kernel.Context[Message], i *image) {
	if len(i.waiting) > 0 || i.pulling != 0 || i.checking != 0 {
		return
	}
	if at := i.failures.RetryAt(a.deps.Backoff); ctx.Now().Before(at) {
		a.wake(ctx, i, at)
		return
	}
	if i.timer != nil {
		i.timer()
	}
	delete(a.of, i.name)
}
