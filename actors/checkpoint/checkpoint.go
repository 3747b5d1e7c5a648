// Package checkpoint has the effects that read and write a checkpoint file: state of an
// actor that must survive a restart of the agent.
//
// A checkpoint is JSON with a checksum; see Seal. One that is damaged or can't be read is set aside, for
// people to look at, and its actor begins without it:
//
//	Load ──► data ──► checksum, JSON, Valid ──ok──► Content
//	          └─unreadable─┴────damaged────► SetAside ──► Content without a value ──Take──► one line in the log
package checkpoint

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/portcall"
)

const (
	// Deadline is how long a disk has to read or write one.
	Deadline = 10 * time.Second
	// lane is the owner's: a checkpoint is not read while it is written.
	lane = "checkpoint"
)

// File describes a checkpoint with content of type T.
type File[T any] struct {
	Name string
	// Without says what the agent does without the checkpoint, and what that changes for users. It ends
	// a sentence of the log.
	Without string
	// Valid rejects content that no agent writes, and that its actor could not use.
	Valid func(*T) error
}

// Content is what was read of a checkpoint. Only Take of its File looks into it.
type Content struct {
	data []byte
	// value is a *T; nil if there was no checkpoint, or if it can't be used.
	value any
	// err is why it can't be used. Then it was moved to aside; empty if that failed with asideErr, or if it
	// was not tried.
	err, asideErr error
	aside         string
}

// Err is why it can't be used; nil if it can, or if there was none.
func (c *Content) Err() error { return c.err }

// Load reads a checkpoint. Give the content of the message to Take.
func Load[M, T any](
	ctx *kernel.Context[M], c port.Checkpoints, f *File[T], loaded func(id kernel.EffectID, content Content) M,
) kernel.EffectID {
	e := kernel.Effect[M]{Kind: "LoadCheckpoint", Object: f.Name, Lane: lane, Deadline: Deadline}
	return portcall.Do(ctx, e, func(cc context.Context, done func(Content, error)) {
		c.Load(cc, f.Name, func(data []byte, err error) { f.read(cc, c, data, err, done) })
	}, func(id kernel.EffectID, content Content, err error) M {
		if err != nil {
			content.err = err
		}
		return loaded(id, content)
	})
}

// read decodes what Load got, and sets it aside if that is not possible.
func (f *File[T]) read(ctx context.Context, c port.Checkpoints, data []byte, err error, done func(Content, error)) {
	// These say nothing about the file. What is read too late says nothing about it either: its actor has gone on without
	// it, and may have written it since.
	if k := port.KindOf(err); k == port.Canceled || k == port.Deadline || k == port.Panic || ctx.Err() != nil {
		done(Content{}, cmp.Or(err, ctx.Err()))
		return
	}
	if err == nil && data == nil {
		done(Content{}, nil)
		return
	}
	if err == nil {
		var v *T
		if v, err = f.Open(data); err == nil {
			done(Content{data: data, value: v}, nil)
			return
		}
	}
	c.SetAside(ctx, f.Name, func(where string, asideErr error) {
		done(Content{data: data, err: err, aside: where, asideErr: asideErr}, nil)
	})
}

// Take returns the content, the zero value if there was none. If it could not be used, Take logs why, where
// it is now, and what the agent does without it.
func (f *File[T]) Take(log *zerolog.Logger, c *Content) T {
	if c.err != nil {
		e := log.Error().Str("checkpoint", f.Name).Str("error", c.err.Error())
		switch {
		case c.aside != "":
			e.Str("setAside", c.aside).Msg("checkpoint is damaged and was set aside; " + f.Without)
		case c.asideErr != nil:
			e.Str("setAsideError", c.asideErr.Error()).
				Msg("checkpoint is damaged and can't be set aside: it will be overwritten; " + f.Without)
		default:
			e.Msg("cannot read checkpoint; " + f.Without)
		}
	}
	if v, is := c.value.(*T); is {
		return *v
	}
	var none T
	return none
}

// Save replaces a checkpoint. content must be what JSON can have. After an error the checkpoint is as it was,
// or, if the error is that of the deadline, may be replaced yet.
func Save[M, T any](
	ctx *kernel.Context[M], c port.Checkpoints, f *File[T], content T, saved func(id kernel.EffectID, err error) M,
) kernel.EffectID {
	data, err := json.Marshal(content)
	if err != nil {
		panic(err)
	}
	return SaveJSON(ctx, c, f, data, saved)
}

// SaveJSON is Save for content that is encoded already.
func SaveJSON[M, T any](
	ctx *kernel.Context[M], c port.Checkpoints, f *File[T], content []byte, saved func(id kernel.EffectID, err error) M,
) kernel.EffectID {
	e := kernel.Effect[M]{Kind: "SaveCheckpoint", Object: f.Name, Lane: lane, Deadline: Deadline}
	sealed := Seal(content)
	return portcall.Do0(ctx, e, func(cc context.Context, done func(error)) { c.Save(cc, f.Name, sealed, done) }, saved)
}
