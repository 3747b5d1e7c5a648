package checkpoint

import (
	"time"

	"github.com/rs/zerolog"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
)

// RetryAfter is how long a disk that has failed is left alone.
const RetryAfter = 5 * time.Second

// Journal is a checkpoint of an actor with messages of type M. It is read once. Then it is written, one write at a
// time, until it says what its actor knows. The actor hears of it by an Event in a message of its own, which it gives
// to Hear. It calls Changed, and then or later Write.
type Journal[M, T any] struct {
	Progress
	file  *File[T]
	store port.Checkpoints
	wrap  func(Event) M
}

// Event is the result of an effect of a journal, or its timer. An actor with several journals gives it to each of them.
type Event struct {
	id      kernel.EffectID // 0 for the timer
	content Content
	err     error
}

// News is what an Event says: that the checkpoint was Loaded or Saved, that a write Failed, or that a timer has fired
// and a write may be due Again. Nothing is that of another journal or incarnation, or that a read is retried.
type News uint8

// News. After a write that Failed there will be an Again, unless the File has RetryWithNext.
const (
	Nothing News = iota
	Loaded
	Saved
	Failed
	Again
)

// Load begins to read a checkpoint. wrap makes the message of an Event.
func (j *Journal[M, T]) Load(ctx *kernel.Context[M], store port.Checkpoints, f *File[T], wrap func(Event) M) {
	j.store, j.file, j.wrap = store, f, wrap
	j.Begin(Load(ctx, store, f, func(id kernel.EffectID, c Content) M { return wrap(Event{id: id, content: c}) }))
}

// Write begins a write, if one is due. content is what the checkpoint is to have, with all that has changed.
func (j *Journal[M, T]) Write(ctx *kernel.Context[M], content func() T) {
	if wrap := j.wrap; j.state == Dirty {
		saved := func(id kernel.EffectID, err error) M { return wrap(Event{id: id, err: err}) }
		j.Begin(Save(ctx, j.store, j.file, content(), saved))
	}
}

// WriteAfter begins no write before some time is over, if one is due: then the News is Again.
func (j *Journal[M, T]) WriteAfter(ctx *kernel.Context[M], wait time.Duration) {
	if j.state == Dirty {
		j.Postpone()
		ctx.After(wait, j.wrap(Event{}))
	}
}

// Hear handles an event. The content is that of Loaded.
func (j *Journal[M, T]) Hear(ctx *kernel.Context[M], e Event) (news News, content T) {
	switch {
	case e.id == 0:
		if j.TimeIsUp(); j.state == Unread {
			j.Load(ctx, j.store, j.file, j.wrap)
		}
		return Again, content
	case !j.IsUnderWay(e.id):
		return Nothing, content
	case j.state == Loading && j.file.Awaits != "" && e.content.unread():
		ctx.Log().Error().Str("checkpoint", j.file.Name).Str("error", e.content.err.Error()).
			Msg("cannot read checkpoint; " + j.file.Awaits)
		j.End(false)
		ctx.After(RetryAfter, j.wrap(Event{}))
		return Nothing, content
	case j.state == Loading:
		j.End(true)
		return Loaded, j.file.Take(ctx.Log(), &e.content)
	}
	if j.End(e.err == nil); e.err == nil {
		return Saved, content
	}
	level := zerolog.WarnLevel
	if j.file.Awaits != "" {
		level = zerolog.ErrorLevel
	}
	ctx.Log().WithLevel(level).Str("checkpoint", j.file.Name).Str("error", e.err.Error()).Msg(j.file.Unwritten)
	if !j.file.RetryWithNext {
		j.WriteAfter(ctx, RetryAfter)
	}
	return Failed, content
}
