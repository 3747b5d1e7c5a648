package claims

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/checkpoint"
	decide "github.com/troupe-dev/troupe/actors/decide/claims"
	"github.com/troupe-dev/troupe/actors/kernel"
)

// file is the checkpoint, which is the kubelet's.
var file = checkpoint.File[[]decide.Claim]{
	Name:  decide.FileName,
	Codec: &checkpoint.Codec[[]decide.Claim]{Parse: decide.Parse, Format: decide.Format},
	Without: "claims are prepared again for the pods that are there; those of pods that are gone stay prepared until " +
		"their drivers restart",
	Awaits:    "pods with claims wait until it can be read",
	Unwritten: "cannot write the checkpoint of prepared ResourceClaims; pods with claims wait until it is written",
}

func (a *actor) journaled(ctx *kernel.Context[Message], e checkpoint.Event) {
	switch news, found := a.checkpoint.Hear(ctx, e); news {
	case checkpoint.Loaded:
		a.loaded(found)
		a.advanceAll(ctx)
		a.countInUse()
	case checkpoint.Saved:
		a.countInUse()
		a.advanceAll(ctx)
	case checkpoint.Again:
		a.settle(ctx)
	default:
	}
}

func (a *actor) loaded(found []decide.Claim) {
	for i := range found {
		c := &claim{Prepared: decide.FoundAs(&found[i])}
		c.makeParts()
		a.add(c)
		if c.Leaving && c.All() {
			a.drop(c)
		}
	}
}

// settle begins what is due: writing the checkpoint, and calls of drivers.
func (a *actor) settle(ctx *kernel.Context[Message]) {
	a.checkpoint.Write(ctx, func() (all []decide.Claim) {
		for _, uid := range slices.Sorted(maps.Keys(a.claims)) {
			all = append(all, a.claims[uid].Claim)
		}
		return all
	})
	for _, name := range slices.Sorted(maps.Keys(a.drivers)) {
		a.call(ctx, name, a.drivers[name])
	}
}

// askLiving asks podset which pods there are, if claims may be prepared for others.
func (a *actor) askLiving(ctx *kernel.Context[Message]) {
	if !a.checkpoint.Known() || len(a.claims)+len(a.pods) == 0 {
		return
	}
	self, asked := ctx.Self(), a.asked
	a.deps.Living(func(pods map[types.UID]bool) { self.Tell(living{pods, asked}) })
}

// sweep gives back the claims of pods that are gone. What was asked for since podset was asked is of a pod that
// podset did not know yet.
func (a *actor) sweep(ctx *kernel.Context[Message], m living) {
	users := map[types.UID]bool{}
	for _, c := range a.claims { // order-free: a set
		for _, uid := range c.Pods {
			users[uid] = true
		}
	}
	for uid := range a.pods { // order-free: a set
		users[uid] = true
	}
	for _, uid := range slices.Sorted(maps.Keys(users)) {
		if u := a.pods[uid]; m.pods[uid] || u != nil && (u.going || u.asked > m.asked) {
			continue
		}
		ctx.Log().Info().Str("uid", string(uid)).Msg("unpreparing the ResourceClaims of a removed pod")
		a.end(ctx, a.user(ctx, uid))
	}
	a.settle(ctx)
}
