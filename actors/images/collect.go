package images

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/actors/checkpoint"
	"github.com/troupe-dev/troupe/actors/decide/eviction"
	"github.com/troupe-dev/troupe/actors/decide/imagecache"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/portcall"
)

// Collect is what the removal of images is connected to.
type Collect struct {
	Policy  imagecache.GCPolicy
	Runtime Lister
	// Left measures the disk that images are on (port.Pressure); nil if nothing measures it: then images go by
	// age alone.
	Left func(ctx context.Context, done func(eviction.Reading, error))
	// Mounted asks which images pods have as volumes; no list shows that. all is false while a pod may run that is
	// not known yet. Nil: no pod has any.
	Mounted func(reply func(names []string, all bool))
	// Ahead are the names of images that are pulled before a pod wants them: those that no pod has used go first. Listed
	// and Removed, if set, are told which images there were at a time, and what was removed.
	Ahead   []string
	Listed  func(list []observed.Image, at time.Time)
	Removed func(id string)
	// Node is the object of its events.
	Node string
	// Checkpoints store when images were used last.
	Checkpoints port.Checkpoints
	// Period is the time between looks at the disk, ListPeriod between lists of what is in use, and Deadline
	// bounds one call.
	Period, ListPeriod, Deadline time.Duration
}

// Lister is what the removal of images uses of port.Runtime.
type Lister interface {
	ListImages(ctx context.Context, done func([]observed.Image, error))
	List(ctx context.Context, uid string, done func(observed.Runtime, error))
	RemoveImage(ctx context.Context, image string, done func(error))
}

// collector is the state of the removal of images.
//
//	      Period, Reclaim               over the threshold,
//	idle ────────────────► measuring ──list due, Reclaim──► listing ──► inspecting ──► asking ──► removing
//	  ▲                        │  ▲                            │            │            │           │
//	  └────────────────────────┴──┼─────────failed─────────────┴────────────┴────────────┘           │
//	  ▲                           └────────────by space, and something was removed───────────────────┤
//	  └──────────────────────────────────────────────────nothing left to remove─────────────────────┘
//
// listing lists images, inspecting the containers that use them: an image of which a container was made in
// between is in use. asking asks which images pods have as volumes, if there is one that no container uses; see
// ask. An image that a pod wants is never removed, from the moment it asks for it until it is
// taken down. A pod that asks for an image that is being removed waits for the end of the removal, and then pulls it.
type collector struct {
	stage stage
	// pending is the effect of the stage; removing those of removals, by image ID.
	pending  kernel.EffectID
	removing map[string]kernel.EffectID
	// now are answered at the end of this round, later by the next.
	now, later []func(error)
	// excess is what the disk has too much.
	excess uint64
	disk   eviction.Left
	list   []observed.Image
	// used are the IDs of images in the list that are known to be in use.
	used  map[string]bool
	queue []imagecache.Removal
	// gone are the images that were removed, and freed their sizes. before were gone when this list was made.
	gone, before int
	freed        uint64
	// err is what went wrong first in this round; kept: an image could not be removed.
	err  error
	kept bool
	// begun is when this round began, listedAt when the last one with a list did.
	begun, listedAt time.Time
	// toldAt is the time of the last event about trouble, by reason.
	toldAt map[string]time.Time
	ages   imagecache.Ages
	// loading and saving are effects with the checkpoint; dirty: it differs from ages.
	loading, saving kernel.EffectID
	dirty           bool
}

// all says that this round removes all it may: somebody asked for it.
func (c *collector) all() bool { return len(c.now) > 0 }

type stage uint8

const (
	idle stage = iota
	measuring
	listing
	inspecting
	asking
	removing
)

const (
	// removals bounds how many images are removed at a time.
	removals = 4
	// tellEvery is the time between events with the same reason.
	tellEvery = 5 * time.Minute
)

// agesFile is the checkpoint with the times when images were used last.
var agesFile = checkpoint.File[imagecache.Ages]{
	Name: "images", Valid: validAges,
	Without: "continuing without it: the ages of unused images count from now",
}

func validAges(ages *imagecache.Ages) error {
	for id, age := range *ages { // order-free: any is enough
		if age.Seen.IsZero() {
			return fmt.Errorf("image %s was never seen", id)
		}
	}
	return nil
}

func (a *images) startCollecting(ctx *kernel.Context[Message]) {
	c := &a.collector
	c.loading = checkpoint.Load(ctx, a.deps.Collect.Checkpoints, &agesFile,
		func(id kernel.EffectID, content checkpoint.Content) Message { return agesLoaded{id, content} })
	// Pods that waited before a restart ask again first.
	ctx.After(a.deps.Collect.Period, collect{})
}

func (a *images) agesLoaded(ctx *kernel.Context[Message], m agesLoaded) {
	c := &a.collector
	if c.loading != m.id {
		return
	}
	c.loading = 0
	c.ages = agesFile.Take(ctx.Log(), &m.content)
}

func (a *images) agesSaved(ctx *kernel.Context[Message], m agesSaved) {
	c := &a.collector
	if c.saving != m.id {
		return
	}
	c.saving = 0
	if m.err != nil {
		c.dirty = true // written with the next list
		ctx.Log().Warn().Str("error", m.err.Error()).
			Msg("cannot write the checkpoint of when images were last used; retrying")
	}
}

// wanted are the names of images that pods want, and of those that are being pulled, sorted.
func (a *images) wanted() []string {
	var names []string
	for _, of := range a.held { // order-free: sorted below
		for _, e := range of.List() {
			names = append(names, e.Value)
		}
	}
	for name, i := range a.of { // order-free: sorted below
		if i.Stage.Under() {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (a *images) reclaim(ctx *kernel.Context[Message], m Reclaim) {
	if a.deps.Collect == nil {
		m.Reply(nil)
		return
	}
	a.collector.later = append(a.collector.later, m.Reply)
	a.begin(ctx)
}

// begin begins a round, unless one is under way.
func (a *images) begin(ctx *kernel.Context[Message]) {
	c := &a.collector
	if c.stage != idle {
		return
	}
	c.now, c.later = c.later, nil
	c.gone, c.before, c.freed, c.err, c.kept, c.begun = 0, 0, 0, nil, false, ctx.Now()
	a.measure(ctx)
}

func (a *images) collecting(kind, object string) kernel.Effect[Message] {
	return kernel.Effect[Message]{Kind: kind, Object: object, Lane: "collect/" + object, Deadline: a.deps.Collect.Deadline}
}

func (a *images) measure(ctx *kernel.Context[Message]) {
	c := &a.collector
	switch {
	case c.all():
		c.excess = 0
		a.listImages(ctx)
		return
	case a.deps.Collect.Left == nil:
		a.unlessListed(ctx)
		return
	}
	c.stage = measuring
	c.pending = portcall.Do(ctx, a.collecting("Left", ""), a.deps.Collect.Left,
		func(id kernel.EffectID, r eviction.Reading, err error) Message { return measured{id, r, err} })
}

func (a *images) measured(ctx *kernel.Context[Message], m measured) {
	c := &a.collector
	if c.pending != m.id {
		return
	}
	c.disk = m.left.ImageFS.Bytes
	switch {
	case a.deps.Collect.Policy.NoSize(m.left.ImageFS):
		a.trouble(ctx, "InvalidDiskCapacity", "invalid capacity 0 on image filesystem")
	case !c.disk.Known && m.err != nil:
		a.trouble(ctx, gcFailed, fmt.Sprintf("cannot measure the disk of images: %s", port.Detail(m.err)))
	}
	c.excess = a.deps.Collect.Policy.Excess(c.disk)
	a.unlessListed(ctx)
}

// unlessListed ends a round in which there is no need for a list.
func (a *images) unlessListed(ctx *kernel.Context[Message]) {
	c := &a.collector
	if c.excess == 0 && (c.gone > 0 || c.begun.Sub(c.listedAt) < a.deps.Collect.ListPeriod) {
		a.end(ctx)
		return
	}
	a.listImages(ctx)
}

// listImages lists the images, and then the containers.
func (a *images) listImages(ctx *kernel.Context[Message]) {
	c := &a.collector
	c.stage = listing
	c.pending = portcall.Do(ctx, a.collecting("ListImages", ""), a.deps.Collect.Runtime.ListImages,
		func(id kernel.EffectID, l []observed.Image, err error) Message { return listed{id, l, err} })
}

func (a *images) listed(ctx *kernel.Context[Message], m listed) {
	if !a.answered(ctx, m.id, m.err) {
		return
	}
	c := &a.collector
	c.list, c.stage = m.list, inspecting
	c.pending = portcall.Do(ctx, a.collecting("List", ""),
		func(cc context.Context, done func(observed.Runtime, error)) {
			a.deps.Collect.Runtime.List(cc, "", observed.WholeOnly(done))
		},
		func(id kernel.EffectID, r observed.Runtime, err error) Message { return inspected{id, r, err} })
}

func (a *images) inspected(ctx *kernel.Context[Message], m inspected) {
	if !a.answered(ctx, m.id, m.err) {
		return
	}
	c := &a.collector
	c.used = imagecache.InUse(c.list, &m.runtime, a.wanted())
	if a.deps.Collect.Mounted != nil && len(imagecache.Candidates(c.list, c.used, c.ages)) > 0 {
		a.ask(ctx)
		return
	}
	a.plan(ctx)
}

// plan decides which images of the list are removed, and begins.
func (a *images) plan(ctx *kernel.Context[Message]) {
	c, now := &a.collector, ctx.Now()
	c.ages, c.listedAt, c.dirty = c.ages.See(c.list, c.used, now), c.begun, true
	a.prune(ctx, c.list, c.begun)
	if a.deps.Collect.Listed != nil {
		a.deps.Collect.Listed(c.list, c.begun)
	}
	ahead := imagecache.IDs(c.list, a.deps.Collect.Ahead)
	candidates := imagecache.AheadFirst(imagecache.Candidates(c.list, c.used, c.ages), c.ages, ahead)
	if c.all() {
		c.queue = imagecache.RemoveAll(candidates)
	} else {
		var found uint64
		c.queue, found = a.deps.Collect.Policy.Plan(candidates, c.ages, ahead, c.excess, now)
		if found < c.excess && len(c.queue) == 0 {
			a.trouble(ctx, "FreeDiskSpaceFailed", imagecache.StaysFull(c.disk, c.freed, c.excess))
		}
	}
	c.before = c.gone
	c.list, c.used, c.pending, c.stage = nil, nil, 0, removing
	a.removeMore(ctx)
}

// removeMore begins removals while there is room for more, and goes on when none is left.
func (a *images) removeMore(ctx *kernel.Context[Message]) {
	c, wanted := &a.collector, a.wanted()
	for len(c.queue) > 0 && len(c.removing) < removals {
		next := c.queue[0]
		c.queue = c.queue[1:]
		// a predecessor may be removing it, or a pod may have asked for it since
		if c.removing[next.Image.ID] != 0 ||
			imagecache.InUse([]observed.Image{next.Image}, &observed.Runtime{}, wanted)[next.Image.ID] {
			continue
		}
		a.remove(ctx, next)
	}
	if len(c.removing) > 0 {
		return
	}
	if c.excess > 0 && c.gone > c.before && c.err == nil && !c.all() {
		c.excess = 0
		a.measure(ctx) // images share layers: less may be free than they were said to take
		return
	}
	a.end(ctx)
}

func (a *images) remove(ctx *kernel.Context[Message], r imagecache.Removal) {
	id := r.Image.ID
	ctx.Log().Info().Str("image", id).Strs("names", r.Image.RepoTags).Uint64("bytes", r.Image.SizeBytes).
		Str("reason", string(r.Reason)).Msg("removing unused image")
	delete(a.records.touched, id)
	a.collector.removing[id] = portcall.Do0(ctx, a.collecting("RemoveImage", id),
		func(cc context.Context, done func(error)) { a.deps.Collect.Runtime.RemoveImage(cc, id, done) },
		func(e kernel.EffectID, err error) Message { return removed{e, id, r.Image.SizeBytes, r.Reason, err} })
}

func (a *images) removed(ctx *kernel.Context[Message], m removed) {
	c := &a.collector
	if c.removing[m.image] != m.id || m.id == 0 {
		return
	}
	delete(c.removing, m.image)
	switch {
	case m.err == nil:
		c.gone, c.freed = c.gone+1, c.freed+m.bytes
		delete(c.ages, m.image)
		a.imageRemoved(ctx, m.image)
		if a.deps.Collect.Removed != nil {
			a.deps.Collect.Removed(m.image)
		}
		if a.deps.Counts != nil {
			a.deps.Counts.ImageRemoved(m.reason)
		}
	case c.err == nil:
		c.err, c.kept = m.err, true
	}
	// What was known of images may no longer be true, and what is being looked for is from before.
	a.advanceEach(ctx, func(i *image) { i.Unsure() })
	if c.stage == removing { // else it is a predecessor's, and this round has not come so far
		a.removeMore(ctx)
	}
}

// answered says whether a list is that of this stage and could be made. If it could not, the round ends.
func (a *images) answered(ctx *kernel.Context[Message], id kernel.EffectID, err error) bool {
	switch c := &a.collector; {
	case c.pending != id:
		return false
	case err != nil:
		c.err = err
		a.end(ctx)
		return false
	}
	return true
}

// end ends a round.
func (a *images) end(ctx *kernel.Context[Message]) {
	c := &a.collector
	switch {
	case c.err == nil:
	case c.kept && c.excess > 0:
		a.trouble(ctx, gcFailed, fmt.Sprintf("wanted to free %d bytes, but freed %d bytes space with errors in image "+
			"deletion: %s", c.excess, c.freed, port.Detail(c.err))) // a kubelet's words
	default:
		a.trouble(ctx, gcFailed, "cannot remove images: "+port.Detail(c.err))
	}
	replies := c.now
	c.stage, c.pending, c.now, c.queue, c.list, c.used = idle, 0, nil, nil, nil, nil
	if c.dirty && c.loading == 0 && c.saving == 0 {
		a.saveAges(ctx)
	}
	for _, reply := range replies {
		reply(c.err)
	}
	if len(c.later) > 0 {
		a.begin(ctx)
	}
}

func (a *images) saveAges(ctx *kernel.Context[Message]) {
	ages := a.collector.ages
	if ages == nil {
		ages = imagecache.Ages{}
	}
	a.collector.dirty = false
	a.collector.saving = checkpoint.Save(ctx, a.deps.Collect.Checkpoints, &agesFile, ages,
		func(id kernel.EffectID, err error) Message { return agesSaved{id, err} })
}

// gcFailed is the reason of an event that alerts watch for, whatever keeps images from being removed.
const gcFailed = "ImageGCFailed"

// trouble tells people that images could not be removed, not too often for each reason. What lasts is told under
// gcFailed as well: with a kubelet each collection that fails after one that has failed is.
func (a *images) trouble(ctx *kernel.Context[Message], reason, message string) {
	c := &a.collector
	now := ctx.Now()
	told, before := c.toldAt[reason]
	if before && now.Sub(told) < tellEvery {
		return
	}
	if c.toldAt == nil {
		c.toldAt = map[string]time.Time{}
	}
	c.toldAt[reason] = now
	ctx.Log().Warn().Str("reason", reason).Msg(message)
	a.deps.Events.Record(port.Event{Node: a.deps.Collect.Node, Warning: true, Reason: reason, Message: message, At: now})
	if reason != gcFailed && before && now.Sub(told) < 2*tellEvery {
		a.trouble(ctx, gcFailed, message)
	}
}
