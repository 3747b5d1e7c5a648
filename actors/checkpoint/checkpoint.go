// Package checkpoint has the effects that read and write a checkpoint file: state of an
// actor that must survive a restart of the agent.
package checkpoint

import (
	"context"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
)

const (
	// Deadline is how long a disk has to read or write one.
	Deadline = 10 * time.Second
	// lane is the owner's: a checkpoint is not read while it is written.
	lane = "checkpoint"
)

// Load reads the checkpoint of a name. The message is made of its data, nil if
// there is none of that name, or of what kept it from being read.
func Load[M any](ctx *kernel.Context[M], c port.Checkpoints, name string, loaded func(id kernel.EffectID, data []byte, err error) M) kernel.EffectID {
	const kind = "LoadCheckpoint"
	return ctx.Do(kernel.Effect[M]{
		Kind: kind, Object: name, Lane: lane, Deadline: Deadline,
		Run: func(cc context.Context, id kernel.EffectID, done func(M)) {
			c.Load(cc, name, func(data []byte, err error) { done(loaded(id, data, err)) })
		},
		Expired: func(id kernel.EffectID) M { return loaded(id, nil, late(kind, name)) },
	})
}

// Save replaces the checkpoint of a name. After an error it is as it was, or, if
// the error is that of the deadline, may be replaced yet.
func Save[M any](ctx *kernel.Context[M], c port.Checkpoints, name string, data []byte, saved func(id kernel.EffectID, err error) M) kernel.EffectID {
	const kind = "SaveCheckpoint"
	return ctx.Do(kernel.Effect[M]{
		Kind: kind, Object: name, Lane: lane, Deadline: Deadline,
		Run: func(cc context.Context, id kernel.EffectID, done func(M)) {
			c.Save(cc, name, data, func(err error) { done(saved(id, err)) })
		},
		Expired: func(id kernel.EffectID) M { return saved(id, late(kind, name)) },
	})
}

func late(verb, name string) error {
	return &port.Error{Kind: port.Deadline, Verb: verb, Object: name, Detail: fmt.Sprintf("no answer within %v", Deadline)}
}
