package images

import (
	"context"
	"time"

	"github.com/troupe-dev/troupe/actors/checkpoint"
	"github.com/troupe-dev/troupe/actors/credentials"
	"github.com/troupe-dev/troupe/actors/decide/eviction"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/pullahead"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/portcall"
)

// AheadPool is the pool of the one pull ahead: it begins when no pod is starting.
const AheadPool = "pull-ahead"

// Ahead are the images that are pulled before a pod wants them.
type Ahead struct{ Images []pullahead.Image }

// ahead is the pull of images before a pod wants them, one at a time.
//
//	      one is due, no pod waits
//	resting ──────────────────────► looking ──────────────────────────────► resting
//	  ▲  └────────────────────────► measuring ──room──► asking ──► pulling ───┐
//	  │                                 │no room          │           │       │
//	  └──a pod wants an image───────────┴─────────────────┴───────────┴─ended─┘
//
// asking asks for the credentials of the node. While pulling, the disk is measured every aheadWatch: a pull that would
// fill it over the low threshold of image garbage collection is given up. A pod that needs a pull has any other pull
// ahead given up; if its image is the one that is being pulled, it waits for that.
type ahead struct {
	list *pullahead.List
	// loading and saving are effects with the checkpoint; dirty: it differs from the list.
	loading, saving kernel.EffectID
	dirty           bool
	// wished is when a pod wanted an image last, or when the actor began.
	wished time.Time
	stage  aheadStage
	name   string
	// pending is the effect of the stage, but for pulling; watching a measurement while pulling.
	pending, watching kernel.EffectID
	// end is why the pull was given up; room is what was left on the disk when it began, in bytes.
	end  aheadEnd
	room uint64
	// failures are those of plugins.
	failures []string
	// timer is for the next turn, watch for the next measurement while pulling.
	timer, watch func() bool
}

type aheadStage uint8

const (
	resting aheadStage = iota
	lookingAhead
	measuringRoom
	askingNode
	pullingAhead
)

type aheadEnd uint8

const (
	goesOn aheadEnd = iota
	gaveWay
	outgrew
)

// aheadWatch is the time between measurements of the disk during a pull.
const aheadWatch = 5 * time.Second

// aheadTurn and aheadLook are this actor's own timers.
type (
	aheadTurn struct{}
	aheadLook struct{}
)

type aheadLooked struct {
	id   kernel.EffectID
	info *observed.Image
	ok   bool
	err  error
}

type aheadMeasured struct {
	id   kernel.EffectID
	left eviction.Reading
	err  error
}

type aheadFound struct {
	id    kernel.EffectID
	found credentials.Found
	err   error
}

type aheadLoaded struct {
	id      kernel.EffectID
	content checkpoint.Content
}

type aheadSaved struct {
	id  kernel.EffectID
	err error
}

func (aheadTurn) isImagesMessage()     {}
func (aheadLook) isImagesMessage()     {}
func (aheadLooked) isImagesMessage()   {}
func (aheadMeasured) isImagesMessage() {}
func (aheadFound) isImagesMessage()    {}
func (aheadLoaded) isImagesMessage()   {}
func (aheadSaved) isImagesMessage()    {}

// Outcome implements kernel.Outcome.
func (m aheadLooked) Outcome() (kernel.EffectID, error) { return m.id, m.err }

// Outcome implements kernel.Outcome.
func (m aheadMeasured) Outcome() (kernel.EffectID, error) { return m.id, m.err }

// Outcome implements kernel.Outcome.
func (m aheadFound) Outcome() (kernel.EffectID, error) { return m.id, m.err }

// Outcome implements kernel.Outcome.
func (m aheadLoaded) Outcome() (kernel.EffectID, error) { return m.id, m.content.Err() }

// Outcome implements kernel.Outcome.
func (m aheadSaved) Outcome() (kernel.EffectID, error) { return m.id, m.err }

// aheadFile is the checkpoint with what became of the images.
var aheadFile = checkpoint.File[map[string]pullahead.Note]{
	Name: "images-ahead", Valid: func(*map[string]pullahead.Note) error { return nil },
	Without: "continuing without it: an image that did not fit on the disk may be pulled ahead once more",
}

func (a *images) startAhead(ctx *kernel.Context[Message]) {
	h := &a.ahead
	h.wished = ctx.Now()
	if h.list.Empty() {
		return
	}
	if a.deps.Collect == nil {
		a.wakeAhead(ctx, h.wished.Add(pullahead.Quiet))
		return
	}
	h.loading = checkpoint.Load(ctx, a.deps.Collect.Checkpoints, &aheadFile,
		func(id kernel.EffectID, content checkpoint.Content) Message { return aheadLoaded{id, content} })
}

func (a *images) aheadLoaded(ctx *kernel.Context[Message], m aheadLoaded) {
	h := &a.ahead
	if h.loading != m.id {
		return
	}
	h.loading = 0
	h.list.Take(aheadFile.Take(ctx.Log(), &m.content))
	a.planAhead(ctx)
}

func (a *images) saveAhead(ctx *kernel.Context[Message]) {
	h := &a.ahead
	if !h.dirty || h.loading != 0 || h.saving != 0 || a.deps.Collect == nil {
		return
	}
	h.dirty = false
	h.saving = checkpoint.Save(ctx, a.deps.Collect.Checkpoints, &aheadFile, h.list.Notes(),
		func(id kernel.EffectID, err error) Message { return aheadSaved{id, err} })
}

func (a *images) aheadSaved(ctx *kernel.Context[Message], m aheadSaved) {
	h := &a.ahead
	if h.saving != m.id {
		return
	}
	h.saving = 0
	if m.err != nil {
		h.dirty = true // written with the next change
		ctx.Log().Warn().Str("error", m.err.Error()).Msg("cannot write what became of images pulled ahead; retrying")
		return
	}
	a.saveAhead(ctx)
}

// wakeAhead sets the one timer.
func (a *images) wakeAhead(ctx *kernel.Context[Message], at time.Time) {
	if a.ahead.timer != nil {
		a.ahead.timer()
	}
	a.ahead.timer = ctx.After(max(at.Sub(ctx.Now()), 0), aheadTurn{})
}

// rest ends what was being done for an image.
func (a *images) rest(ctx *kernel.Context[Message]) {
	h := &a.ahead
	if h.stage == pullingAhead {
		h.watch()
	}
	h.stage, h.name, h.pending, h.watching, h.end = resting, "", 0, 0, goesOn
	a.planAhead(ctx)
}

// planAhead begins with the next image, or sets the timer for it.
func (a *images) planAhead(ctx *kernel.Context[Message]) {
	h := &a.ahead
	if h.list.Empty() || h.stage != resting || h.loading != 0 {
		return
	}
	now := ctx.Now()
	if a.deps.Counts != nil {
		a.deps.Counts.PulledAhead(h.list.Count(now))
	}
	a.saveAhead(ctx)
	step := h.list.Next(pullahead.Facts{Now: now, Wished: h.wished, Busy: a.busy()})
	if step.Do == pullahead.Pull && !a.bucket.Full(now) {
		step = pullahead.Step{Do: pullahead.Wait, At: now.Add(pullahead.Quiet)}
	}
	switch step.Do {
	case pullahead.Wait:
		if !step.At.IsZero() {
			a.wakeAhead(ctx, step.At)
		}
	case pullahead.Look:
		a.lookAhead(ctx, step.Name)
	case pullahead.Pull:
		h.name, h.stage = step.Name, measuringRoom
		if a.deps.Collect == nil || a.deps.Collect.Left == nil {
			a.askAhead(ctx)
			return
		}
		h.pending = a.measureAhead(ctx)
	}
}

// busy says whether a pod waits for an image, or one is pulled for it.
func (a *images) busy() bool {
	for _, i := range a.of { // order-free: is there any
		if len(i.waiting) > 0 || i.pulling != 0 {
			return true
		}
	}
	return false
}

func (a *images) lookAhead(ctx *kernel.Context[Message], name string) {
	h := &a.ahead
	h.name, h.stage = name, lookingAhead
	e := kernel.Effect[Message]{Kind: "ImageStatus", Object: name, Lane: "ahead/" + name, Deadline: a.deps.CheckDeadline}
	h.pending = portcall.Do(ctx, e, func(c context.Context, done func(aheadLooked, error)) {
		a.deps.Runtime.ImageStatus(c, name, func(info observed.Image, ok bool, err error) {
			done(aheadLooked{info: &info, ok: ok}, err)
		})
	}, func(id kernel.EffectID, m aheadLooked, err error) Message {
		m.id, m.err = id, err
		return m
	})
}

func (a *images) aheadLooked(ctx *kernel.Context[Message], m aheadLooked) {
	h := &a.ahead
	if h.pending != m.id || h.stage != lookingAhead {
		return
	}
	switch {
	case m.err != nil:
		a.aheadFailed(ctx, m.err, "the runtime does not say whether it is there: "+detail(m.err))
		return
	case m.ok:
		h.list.Looked(h.name, m.info.ID, ctx.Now())
	default:
		h.list.Looked(h.name, "", ctx.Now())
	}
	a.rest(ctx)
}
