package cgroups

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/nodeobject"
	"github.com/troupe-dev/troupe/actors/decide/podcgroup"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/portcall"
)

// What the effects above those of pods are on: one lane.
const (
	allPods = "kubepods"
	classes = "classes"
)

// changed has the cgroups of classes brought up to date soon.
func (a *cgroups) changed(ctx *kernel.Context[Message]) {
	if !a.settling {
		a.settling = true
		ctx.After(settling, settled{})
	}
}

// settle sets the cgroups of classes, if they are not as they ought to be.
func (a *cgroups) settle(ctx *kernel.Context[Message]) {
	a.settling = false
	if !a.topSet {
		a.topSet = true // until it fails
		name, top := a.settings.Top(), a.settings.TopValues()
		a.set(ctx, allPods, podcgroup.ClassValues{}, func(c context.Context, answer func(error)) {
			a.deps.Cgroups.Set(c, name, top, answer)
		})
	}
	want := a.settings.ClassValues(a.sums)
	if a.classes != nil && a.classes.Equal(want) {
		return
	}
	a.settling = true // until this is done
	settings := a.settings
	a.set(ctx, classes, want, func(c context.Context, answer func(error)) {
		a.deps.Cgroups.Set(c, settings.Class(v1.PodQOSBurstable), want.Burstable, func(err error) {
			a.deps.Cgroups.Set(c, settings.Class(v1.PodQOSBestEffort), want.BestEffort, func(other error) {
				if err = errors.Join(err, other); want.Top.MemoryMin == 0 {
					answer(err)
					return
				}
				a.deps.Cgroups.Set(c, settings.Top(), want.Top, func(top error) { answer(errors.Join(err, top)) })
			})
		})
	})
}

// nodeSeen limits all pods together to what the machine has now.
func (a *cgroups) nodeSeen(ctx *kernel.Context[Message], n *v1.Node) {
	next := a.settings.On(nodeobject.Native(n.Status.Capacity, nil), nodeobject.Native(n.Status.Allocatable, nil))
	if next.SameMachine(&a.settings) {
		return
	}
	a.settings, a.topSet, a.classes = next, false, nil
	a.changed(ctx)
}

func (a *cgroups) set(
	ctx *kernel.Context[Message], what string, c podcgroup.ClassValues, run func(context.Context, func(error)),
) {
	e := kernel.Effect[Message]{Kind: "SetCgroup", Object: what, Lane: "node", Deadline: a.deps.Deadline}
	portcall.Do0(ctx, e, run, func(_ kernel.EffectID, err error) Message { return nodeSet{what, c, err} })
}

// nodeSet takes in how that went. What failed is tried again in the next sweep:
// a limit below what is used already can't be set before some of it is let go.
func (a *cgroups) nodeSet(ctx *kernel.Context[Message], m nodeSet) {
	if m.err != nil {
		ctx.Log().Warn().Str("cgroup", m.what).Str("error",
			m.err.Error()).Msg("cannot set cgroup limits; retrying in the next sweep")
	}
	switch {
	case m.what == allPods:
		a.topSet = m.err == nil
		a.tellEnforced(ctx, m.err)
	case m.err != nil:
		a.classes, a.settling = nil, false
	default:
		a.classes, a.settling = &m.classes, false
		if want := a.settings.ClassValues(a.sums); !want.Equal(m.classes) {
			a.changed(ctx)
		}
	}
}

// tellEnforced says in an event whether pods together are kept to what the node gives them, whenever that changes.
func (a *cgroups) tellEnforced(ctx *kernel.Context[Message], err error) {
	problem := ""
	if err != nil {
		problem = err.Error()
	}
	if !a.settings.Enforce || a.enforced != nil && *a.enforced == problem {
		return
	}
	a.enforced = &problem
	e := port.Event{Node: a.deps.Node, At: ctx.Now(), Reason: "NodeAllocatableEnforced",
		Message: "Updated Node Allocatable limit across pods"}
	if err != nil {
		e.Warning, e.Reason = true, "FailedNodeAllocatableEnforcement"
		e.Message = fmt.Sprintf("The limits of all pods together can't be set (enforceNodeAllocatable): %v. "+
			"This is tried again in the next sweep.", err)
	}
	a.deps.Events.Record(e)
}

// sweep begins one, and tries again what could not be set.
func (a *cgroups) sweep(ctx *kernel.Context[Message]) {
	if !a.topSet || a.classes == nil {
		a.changed(ctx)
	}
	portcall.Do(ctx, kernel.Effect[Message]{Kind: "PodCgroups", Lane: "sweep", Deadline: a.deps.Deadline},
		a.deps.Cgroups.Pods,
		func(_ kernel.EffectID, uids []types.UID, err error) Message { return found{uids, err} })
}

func (a *cgroups) found(ctx *kernel.Context[Message], m found) {
	switch {
	case m.err != nil:
		ctx.Log().Warn().Str("error", m.err.Error()).Msg("cannot list pod cgroups")
	case len(m.uids) > 0 || len(a.pods) > 0:
		self, asked := ctx.Self(), a.asked
		a.deps.Living(func(pods map[types.UID]bool) { self.Tell(living{pods, m.uids, asked}) })
	}
}

// remove removes the cgroups of pods that no longer exist or have ended, and forgets their shares. Most were left by
// an earlier agent; a call that it had begun may make one again, when its pod has ended. If both pods and podset crash,
// a pod that is not wanted any more may get no actor again, and nobody asks to have its cgroup removed. What was asked
// for since podset was asked is of a pod that podset did not know yet.
func (a *cgroups) remove(ctx *kernel.Context[Message], m living) {
	for _, uid := range slices.Sorted(maps.Keys(a.pods)) {
		if p := a.pods[uid]; !m.pods[uid] && p.asked <= m.asked && p.stage != going { // one that goes is removed already
			a.forget(ctx, uid, p)
		}
	}
	for _, uid := range m.uids {
		if m.pods[uid] || a.pods[uid] != nil {
			continue
		}
		ctx.Log().Info().Str("uid", string(uid)).Msg("removing leftover pod cgroup")
		a.removePod(ctx, uid, string(uid), func(_ kernel.EffectID, err error) Message { return swept{uid, err} })
	}
}
