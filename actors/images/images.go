package images

import (
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/credentials"
	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/decide/imagecache"
	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/smallmap"
)

// PullPool is the pool of slots that bounds how many pulls run at once.
const PullPool = "pull"

// AheadPool is the pool of the one pull that no pod waits for: it begins when no pod is starting.
const AheadPool = "pull-ahead"

// pullKind and pullAheadKind are the kinds of effects of pulls, for pods and before a pod wants the image.
const (
	pullKind      = "PullImage"
	pullAheadKind = "PullImageAhead"
)

// Runtime is what the actor uses of port.Runtime.
type Runtime interface {
	PullImage(ctx context.Context, r port.PullImage, done func(ref string, err error))
	ImageStatus(ctx context.Context, image string, done func(img observed.Image, ok bool, err error))
}

// Deps are what the actor is connected to.
type Deps struct {
	Runtime Runtime
	Events  port.Recorder
	// Lookup asks what an image is pulled with apart from pull secrets. Reply must not block, and may never be called.
	// Left says whether nobody waits for it any more. Nil: nothing.
	Lookup func(image string, p *v1.Pod, left func() bool, reply func(credentials.Found))
	// Restarted is called when an incarnation after the first begins.
	Restarted func()
	Backoff   backoff.Policy
	// FreshFor is how long an ImageStatus answer is good for others. LookEvery is
	// how soon it is looked again for an image that may come by other means.
	FreshFor, LookEvery time.Duration
	// CheckDeadline and PullDeadline bound the two calls.
	CheckDeadline, PullDeadline time.Duration
	// Collect removes images that nobody uses; nil keeps all.
	Collect *Collect
	// Bucket limits how many pulls begin. The actor begins with a copy.
	Bucket imagepull.Bucket
	// Records are how images were pulled; nil: each pod may use each image that is there.
	Records *Records
	// Counts is nil for none.
	Counts Counts
}

// Counts is told what becomes of images, for metrics. It must not block.
type Counts interface {
	// ImageRemoved is told of each image that was removed because nobody used it.
	ImageRemoved(imagecache.Reason)
	// Verified is told of each check whether a pod may use an image that is there, by its result.
	Verified(result string)
	// Recorded is told how many intents and records of pulls there are.
	Recorded(intents, records int)
}

// New makes the constructor of the actor.
func New(deps *Deps) func() kernel.Behavior[Message] {
	return func() kernel.Behavior[Message] {
		a := &images{
			deps: deps, of: map[string]*image{}, held: map[types.UID]smallmap.Many[string, string]{}, records: newRecords(),
			bucket: deps.Bucket, turns: map[types.UID][]string{}, pulls: map[types.UID]int64{},
			lookers: map[kernel.EffectID]*imagepull.Waiter{},
		}
		return a
	}
}

type images struct {
	deps *Deps
	of   map[string]*image
	// held are the images of living pods, by container: no list shows yet that they are used.
	//
	// Invariant: a container that waits for an image waits for that one.
	held      map[types.UID]smallmap.Many[string, string]
	collector collector
	records   records
	bucket    imagepull.Bucket
	// turns are the images for which a pod waits for a turn, pulls how many are being pulled for it. See share.go.
	turns map[types.UID][]string
	pulls map[types.UID]int64
	// lowest is the request of prepull; nil for none.
	lowest *imagepull.Waiter
	// wished is when a pod wanted an image last, or when the actor began.
	wished  time.Time
	lookups int // how many lookups of credentials were begun
	// lookers are those for whom one is under way, by its effect.
	lookers map[kernel.EffectID]*imagepull.Waiter
}

// Check implements kernel.Checked.
func (a *images) Check() error {
	for name, i := range a.of { // order-free: any of them is told
		if err := i.Check(); err != nil {
			return err
		}
		for _, w := range i.Waiting {
			if w.Lowest {
				continue
			}
			if held := a.held[w.Pod.UID]; held.At(w.Ask.Container) != name {
				return fmt.Errorf("images: held: a container that waits for an image waits for that one: %s of %s waits for %s",
					w.Ask.Container, w.Pod.UID, name)
			}
		}
	}
	return nil
}

// Start implements kernel.Behavior.
func (a *images) Start(ctx *kernel.Context[Message]) {
	a.collector.removing = map[string]kernel.EffectID{}
	for _, e := range ctx.InFlight() {
		if e.Kind == "RemoveImage" {
			a.collector.removing[e.Object] = e.ID
		}
		if name, ok := e.Tag.(string); ok && (e.Kind == pullKind || e.Kind == pullAheadKind) {
			i := a.get(name)
			if i.call = e.ID; i.Stage == imagepull.Idle {
				i.Inherit(e.Since)
			}
		}
	}
	if a.deps.Collect != nil {
		a.startCollecting(ctx)
	}
	a.loadRecords(ctx)
	a.wished = ctx.Now()
}

// Resync implements kernel.Resyncer.
func (a *images) Resync(*kernel.Context[Message]) { a.deps.Restarted() }

// Receive implements kernel.Behavior.
func (a *images) Receive(ctx *kernel.Context[Message], m Message) {
	switch m := m.(type) {
	case Ensure:
		a.ensure(ctx, m.EnsureImage)
	case Forget:
		a.forget(ctx, m.UID)
	case Retain:
		a.retain(ctx, m)
	case RuntimeBack:
		a.runtimeBack(ctx)
	case checked:
		a.checked(ctx, m)
	case pulled:
		a.pulled(ctx, m)
	case found:
		a.found(ctx, m)
	case CredentialsRestarted:
		a.lookUpAgain(ctx)
	case recordsLoaded:
		a.recordsLoaded(ctx, m)
	case settled:
		a.settled(ctx, m)
	case intended:
		a.intended(ctx, m)
	case recorded:
		a.recorded(ctx, m)
	case reload:
		a.loadRecords(ctx)
	case settleAgain:
		a.settleAgain(ctx, m.image)
	case retry:
		if i, ok := a.of[m.image]; ok {
			i.timer.Fired()
			a.advance(ctx, i)
			a.drop(ctx, i)
		}
	case Reclaim:
		a.reclaim(ctx, m)
	case collect:
		ctx.After(a.deps.Collect.Period, collect{})
		a.begin(ctx)
	case measured:
		a.measured(ctx, m)
	case listed:
		a.listed(ctx, m)
	case inspected:
		a.inspected(ctx, m)
	case mounted:
		a.mounted(ctx, m)
	case askAgain:
		a.askAgain(ctx, m)
	case removed:
		a.removed(ctx, m)
	case agesLoaded:
		a.agesLoaded(ctx, m)
	case agesSaved:
		a.agesSaved(ctx, m)
	case AskLoad:
		m.Reply(imagecache.Load{Wished: a.wished, Busy: a.busy(), Free: a.bucket.Full(ctx.Now())})
	case Prepull:
		a.prepull(ctx, m)
	case StopPrepull:
		a.stopPrepull(ctx, m.Image)
	}
}

func (a *images) runtimeBack(ctx *kernel.Context[Message]) {
	a.advanceEach(ctx, func(i *image) { i.LookAnew() })
}

func (a *images) ensure(ctx *kernel.Context[Message], m pod.EnsureImage) {
	uid := m.Pod.UID
	mine := func(w *imagepull.Waiter) bool { return w.Pod.UID == uid && w.Ask.Container == m.Ask.Container }
	held := a.held[uid]
	was := held.At(m.Ask.Container)
	if was != m.Ask.Image { // its image was changed
		a.release(ctx, was, mine)
	}
	w := &imagepull.Waiter{Pod: m.Pod, Ask: m.Ask, Secrets: m.Secrets, Asker: &asker{reply: m.ReplyTo}}
	if _, err := imagepull.ParseReference(m.Ask.Image); err != nil {
		text := imagepull.InvalidNameMessage(m.Ask.Image, err)
		a.event(ctx, w, true, "InspectFailed", text)
		a.tell(w, imagepull.Status{State: imagepull.Failed, Reason: imagepull.InvalidImageName, Message: text})
		return
	}
	held.Set(m.Ask.Container, m.Ask.Image)
	a.held[uid] = held
	a.wished = ctx.Now()
	i, n := a.get(m.Ask.Image), -1
	if was == m.Ask.Image { // else it does not wait, and thousands may
		n = slices.IndexFunc(i.Waiting, mine)
	}
	if n >= 0 && of(i.Waiting[n]).reply == m.ReplyTo && i.Waiting[n].Same(w) {
		of(i.Waiting[n]).again = true
		i.Refresh(i.Waiting[n], m.Secrets) // only what it pulls with may be new
		a.advanceThose(ctx, i, i.Waiting[n:n+1:n+1])
		return
	}
	if n >= 0 {
		i.Replace(i.Waiting[n], w)
		a.leave(ctx, i, mine)
	}
	i.Waiting = append(i.Waiting, w)
	a.advanceThose(ctx, i, []*imagepull.Waiter{w})
}

func (a *images) forget(ctx *kernel.Context[Message], uid types.UID) {
	var names []string
	held := a.held[uid]
	for _, e := range held.List() {
		names = append(names, e.Value)
	}
	slices.Sort(names)
	delete(a.held, uid)
	a.forgetTurns(uid)
	for _, i := range a.of { // order-free: of each
		i.Forget(uid)
	}
	for _, name := range slices.Compact(names) {
		a.release(ctx, name, func(w *imagepull.Waiter) bool { return w.Pod.UID == uid })
	}
}
