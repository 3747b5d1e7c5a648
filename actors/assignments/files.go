package assignments

import (
	"context"

	"github.com/troupe-dev/troupe/actors/checkpoint"
	"github.com/troupe-dev/troupe/actors/decide/cpus"
	"github.com/troupe-dev/troupe/actors/decide/devicestate"
	"github.com/troupe-dev/troupe/actors/decide/memory"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/portcall"
)

// stateDeadline is for all three files.
const stateDeadline = 3 * checkpoint.Deadline

func (a *assignments) load(ctx *kernel.Context[Message]) {
	e := kernel.Effect[Message]{Kind: "LoadState", Object: "state", Lane: "state", Deadline: stateDeadline}
	d := a.deps
	a.files.Begin(portcall.Do(ctx, e, func(c context.Context, done func(loaded, error)) {
		load(c, d.Rules.Static(), d.Files, cpus.FileName, func(cpus []byte, err error) {
			if err != nil {
				done(loaded{}, err)
				return
			}
			load(c, d.Memory != nil, d.Files, memory.FileName, func(memory []byte, err error) {
				if err != nil {
					done(loaded{}, err)
					return
				}
				given := func(content checkpoint.Content, err error) {
					done(loaded{cpus: cpus, memory: memory, given: content}, err)
				}
				if d.Plugins == nil {
					given(checkpoint.Content{}, nil)
					return
				}
				deviceFile.Read(c, d.DeviceFiles, given)
			})
		})
	}, func(id kernel.EffectID, m loaded, err error) Message {
		m.id, m.err = id, err
		return m
	}))
}

// deviceFile is the state file of devices. One that can't be read is set aside: a directory in its place, for example,
// could not be written either. One that is damaged stays until it is written: the agent tells by it which loss the
// extended resources of the Node were reset for.
var deviceFile = checkpoint.File[[]byte]{
	Name: devicestate.Name, Without: "the devices that running containers have are not known",
	Codec: &checkpoint.Codec[[]byte]{Parse: func(data []byte) ([]byte, error) { return data, nil }},
}

func load(c context.Context, is bool, from port.Checkpoints, name string, done func([]byte, error)) {
	if !is {
		done(nil, nil)
		return
	}
	from.Load(c, name, done)
}

// save writes the files that differ.
func (a *assignments) save(ctx *kernel.Context[Message]) {
	var own, inMemory, given []byte
	if !a.files.Has(a.changed.cpus) {
		s := cpus.File{Policy: cpus.Static, Shared: a.deps.Rules.Shared(a.own), Own: a.own}
		own = s.Format()
	}
	if !a.files.Has(a.changed.memory) {
		inMemory = a.formatMemory()
	}
	if !a.files.Has(a.changed.given) {
		given = a.formatGiven()
	}
	d := a.deps
	e := kernel.Effect[Message]{Kind: "SaveState", Object: "state", Lane: "state", Deadline: stateDeadline}
	a.files.Begin(portcall.Do0(ctx, e, func(c context.Context, done func(error)) {
		save(c, d.Files, cpus.FileName, own, func(err error) {
			if err != nil {
				done(err)
				return
			}
			save(c, d.Files, memory.FileName, inMemory, func(err error) {
				if err != nil {
					done(err)
					return
				}
				save(c, d.DeviceFiles, devicestate.Name, given, done)
			})
		})
	}, func(id kernel.EffectID, err error) Message { return saved{id, err} }))
}

func save(c context.Context, to port.Checkpoints, name string, data []byte, done func(error)) {
	if data == nil {
		done(nil)
		return
	}
	to.Save(c, name, data, done)
}
