package pods

import (
	"errors"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/checkpoint"
	"github.com/troupe-dev/troupe/actors/decide/podresize"
	"github.com/troupe-dev/troupe/actors/kernel"
)

// allocationsFile is the checkpoint of allocated resources. It has only pods whose allocation
// differs from the spec they came with.
var allocationsFile = checkpoint.File[saves]{
	Name: "allocations", Valid: (*saves).valid,
	Without: "continuing without it: the allocated resources of resized pods are read from their status",
}

// given is what the checkpoint and this actor remember of allocations.
type given struct {
	journal[saves]
	// unclaimed are allocations of pods that no source has named yet.
	unclaimed map[types.UID]*podresize.Allocation
	// written are the allocations that are being saved.
	written map[types.UID]*podresize.Allocation
}

// saves is the content of the checkpoint.
type saves struct {
	Pods map[types.UID]*podresize.Allocation `json:"pods"`
}

func (c *saves) valid() error {
	if c.Pods == nil {
		return errors.New("there are no pods in it")
	}
	for uid, a := range c.Pods { // order-free: any is enough
		if a == nil {
			return fmt.Errorf("there is nothing about pod %s", uid)
		}
	}
	return nil
}

// load reads the allocations of an earlier agent or incarnation. No pod is admitted before: it
// could be given resources that others have.
func (a *pods) load(ctx *kernel.Context[Message]) {
	a.given.load(ctx, a.deps.Checkpoints, &allocationsFile)
}

// loadedJournal applies the content of a checkpoint.
func (a *pods) loadedJournal(ctx *kernel.Context[Message], m Loaded) {
	switch m.ID {
	case a.stops.loading:
		a.loadedStops(ctx, m)
	case a.given.loading:
		a.loaded(ctx, m)
	}
}

// savedJournal continues what waited for a checkpoint. A predecessor's write is ignored: this
// actor read the checkpoint after it.
func (a *pods) savedJournal(ctx *kernel.Context[Message], m Saved) {
	switch m.ID {
	case a.stops.saving:
		a.savedStopsNow(ctx, m.Err)
	case a.given.saving:
		a.saved(ctx, m)
	}
}

func (a *pods) loaded(ctx *kernel.Context[Message], m Loaded) {
	c := a.given.read(ctx, m)
	if a.given.unclaimed = c.Pods; a.given.unclaimed == nil {
		a.given.unclaimed = map[types.UID]*podresize.Allocation{}
	}
	a.reconcile(ctx)
}

// save writes the allocations, if they changed. An allocation that changes during the write is
// written next.
func (a *pods) save(ctx *kernel.Context[Message]) {
	g := &a.given
	if !g.due() {
		return
	}
	g.written = map[types.UID]*podresize.Allocation{}
	all := map[types.UID]*podresize.Allocation{}
	if !a.allSeen() {
		maps.Copy(all, g.unclaimed) // a source may name them yet
	}
	for uid, r := range a.of { // order-free: a map again
		switch {
		case r.Saving != nil:
			all[uid], g.written[uid] = r.Saving, r.Saving
		case r.Alloc != nil:
			all[uid] = r.Alloc
		}
	}
	g.write(ctx, a.deps.Checkpoints, saves{all})
}

// saved assigns the saved allocations.
func (a *pods) saved(ctx *kernel.Context[Message], m Saved) {
	g := &a.given
	g.saving = 0
	if m.Err != nil {
		ctx.Log().Warn().Str("error", m.Err.Error()).
			Msg("cannot write the allocations checkpoint; new pods and resizes wait until it is written")
		g.failed(ctx)
		return
	}
	for _, r := range a.ranked {
		if r.Saving != nil && g.written[r.Pod.UID] == r.Saving {
			a.begun(ctx, r)
		}
	}
	g.written = nil
	a.save(ctx)
	a.reconcile(ctx)
}
