package assignments

import (
	"context"

	"github.com/troupe-dev/troupe/actors/checkpoint"
	"github.com/troupe-dev/troupe/actors/decide/cpus"
	"github.com/troupe-dev/troupe/actors/decide/cpustate"
	"github.com/troupe-dev/troupe/actors/decide/devicestate"
	"github.com/troupe-dev/troupe/actors/decide/memorystate"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/portcall"
)

// stateDeadline is for all three files.
const stateDeadline = 3 * checkpoint.Deadline

func (a *assignments) load(ctx *kernel.Context[Message]) {
	e := kernel.Effect[Message]{Kind: "LoadState", Object: "state", Lane: "state", Deadline: stateDeadline}
	d := a.deps
	a.loading = portcall.Do(ctx, e, func(c context.Context, done func(loaded, error)) {
		load(c, d.Rules.Static(), d.Files, cpustate.Name, func(cpus []byte, err error) {
			if err != nil {
				done(loaded{}, err)
				return
			}
			load(c, d.Memory != nil, d.Files, memorystate.Name, func(memory []byte, err error) {
				if err != nil {
					done(loaded{}, err)
					return
				}
				load(c, d.Plugins != nil, d.DeviceFiles, devicestate.Name, func(data []byte, err error) {
					setAside(c, d.DeviceFiles, data, err, func(f deviceFile, err error) {
						done(loaded{cpus: cpus, memory: memory, given: f}, err)
					})
				})
			})
		})
	}, func(id kernel.EffectID, m loaded, err error) Message {
		m.id, m.err = id, err
		return m
	})
}

// setAside moves a state file of devices away that can't be read: a directory in its place, for example, could not be
// written either. A disk that does not answer says nothing of the file, nor does one that answers too late: the actor
// may have written it since.
func setAside(c context.Context, from port.Checkpoints, data []byte, err error, done func(deviceFile, error)) {
	k := port.KindOf(err)
	if err == nil || k == port.Canceled || k == port.Deadline || k == port.Panic || c.Err() != nil {
		done(deviceFile{data: data}, err)
		return
	}
	from.SetAside(c, devicestate.Name, func(where string, asideErr error) {
		done(deviceFile{err: err, aside: where, asideErr: asideErr}, nil)
	})
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
	a.written, a.dirty = a.dirty, changes{}
	a.writing, a.unwritten = a.unwritten, nil
	a.beingSaved, a.unsaved = a.unsaved, nil
	var own, inMemory, given []byte
	if a.written.cpus {
		s := cpustate.State{Policy: cpus.Static, Shared: a.deps.Rules.Shared(a.own), Own: a.own}
		own = s.Format()
	}
	if a.written.memory {
		inMemory = a.formatMemory()
	}
	if a.written.given {
		given = a.formatGiven()
	}
	d := a.deps
	e := kernel.Effect[Message]{Kind: "SaveState", Object: "state", Lane: "state", Deadline: stateDeadline}
	a.saving = portcall.Do0(ctx, e, func(c context.Context, done func(error)) {
		save(c, d.Files, cpustate.Name, own, func(err error) {
			if err != nil {
				done(err)
				return
			}
			save(c, d.Files, memorystate.Name, inMemory, func(err error) {
				if err != nil {
					done(err)
					return
				}
				save(c, d.DeviceFiles, devicestate.Name, given, done)
			})
		})
	}, func(id kernel.EffectID, err error) Message { return saved{id, err} })
}

func save(c context.Context, to port.Checkpoints, name string, data []byte, done func(error)) {
	if data == nil {
		done(nil)
		return
	}
	to.Save(c, name, data, done)
}
