// Package checkpoint has the state of an actor that must survive a restart of the agent: in a file, of which a Journal
// knows how far it is read and written.
//
// A checkpoint is JSON with a format's version and a checksum, see Seal, or has a Codec of its own: one that is shared
// with a kubelet. One that is damaged or can't be read is set aside, for people to look at, and its actor begins
// without it:
//
//	Load ──► data ──► Codec, Valid ──ok──► Content
//	          └─unreadable─┴─damaged─► SetAside ──► Content without a value ──Take──► one line in the log
//
// Noted before acted on: what others may know only when it would survive the agent has a Version, from Changed. It
// waits until the disk Has that, in the actor or in a Waiting, and after a write that failed for the next one. An
// actor that goes on then asks whether the version was Tried.
//
// Two actors do it in another way. assignments reads and writes up to three files as one, so that a pod has its CPUs
// and its memory or neither, and never goes on without those: it has a Progress, with effects of its own. images has a
// file for each image, written before a pull and after it.
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
	// Awaits ends a sentence too: what waits while the disk does not answer. Empty: then the agent goes on without it.
	// Unwritten is the sentence for a Journal that can't be written.
	Awaits, Unwritten string
	// RetryWithNext: a write that failed is retried with the next one that the actor asks for, and not by itself.
	RetryWithNext bool
	// Valid rejects content that no agent writes, and that its actor could not use.
	Valid func(*T) error
	// Codec is the form of the file; nil for that of Seal.
	Codec *Codec[T]
}

// Codec is the form of a file, with the version of its format: Format writes it, and Parse refuses others.
type Codec[T any] struct {
	Parse  func([]byte) (T, error)
	Format func(T) []byte
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

// unread: a disk did not answer. That says nothing about the file.
func (c *Content) unread() bool { return c.err != nil && c.aside == "" && c.asideErr == nil }

// Load reads a checkpoint. Give the content of the message to Take.
func Load[M, T any](
	ctx *kernel.Context[M], c port.Checkpoints, f *File[T], loaded func(id kernel.EffectID, content Content) M,
) kernel.EffectID {
	e := kernel.Effect[M]{Kind: "LoadCheckpoint", Object: f.Name, Lane: lane, Deadline: Deadline}
	if f.Awaits != "" {
		e.Deadline *= 2 // nobody goes on without it
	}
	return portcall.Do(ctx, e, func(cc context.Context, done func(Content, error)) {
		f.Read(cc, c, done)
	}, func(id kernel.EffectID, content Content, err error) M {
		if err != nil {
			content.err = err
		}
		return loaded(id, content)
	})
}

// Read is Load as a part of another effect. The error is that of a disk that does not answer.
func (f *File[T]) Read(ctx context.Context, c port.Checkpoints, done func(Content, error)) {
	c.Load(ctx, f.Name, func(data []byte, err error) { f.read(ctx, c, data, err, done) })
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

// Save replaces a checkpoint. content must be what its form can have. After an error the checkpoint is as it was,
// or, if the error is that of the deadline, may be replaced yet.
func Save[M, T any](
	ctx *kernel.Context[M], c port.Checkpoints, f *File[T], content T, saved func(id kernel.EffectID, err error) M,
) kernel.EffectID {
	e := kernel.Effect[M]{Kind: "SaveCheckpoint", Object: f.Name, Lane: lane, Deadline: Deadline}
	data := f.format(content)
	return portcall.Do0(ctx, e, func(cc context.Context, done func(error)) { c.Save(cc, f.Name, data, done) }, saved)
}

func (f *File[T]) format(content T) []byte {
	if f.Codec != nil {
		return f.Codec.Format(content)
	}
	data, err := json.Marshal(content)
	if err != nil {
		panic(err)
	}
	return Seal(data)
}
