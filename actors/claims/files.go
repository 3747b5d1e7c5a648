package claims

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/checkpoint"
	decide "github.com/troupe-dev/troupe/actors/decide/claims"
	"github.com/troupe-dev/troupe/actors/decide/claimstate"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/portcall"
)

const lane = "checkpoint"

func (a *actor) load(ctx *kernel.Context[Message]) {
	e := kernel.Effect[Message]{
		Kind: "LoadCheckpoint", Object: claimstate.Name, Lane: lane, Deadline: 2 * checkpoint.Deadline,
	}
	files := a.deps.Files
	a.loading = portcall.Do(ctx, e, func(c context.Context, done func(loaded, error)) {
		files.Load(c, claimstate.Name, func(data []byte, err error) { read(c, files, data, err, done) })
	}, func(id kernel.EffectID, m loaded, err error) Message {
		m.id = id
		if err != nil {
			m.err = err
		}
		return m
	})
}

// read sets a checkpoint aside that can't be used. A disk that does not answer says nothing of it, nor does one that
// answers too late: the actor may have written it since.
func read(c context.Context, files port.Checkpoints, data []byte, err error, done func(loaded, error)) {
	if k := port.KindOf(err); k == port.Canceled || k == port.Deadline || k == port.Panic || c.Err() != nil {
		done(loaded{}, cmp.Or(err, c.Err()))
		return
	}
	if err == nil && data != nil {
		_, err = claimstate.Parse(data)
	}
	if err == nil {
		done(loaded{data: data}, nil)
		return
	}
	files.SetAside(c, claimstate.Name, func(where string, asideErr error) {
		done(loaded{err: err, aside: where, asideErr: asideErr}, nil)
	})
}

func (a *actor) loaded(ctx *kernel.Context[Message], m loaded) {
	if m.id != a.loading {
		return
	}
	a.loading = 0
	var found []claimstate.Claim
	switch {
	case m.err != nil && m.aside == "" && m.asideErr == nil:
		ctx.Log().Error().Str("error", m.err.Error()).
			Msg("cannot read the checkpoint of prepared ResourceClaims; pods with claims wait until it can be read")
		a.awaitDisk(ctx)
		return
	case m.err != nil:
		e := ctx.Log().Error().Str("file", claimstate.Name).Str("error", m.err.Error()).Str("setAside", m.aside)
		if m.asideErr != nil {
			e.Str("setAsideError", m.asideErr.Error())
		}
		e.Msg("the checkpoint of claims is damaged: claims are prepared again for the pods that are there; " +
			"those of pods that are gone stay prepared until their drivers restart")
	case m.data != nil:
		found, _ = claimstate.Parse(m.data) // it was read before
	}
	a.known = true
	defer a.countInUse()
	for i := range found {
		c := &claim{Prepared: decide.FoundAs(&found[i])}
		c.makeParts()
		a.add(c)
		if c.Leaving && c.All() {
			a.drop(c)
		}
	}
	a.advanceAll(ctx)
}

// settle begins what is due: reading or writing the checkpoint, and calls of drivers.
func (a *actor) settle(ctx *kernel.Context[Message]) {
	switch {
	case a.failed || a.loading != 0 || a.saving != 0:
	case !a.known:
		a.load(ctx)
	case a.version != a.written:
		a.save(ctx)
	}
	for _, name := range slices.Sorted(maps.Keys(a.drivers)) {
		a.call(ctx, name, a.drivers[name])
	}
}

func (a *actor) save(ctx *kernel.Context[Message]) {
	var all []claimstate.Claim
	for _, uid := range slices.Sorted(maps.Keys(a.claims)) {
		all = append(all, a.claims[uid].Claim)
	}
	data, version, files := claimstate.Format(all), a.version, a.deps.Files
	e := kernel.Effect[Message]{Kind: "SaveCheckpoint", Object: claimstate.Name, Lane: lane, Deadline: checkpoint.Deadline}
	a.saving = portcall.Do0(ctx, e,
		func(c context.Context, done func(error)) { files.Save(c, claimstate.Name, data, done) },
		func(id kernel.EffectID, err error) Message { return saved{id, version, err} })
}

func (a *actor) saved(ctx *kernel.Context[Message], m saved) {
	if m.id != a.saving {
		return
	}
	a.saving = 0
	if m.err != nil {
		ctx.Log().Error().Str("error", m.err.Error()).
			Msg("cannot write the checkpoint of prepared ResourceClaims; pods with claims wait until it is written")
		a.awaitDisk(ctx)
		return
	}
	a.written = m.version
	a.countInUse()
	a.advanceAll(ctx)
}

func (a *actor) awaitDisk(ctx *kernel.Context[Message]) {
	a.failed = true
	ctx.After(retryAfter, retry{})
}

// askLiving asks pods which pods there are, if claims may be prepared for others.
func (a *actor) askLiving(ctx *kernel.Context[Message]) {
	if !a.known || len(a.claims)+len(a.pods) == 0 {
		return
	}
	self, asked := ctx.Self(), a.asked
	a.deps.Living(func(pods map[types.UID]bool) { self.Tell(living{pods, asked}) })
}

// sweep gives back the claims of pods that are gone. What was asked for since pods was asked is of a pod that pods did
// not know yet.
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
