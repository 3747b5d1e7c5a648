package probes

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/actors/checkpoint"
	"github.com/troupe-dev/troupe/actors/decide/probe"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pod"
)

// saveFile is the checkpoint.
var saveFile = checkpoint.File[records]{
	Name: "probes", Valid: validRecords,
	Without: "continuing without it: static pods are not ready until their probes succeed",
}

const (
	// saveEvery is the shortest time between writes of the checkpoint.
	saveEvery = time.Second
	// unclaimedFor is how long loaded records are kept that no pod has claimed: a source may be
	// silent for long.
	unclaimedFor = time.Hour
)

// records is what a later agent needs about the containers of static pods. The API may have no
// status of these.
type records struct {
	// Containers are by ID.
	Containers map[string]record `json:"containers"`
}

// record is the saved state of one container.
type record struct {
	Started bool `json:"started,omitempty"`
	Ready   bool `json:"ready,omitempty"`
}

func validRecords(r *records) error {
	if r.Containers == nil {
		return errors.New("there are no containers in it")
	}
	return nil
}

// memory is the state of the checkpoint.
//
//	loading ──loaded──► (clean) ──remember──► dirty ──save──► saving ──saved──► (clean, or dirty again)
type memory struct {
	loading kernel.EffectID
	// held are requests that wait for the load, in order of arrival.
	held []pod.ProbeContainers
	born time.Time
	// unclaimed are loaded records of containers that no pod has named yet; known are all others.
	unclaimed map[string]record
	known     map[string]record
	dirty     bool
	// waiting: the timer to save is set. saving is the running effect.
	waiting bool
	saving  kernel.EffectID
	savedAt time.Time
}

// load reads the checkpoint of an earlier agent.
func (a *probes) load(ctx *kernel.Context[Message]) {
	a.memory = memory{born: ctx.Now(), unclaimed: map[string]record{}, known: map[string]record{}}
	a.memory.loading = checkpoint.Load(ctx, a.deps.Checkpoints, &saveFile,
		func(id kernel.EffectID, content checkpoint.Content) Message { return loaded{id, content} })
}

// holdBack keeps a request until the checkpoint was read, if the request needs it.
func (a *probes) holdBack(m pod.ProbeContainers) bool {
	if a.memory.loading == 0 || !slices.ContainsFunc(m.Containers, func(c pod.ProbedContainer) bool { return c.Wait }) {
		return false
	}
	a.memory.held = append(slices.DeleteFunc(a.memory.held, func(h pod.ProbeContainers) bool {
		return h.Pod.UID == m.Pod.UID
	}), m)
	return true
}

func (a *probes) loaded(ctx *kernel.Context[Message], m loaded) {
	if m.id != a.memory.loading {
		return
	}
	a.memory.loading = 0
	if c := saveFile.Take(ctx.Log(), &m.content); c.Containers != nil {
		a.memory.unclaimed = c.Containers
	}
	held := a.memory.held
	a.memory.held = nil
	for _, w := range held {
		a.watch(ctx, w)
	}
}

// recall adds to a container's health what an earlier agent knew.
func (b *memory) recall(id string, h probe.Health) probe.Health {
	r, is := b.unclaimed[id]
	if !is {
		return h
	}
	if h.Startup == probe.Unknown && r.Started {
		h.Startup = probe.Success
	}
	if h.Readiness == probe.Unknown && r.Ready {
		h.Readiness = probe.Success
	}
	return h
}

// remember stores the state of some containers of a static pod, and schedules a write.
func (a *probes) remember(ctx *kernel.Context[Message], p *podProbes, changed ...*container) {
	if !p.static {
		return
	}
	b := &a.memory
	for _, c := range changed {
		h := c.Health()
		b.note(c.id, record{Started: h.Startup == probe.Success, Ready: h.Readiness == probe.Success})
	}
	a.saveSoon(ctx)
}

// note stores one container's record. The zero record means none.
func (b *memory) note(id string, r record) {
	old, is := b.unclaimed[id]
	if is {
		delete(b.unclaimed, id)
	} else {
		old = b.known[id]
	}
	b.dirty = b.dirty || r != old
	if r == (record{}) {
		delete(b.known, id)
	} else {
		b.known[id] = r
	}
}

func (a *probes) saveSoon(ctx *kernel.Context[Message]) {
	b := &a.memory
	if !b.dirty || b.waiting || b.saving != 0 || b.loading != 0 {
		return
	}
	b.waiting = true
	ctx.After(max(0, b.savedAt.Add(saveEvery).Sub(ctx.Now())), save{})
}

func (a *probes) save(ctx *kernel.Context[Message]) {
	b := &a.memory
	b.waiting, b.dirty, b.savedAt = false, false, ctx.Now()
	if b.savedAt.Sub(b.born) > unclaimedFor {
		clear(b.unclaimed)
	}
	all := maps.Clone(b.unclaimed)
	maps.Copy(all, b.known)
	b.saving = checkpoint.Save(ctx, a.deps.Checkpoints, &saveFile, records{all},
		func(id kernel.EffectID, err error) Message { return saved{id, err} })
}

func (a *probes) saved(ctx *kernel.Context[Message], m saved) {
	b := &a.memory
	if m.id != b.saving {
		return
	}
	b.saving = 0
	if m.err != nil {
		ctx.Log().Warn().Str("error", m.err.Error()).Msg("cannot write the probes checkpoint; retrying")
		b.dirty = true
	}
	a.saveSoon(ctx)
}
