// Package checkpoint has the effects that read and write a checkpoint file: state of an
// actor that must survive a restart of the agent.
package checkpoint

import (
	"context"
	"time"

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

// Load reads the checkpoint of a name. The message is made of its data, nil if
// there is none of that name, or of what kept it from being read.
func Load[M any](
	ctx *kernel.Context[M], c port.Checkpoints, name string, loaded func(id kernel.EffectID, data []byte, err error) M,
) kernel.EffectID {
	e := kernel.Effect[M]{Kind: "LoadCheckpoint", Object: name, Lane: lane, Deadline: Deadline}
	return portcall.Do(ctx, e, func(cc context.Context, done func([]byte, error)) { c.Load(cc, name, done) }, loaded)
}

// Save replaces the checkpoint of a name. After an error it is as it was, or, if
// the error is that of the deadline, may be replaced yet.
func Save[M any](
	ctx *kernel.Context[M], c port.Checkpoints, name string, data []byte, saved func(id kernel.EffectID, err error) M,
) kernel.EffectID {
	e := kernel.Effect[M]{Kind: "SaveCheckpoint", Object: name, Lane: lane, Deadline: Deadline}
	return portcall.Do0(ctx, e, func(cc context.Context, done func(error)) { c.Save(cc, name, data, done) }, saved)
}
