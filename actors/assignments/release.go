package assignments

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/checkpoint"
	decide "github.com/troupe-dev/troupe/actors/decide/devices"
	"github.com/troupe-dev/troupe/actors/decide/devicestate"
	"github.com/troupe-dev/troupe/actors/kernel"
)

func (a *assignments) release(ctx *kernel.Context[Message], uid types.UID) {
	if !a.known() {
		a.gone = append(a.gone, uid)
		a.waiting = slices.DeleteFunc(a.waiting, func(o Place) bool { return o.Pod.UID == uid })
		return
	}
	if a.free(ctx, uid) {
		a.version++
	}
}

// free takes all that a pod has, and reports whether that is something.
func (a *assignments) free(ctx *kernel.Context[Message], uid types.UID) (some bool) {
	if q := a.requests[uid]; q != nil {
		a.cancel(ctx, q)
		delete(a.requests, uid)
	}
	delete(a.placed, uid)
	if len(a.own[uid]) > 0 {
		delete(a.own, uid)
		a.changed.cpus, some = a.files.Changed(), true
	}
	if len(a.memory[uid]) > 0 {
		delete(a.memory, uid)
		a.changed.memory, some = a.files.Changed(), true
	}
	if len(a.given[uid]) > 0 {
		delete(a.given, uid)
		a.changed.given, some = a.files.Changed(), true
	}
	return some
}

func (a *assignments) keep(ctx *kernel.Context[Message], living map[types.UID]bool) {
	if !a.known() {
		a.living = maps.Clone(living)
		return
	}
	a.living = nil
	a.drop(ctx, living)
	a.settle(ctx)
	a.announce()
}

// announce says what is shared, which podset may have missed. After a write that is said anyway.
func (a *assignments) announce() {
	if a.files.State() != checkpoint.Saving {
		a.tell(nil)
	}
}

// drop releases what all but some pods have.
func (a *assignments) drop(ctx *kernel.Context[Message], living map[types.UID]bool) {
	had := slices.Concat(slices.Sorted(maps.Keys(a.own)), slices.Sorted(maps.Keys(a.memory)),
		slices.Sorted(maps.Keys(a.given)))
	slices.Sort(had)
	for _, uid := range slices.Compact(had) {
		if !living[uid] {
			ctx.Log().Info().Str("uid", string(uid)).Msg("released exclusive CPUs, memory and devices of a removed pod")
			a.release(ctx, uid)
		}
	}
}

// settle begins what is due: reading, or writing, the files.
func (a *assignments) settle(ctx *kernel.Context[Message]) {
	switch a.files.State() {
	case checkpoint.Unread:
		a.load(ctx)
	case checkpoint.Dirty:
		a.save(ctx)
	default:
	}
}

func (a *assignments) saved(ctx *kernel.Context[Message], m saved) {
	if !a.files.IsUnderWay(m.id) {
		return
	}
	if a.files.End(m.err == nil); m.err != nil {
		ctx.Log().Error().Str("error", m.err.Error()).
			Msg("cannot write cpu_manager_state, memory_manager_state or the device checkpoint; new pods with exclusive CPUs, " +
				"memory or devices wait until it is written")
		a.files.Postpone()
		ctx.After(checkpoint.RetryAfter, retry{})
		return
	}
	maps.DeleteFunc(a.placed, func(_ types.UID, v checkpoint.Version) bool { return a.files.Has(v) })
	a.tell(a.answers.Take(&a.files)) // none, if things were only released
	a.settle(ctx)
}

func (a *assignments) tell(pods []Placed) {
	a.countShared()
	a.deps.Answer(Answer{
		Pods: pods, Shared: a.deps.Rules.Shared(a.own), Version: a.version, Health: a.healths(a.snapshot.Inventory),
	})
}

// healths are how the devices of pods are, as of an inventory.
func (a *assignments) healths(of decide.Inventory) map[types.UID]devicestate.Health {
	if !a.deps.Health {
		return nil
	}
	out := make(map[types.UID]devicestate.Health, len(a.given))
	for uid, containers := range a.given { // order-free: a map again
		out[uid] = of.HealthOf(containers)
	}
	return out
}
