package podset

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
	Without:   "continuing without it: the allocated resources of resized pods are read from their status",
	Unwritten: "cannot write the allocations checkpoint; new pods and resizes wait until it is written",
}

// given is what the checkpoint and this actor remember of allocations.
type given struct {
	checkpoint.Journal[Message, saves]
	// unclaimed are allocations of pods that no source has named yet.
	unclaimed map[types.UID]*podresize.Allocation
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

// load reads the checkpoints of an earlier agent or incarnation. No pod is admitted before: it could be given resources
// that others have.
func (a *registry) load(ctx *kernel.Context[Message]) {
	wrap := func(e checkpoint.Event) Message { return journaled{e} }
	a.given.Load(ctx, a.deps.Checkpoints, &allocationsFile, wrap)
	a.stops.Load(ctx, a.deps.Checkpoints, &stopsFile, wrap)
}

// journaled handles news of the checkpoints. The write of a predecessor is none: this actor read the checkpoint after
// it.
func (a *registry) journaled(ctx *kernel.Context[Message], e checkpoint.Event) {
	switch news, c := a.given.Hear(ctx, e); news {
	case checkpoint.Loaded:
		if a.given.unclaimed = c.Pods; a.given.unclaimed == nil {
			a.given.unclaimed = map[types.UID]*podresize.Allocation{}
		}
		a.reconcile(ctx)
	case checkpoint.Saved:
		a.saved(ctx)
	case checkpoint.Again:
		a.save(ctx)
	default:
	}
	switch news, c := a.stops.Hear(ctx, e); news {
	case checkpoint.Loaded:
		a.loadedStops(ctx, c)
	case checkpoint.Saved, checkpoint.Failed:
		a.triedStops(ctx)
	case checkpoint.Again:
		a.saveStops(ctx)
	default:
	}
}

// save writes the allocations, if they changed. An allocation that changes during the write is
// written next.
func (a *registry) save(ctx *kernel.Context[Message]) { a.given.Write(ctx, a.allocations) }

func (a *registry) allocations() saves {
	all := map[types.UID]*podresize.Allocation{}
	if !a.allSeen() {
		maps.Copy(all, a.given.unclaimed) // a source may name them yet
	}
	for uid, r := range a.of { // order-free: a map again
		switch {
		case r.Saving != nil:
			all[uid] = r.Saving
		case r.Alloc != nil:
			all[uid] = r.Alloc
		}
	}
	return saves{all}
}

// saved assigns the saved allocations.
func (a *registry) saved(ctx *kernel.Context[Message]) {
	for _, r := range a.ranked {
		if r.Saving != nil && a.given.Has(r.decided) {
			a.allocate(ctx, r)
		}
	}
	a.save(ctx)
	a.reconcile(ctx)
}
