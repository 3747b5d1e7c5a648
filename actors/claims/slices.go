package claims

import (
	"context"
	"slices"

	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/portcall"
)

// look asks which drivers have ResourceSlices: those that were there when the last agent ended, and are not now, have
// no devices on this node any more.
func (a *actor) look(ctx *kernel.Context[Message]) {
	slices := a.deps.Slices
	e := kernel.Effect[Message]{Kind: "ListResourceSlices", Lane: "slices", Deadline: GetDeadline}
	portcall.Do(ctx, e, func(c context.Context, done func([]string, error)) { slices.SliceDrivers(c, done) },
		func(_ kernel.EffectID, drivers []string, err error) Message { return sliced{drivers, err} })
}

func (a *actor) sliced(ctx *kernel.Context[Message], m sliced) {
	if port.KindOf(m.err) == port.Unsupported {
		return // an older apiserver, or one without this API: there are none
	}
	if m.err != nil {
		a.lookFailed++
		ctx.Log().Warn().Str("error", m.err.Error()).
			Msg("cannot list the ResourceSlices of this node, some of which may be of unregistered DRA drivers; retrying")
		ctx.After(backoff.Retry(a.deps.Backoff, a.lookFailed), looks{})
		return
	}
	slices.Sort(m.drivers)
	for _, name := range slices.Compact(m.drivers) {
		if _, waits := a.wiping[name]; !a.there(name) && !waits {
			gone := &absence{since: ctx.Now()}
			a.wiping[name] = gone
			a.wipe(ctx, wipe{name, gone.since})
		}
	}
}

// wipe deletes the slices of a driver that has not come back.
func (a *actor) wipe(ctx *kernel.Context[Message], m wipe) {
	gone, name := a.wiping[m.driver], m.driver
	if gone == nil || !gone.since.Equal(m.since) {
		return
	}
	slices := a.deps.Slices
	e := kernel.Effect[Message]{Kind: "DeleteResourceSlices", Object: name, Lane: "slices/" + name, Deadline: GetDeadline}
	portcall.Do0(ctx, e, func(c context.Context, done func(error)) { slices.DeleteSlices(c, name, done) },
		func(_ kernel.EffectID, err error) Message { return wiped{name, err} })
}

func (a *actor) wiped(ctx *kernel.Context[Message], m wiped) {
	gone := a.wiping[m.driver]
	switch {
	case gone == nil:
	case port.KindOf(m.err) == port.Unsupported: // as above
		delete(a.wiping, m.driver)
	case m.err != nil:
		gone.failures++
		ctx.Log().Warn().Str("driver", m.driver).Str("error", m.err.Error()).
			Msg("cannot delete the ResourceSlices of an unregistered DRA driver; retrying")
		ctx.After(backoff.Retry(a.deps.Backoff, gone.failures), wipe{m.driver, gone.since})
	default:
		delete(a.wiping, m.driver)
		ctx.Log().Info().Str("driver", m.driver).Msg("deleted the ResourceSlices of an unregistered DRA driver")
	}
}
