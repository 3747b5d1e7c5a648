package portcall

import (
	"context"
	"fmt"

	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/kernel"
)

// Registrations is the watch with which an actor hears of drivers or plugins that register with the node. When it is
// opened, it tells of all that are there.
//
//	(none) ──OpenRegistrations──► open ──CloseRegistrations──► waiting, longer each time in a row
//	                               ▲                                  │
//	                               └──────────OpenRegistrations───────┘
type Registrations struct {
	id kernel.EffectID
	// opened counts the watches, failures those that failed in a row.
	opened, failures int
}

// ID is the watch, 0 for none.
func (r *Registrations) ID() kernel.EffectID { return r.id }

// Heard says whether what a watch has told counts: it is this one. Then it works.
func (r *Registrations) Heard(id kernel.EffectID) bool {
	if r.id != id {
		return false
	}
	r.failures = 0
	return true
}

// OpenRegistrations opens the watch, and ends any other. found is the message for each driver, closed that of its end.
func OpenRegistrations[M, D any](
	ctx *kernel.Context[M], r *Registrations, kind string, watch func(context.Context, func(D), func(error)),
	found func(kernel.EffectID, D) M, closed func(kernel.EffectID, error) M,
) {
	ctx.Cancel(r.id)
	r.opened++
	self := ctx.Self()
	r.id = ctx.Do(kernel.Effect[M]{
		Kind: kind, Lane: fmt.Sprintf("registrations/%d/%d", ctx.Incarnation(), r.opened), Standing: true,
		Run: func(c context.Context, id kernel.EffectID, done func(M)) {
			watch(c, func(d D) { self.Tell(found(id, d)) }, func(err error) { done(closed(id, err)) })
		},
	})
}

// CloseRegistrations notes the end of a watch. If it was this one, people are told, and the message again comes when it
// is time to open it again. of are those that register, for people: "CSI drivers".
func CloseRegistrations[M any](
	ctx *kernel.Context[M], r *Registrations, id kernel.EffectID, err error, of string, wait backoff.Policy, again M,
) {
	if r.id != id {
		return
	}
	r.failures++
	ctx.Log().Error().Str("error", err.Error()).
		Msg("cannot watch registrations of " + of + ": new ones are not detected; retrying")
	ctx.After(backoff.Retry(wait, r.failures), again)
}
