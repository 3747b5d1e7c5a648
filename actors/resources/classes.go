package resources

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/podcgroup"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
)

// What the effects above those of pods are on: one lane.
const (
	allPods = "kubepods"
	classes = "classes"
)

// changed has the cgroups of classes brought up to date soon.
func (a *resources) changed(ctx *kernel.Context[Message]) {
	if !a.settling {
		a.settling = true
		ctx.After(settling, settled{})
	}
}

// settle sets the cgroups of classes, if they are not as they ought to be.
func (a *resources) settle(ctx *kernel.Context[Message]) {
	a.settling = false
	if !a.topSet {
		a.topSet = true // until it fails
		top := a.deps.Settings.TopValues()
		a.set(ctx, allPods, podcgroup.ClassValues{}, func(c context.Context, answer func(error)) {
			a.deps.Cgroups.Set(c, a.deps.Settings.Top(), top, answer)
		})
	}
	want := a.deps.Settings.ClassValues(a.sums)
	if a.classes != nil && a.classes.Equal(want) {
		return
	}
	a.settling = true // until this is done
	a.set(ctx, classes, want, func(c context.Context, answer func(error)) {
		a.deps.Cgroups.Set(c, a.deps.Settings.Class(v1.PodQOSBurstable), want.Burstable, func(err error) {
			a.deps.Cgroups.Set(c, a.deps.Settings.Class(v1.PodQOSBestEffort), want.BestEffort, func(other error) {
				answer(errors.Join(err, other))
			})
		})
	})
}

func (a *resources) set(ctx *kernel.Context[Message], what string, c podcgroup.ClassValues, run func(context.Context, func(error))) {
	ctx.Do(kernel.Effect[Message]{
		Kind: "SetCgroup", Object: what, Lane: "node", Deadline: a.deps.Deadline,
		Run: func(cc context.Context, _ kernel.EffectID, answer func(Message)) {
			run(cc, func(err error) { answer(nodeSet{what, c, err}) })
		},
		Expired: func(kernel.EffectID) Message {
			return nodeSet{what, c, &port.Error{Kind: port.Deadline, Verb: "SetCgroup", Object: what, Detail: fmt.Sprintf("no answer within %v", a.deps.Deadline)}}
		},
	})
}

// nodeSet takes in how that went. What failed is tried again in the next sweep:
// a limit below what is used already can't be set before some of it is let go.
func (a *resources) nodeSet(ctx *kernel.Context[Message], m nodeSet) {
	if m.err != nil {
		ctx.Log().Warn().Str("cgroup", m.what).Str("error", m.err.Error()).Msg("cannot set cgroup limits; retrying in the next sweep")
	}
	switch {
	case m.what == allPods:
		a.topSet = m.err == nil
	case m.err != nil:
		a.classes, a.settling = nil, false
	default:
		a.classes, a.settling = &m.classes, false
		if want := a.deps.Settings.ClassValues(a.sums); !want.Equal(m.classes) {
			a.changed(ctx)
		}
	}
}

// sweep begins one, and tries again what could not be set.
func (a *resources) sweep(ctx *kernel.Context[Message]) {
	if !a.topSet || a.classes == nil {
		a.changed(ctx)
	}
	ctx.Do(kernel.Effect[Message]{
		Kind: "PodCgroups", Lane: "sweep", Deadline: a.deps.Deadline,
		Run: func(c context.Context, _ kernel.EffectID, answer func(Message)) {
			a.deps.Cgroups.Pods(c, func(uids []types.UID, err error) { answer(found{uids, err}) })
		},
		Expired: func(kernel.EffectID) Message {
			return found{err: &port.Error{Kind: port.Deadline, Verb: "PodCgroups", Detail: fmt.Sprintf("no answer within %v", a.deps.Deadline)}}
		},
	})
}

func (a *resources) found(ctx *kernel.Context[Message], m found) {
	switch {
	case m.err != nil:
		ctx.Log().Warn().Str("error", m.err.Error()).Msg("cannot list pod cgroups")
	case len(m.uids) > 0:
		self := ctx.Self()
		a.deps.Living(func(pods map[types.UID]bool) { self.Tell(living{pods, m.uids}) })
	}
}

// remove removes the cgroups of pods that are no more.
func (a *resources) remove(ctx *kernel.Context[Message], m living) {
	for _, uid := range m.uids {
		if m.pods[uid] || a.pods[uid] != nil {
			continue
		}
		ctx.Log().Info().Str("uid", string(uid)).Msg("removing leftover pod cgroup")
		a.do(ctx, "RemovePodCgroup", uid, string(uid), func(c context.Context, answer func(error)) {
			a.deps.Cgroups.RemovePod(c, uid, answer)
		}, func(_ kernel.EffectID, err error) Message { return swept{uid, err} })
	}
}
