package prepull

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/actors/checkpoint"
	"github.com/troupe-dev/troupe/actors/decide/eviction"
	"github.com/troupe-dev/troupe/actors/decide/imagecache"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/portcall"
)

// longest is how long a pull may take, with all that it waits for.
const longest = 24 * time.Hour

// Runtime is what the actor uses of port.Runtime.
type Runtime interface {
	ImageStatus(ctx context.Context, image string, done func(img observed.Image, ok bool, err error))
}

// Counts is told what has become of the images, for metrics. It must not block.
type Counts interface{ PulledAhead(imagecache.Counts) }

// Deps are what the actor is connected to.
type Deps struct {
	Images  []imagecache.Image
	Runtime Runtime
	// Load asks images how busy pulls are, Pull for the pull of an image, and Stop for its end. Reply must not block.
	Load func(reply func(imagecache.Load))
	Pull func(image string, reply func(imagecache.End))
	Stop func(image string)
	// Left measures the disk of images; nil: nothing does. Low is imageGCLowThresholdPercent.
	Left        func(ctx context.Context, done func(eviction.Reading, error))
	Low         int
	Checkpoints port.Checkpoints
	Deadline    time.Duration // of a call
	Counts      Counts        // nil for none
}

// New makes the constructor of the actor.
func New(deps *Deps) func() kernel.Behavior[Message] {
	return func() kernel.Behavior[Message] {
		return &prepull{deps: deps, calls: map[imagecache.Do]kernel.EffectID{}}
	}
}

// notes is the checkpoint with what became of the images.
var notes = checkpoint.File[map[string]imagecache.Note]{
	Name: "images-ahead", Valid: func(*map[string]imagecache.Note) error { return nil },
	Without: "continuing without it: an image that did not fit on the disk may be pre-pulled once more",
}

type prepull struct {
	deps *Deps
	run  *imagecache.Run
	// calls are the newest effects of each kind: answers of others are late.
	calls map[imagecache.Do]kernel.EffectID
	begun int // how many were begun
	// loading and saving are effects with the checkpoint, 0 for none.
	loading, saving kernel.EffectID
	timer           kernel.Alarm[Message]
}

// Start implements kernel.Behavior.
func (a *prepull) Start(ctx *kernel.Context[Message]) {
	a.run = imagecache.NewRun(a.deps.Images, a.deps.Left != nil, a.deps.Low, ctx.Now())
	a.loading = checkpoint.Load(ctx, a.deps.Checkpoints, &notes,
		func(id kernel.EffectID, content checkpoint.Content) Message { return loaded{id, content} })
}

// Receive implements kernel.Behavior.
func (a *prepull) Receive(ctx *kernel.Context[Message], m Message) {
	now, step := ctx.Now(), imagecache.Step{}
	switch m := m.(type) {
	case Listed:
		step = a.run.Listed(m.List, m.At, now)
	case Removed:
		step = a.run.Gone(m.ID, now)
	case ImagesRestarted:
		ctx.Cancel(a.calls[imagecache.Ask])
		ctx.Cancel(a.calls[imagecache.Pull])
		step = a.run.Restarted(now)
	case turn:
		step = a.run.Turn(now)
	case answered:
		if a.calls[m.answer.Do] != m.id {
			return // late
		}
		step = a.run.Answered(&m.answer, now)
	case loaded:
		if a.loading == m.id {
			step = a.run.Loaded(notes.Take(ctx.Log(), &m.content), now)
		}
	case saved:
		if a.saving != m.id {
			return
		}
		if a.saving = 0; m.err != nil { // written with the next change
			a.run.NotSaved()
			ctx.Log().Warn().Str("error", m.err.Error()).Msg("cannot write the checkpoint of pre-pulled images; retrying")
			return
		}
	}
	a.perform(ctx, step)
}

// perform does a step, and tells what has changed.
func (a *prepull) perform(ctx *kernel.Context[Message], step imagecache.Step) {
	for _, n := range a.run.News() {
		e := ctx.Log().Info()
		if n.Warn {
			e = ctx.Log().Warn()
		}
		e.Fields(n.Fields).Msg(n.Text)
	}
	if a.deps.Counts != nil {
		a.deps.Counts.PulledAhead(a.run.Count(ctx.Now()))
	}
	if a.saving == 0 && a.run.Dirty() {
		a.saving = checkpoint.Save(ctx, a.deps.Checkpoints, &notes, a.run.Unsaved(),
			func(id kernel.EffectID, err error) Message { return saved{id, err} })
	}
	if !step.At.IsZero() {
		a.timer.SetIn(ctx, max(step.At.Sub(ctx.Now()), 0), turn{})
	}
	switch step.Do {
	case imagecache.Wait:
	case imagecache.Ask:
		a.call(ctx, step, "AskPulls", func(c context.Context, done func(imagecache.Answer, error)) {
			untilCancelled(c, done)
			a.deps.Load(func(l imagecache.Load) { done(imagecache.Answer{Load: l}, nil) })
		})
	case imagecache.Look:
		a.call(ctx, step, "ImageStatus", func(c context.Context, done func(imagecache.Answer, error)) {
			a.deps.Runtime.ImageStatus(c, step.Name, func(img observed.Image, ok bool, err error) {
				done(imagecache.Answer{There: ok, ID: img.ID}, err)
			})
		})
	case imagecache.Measure:
		a.call(ctx, step, "Left", func(c context.Context, done func(imagecache.Answer, error)) {
			a.deps.Left(c, func(r eviction.Reading, _ error) { done(imagecache.Answer{Disk: r.ImageFS.Bytes}, nil) })
		})
	case imagecache.Pull:
		a.call(ctx, step, "Prepull", func(c context.Context, done func(imagecache.Answer, error)) {
			untilCancelled(c, done)
			a.deps.Pull(step.Name, func(e imagecache.End) { done(imagecache.Answer{End: e}, nil) })
		})
	case imagecache.Stop:
		a.deps.Stop(step.Name)
	}
}

// call begins the effect of a step.
func (a *prepull) call(
	ctx *kernel.Context[Message], step imagecache.Step, kind string,
	run func(context.Context, func(imagecache.Answer, error)),
) {
	a.begun++
	e := kernel.Effect[Message]{
		Kind: kind, Object: step.Name, Deadline: a.deps.Deadline,
		Lane: fmt.Sprintf("%d/%d", ctx.Incarnation(), a.begun), // one that was given up holds up no other
	}
	if step.Do == imagecache.Pull {
		e.Deadline, e.Patience = longest, longest
	}
	a.calls[step.Do] = portcall.Do(ctx, e, run, func(id kernel.EffectID, answer imagecache.Answer, err error) Message {
		if answer.Do = step.Do; err != nil {
			answer.Why, answer.Down = port.Detail(err), port.KindOf(err) == port.Unavailable
		}
		return answered{id, answer, err}
	})
}

// untilCancelled ends a question when nobody answers it any more.
func untilCancelled(c context.Context, done func(imagecache.Answer, error)) {
	c.(interface{ AfterFunc(func()) func() bool }).AfterFunc(func() {
		if errors.Is(c.Err(), context.Canceled) {
			done(imagecache.Answer{}, c.Err())
		}
	})
}
