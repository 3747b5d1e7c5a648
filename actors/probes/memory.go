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
	Without:       "continuing without it: static pods are not ready until their probes succeed",
	Unwritten:     "cannot write the probes checkpoint; retrying",
	RetryWithNext: true, // at the pace of saveSoon
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

// memory is what this agent and the one before it know.
type memory struct {
	checkpoint.Journal[Message, records]
	// held are requests that wait for the load, in order of arrival.
	held []pod.ProbeContainers
	born time.Time
	// unclaimed are loaded records of containers that no pod has named yet; known are all others.
	unclaimed map[string]record
	known     map[string]record
	savedAt   time.Time
}

// load reads the checkpoint of an earlier agent.
func (a *probes) load(ctx *kernel.Context[Message]) {
	a.memory = memory{born: ctx.Now(), unclaimed: map[string]record{}, known: map[string]record{}}
	a.memory.Load(ctx, a.deps.Checkpoints, &saveFile, func(e checkpoint.Event) Message { return journaled{e} })
}

// holdBack keeps a request until the checkpoint was read, if the request needs it.
func (a *probes) holdBack(m pod.ProbeContainers) bool {
	if a.memory.Known() || !slices.ContainsFunc(m.Containers, func(c pod.ProbedContainer) bool { return c.Wait }) {
		return false
	}
	a.memory.held = append(slices.DeleteFunc(a.memory.held, func(h pod.ProbeContainers) bool {
		return h.Pod.UID == m.Pod.UID
	}), m)
	return true
}

func (a *probes) journaled(ctx *kernel.Context[Message], e checkpoint.Event) {
	switch news, c := a.memory.Hear(ctx, e); news {
	case checkpoint.Loaded:
		a.loaded(ctx, c)
	case checkpoint.Saved, checkpoint.Failed:
		a.saveSoon(ctx)
	case checkpoint.Again:
		a.save(ctx)
	default:
	}
}

func (a *probes) loaded(ctx *kernel.Context[Message], c records) {
	if c.Containers != nil {
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
	if r != old {
		b.Changed()
	}
	if r == (record{}) {
		delete(b.known, id)
	} else {
		b.known[id] = r
	}
}

func (a *probes) saveSoon(ctx *kernel.Context[Message]) {
	b := &a.memory
	b.WriteAfter(ctx, max(0, b.savedAt.Add(saveEvery).Sub(ctx.Now())))
}

func (a *probes) save(ctx *kernel.Context[Message]) {
	b := &a.memory
	b.savedAt = ctx.Now()
	if b.savedAt.Sub(b.born) > unclaimedFor {
		clear(b.unclaimed)
	}
	b.Write(ctx, func() records {
		all := maps.Clone(b.unclaimed)
		maps.Copy(all, b.known)
		return records{all}
	})
}
