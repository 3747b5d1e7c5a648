package shutdown

import (
	"context"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/decide/shutdown"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/portcall"
)

// lock is what the actor knows of the lock that delays a shutdown, and of the longest delay.
//
//	Inhibit ──► MaxDelay ──too short──► RaiseMaxDelay ──► MaxDelay
type lock struct {
	// locking is the running Inhibit, measuring the running MaxDelay or RaiseMaxDelay.
	locking, measuring kernel.Call
	refusals           int
	// max is the longest delay; 0 while it is unknown. raise: it was tried to raise it.
	max   time.Duration
	raise bool
}

// effect is a call of the inhibitor. Calls are made one at a time.
func (a *actor) effect(kind string) kernel.Effect[Message] {
	return kernel.Effect[Message]{Kind: kind, Lane: "inhibitor", Deadline: a.deps.Deadline}
}

// needs is how long a shutdown takes at most.
func (a *actor) needs() time.Duration { return a.deps.Groups.Total() + Patience }

func (a *actor) inhibit(ctx *kernel.Context[Message]) {
	a.locking.Begin(portcall.Do0(ctx, a.effect("Inhibit"), a.deps.Inhibitor.Inhibit,
		func(id kernel.EffectID, err error) Message { return locked{id, err} }))
}

func (a *actor) locked(ctx *kernel.Context[Message], m locked) {
	if !a.locking.Take(m.id) {
		return
	}
	switch a.state {
	case unknown, ready, ending, writing, over:
		return // it is for the shutdown that began meanwhile, or too late for it
	case locking:
	}
	if m.err != nil {
		if a.refusals++; a.refusals == 1 {
			ctx.Log().Warn().Str("error", m.err.Error()).Msg("cannot take the shutdown inhibitor lock: " +
				"until it is taken, a shutdown of the machine does not wait for pods; retrying")
		}
		ctx.After(backoff.Retry(a.deps.Backoff, a.refusals), relock{})
		return
	}
	if a.refusals > 0 {
		ctx.Log().Info().Msg("took the shutdown inhibitor lock: a shutdown of the machine waits for pods again")
	}
	a.refusals, a.state, a.raise = 0, ready, false
	a.measure(ctx)
}

func (a *actor) measure(ctx *kernel.Context[Message]) {
	a.measuring.Begin(portcall.Do(ctx, a.effect("MaxDelay"), a.deps.Inhibitor.MaxDelay,
		func(id kernel.EffectID, d time.Duration, err error) Message { return delay{id, d, err} }))
}

func (a *actor) delayRead(ctx *kernel.Context[Message], m delay) {
	if !a.measuring.Take(m.id) {
		return
	}
	if m.err != nil {
		ctx.Log().Warn().Str("error", m.err.Error()).Msg("cannot read InhibitDelayMaxSec of systemd-logind")
		return
	}
	a.max = m.max
	if m.max >= a.needs() {
		return
	}
	if !a.raise {
		a.raise = true
		to := a.needs()
		a.measuring.Begin(portcall.Do0(ctx, a.effect("RaiseMaxDelay"),
			func(c context.Context, done func(error)) { a.deps.Inhibitor.RaiseMaxDelay(c, to, done) },
			func(id kernel.EffectID, err error) Message { return raised{id, err} }))
		return
	}
	if total, left := a.deps.Groups.Total(), a.fitted().Total(); left < total {
		ctx.Log().Warn().Dur("configured", total).Dur("allowed", m.max).Dur("shortened", left).Msgf("a shutdown of the "+
			"machine waits at most %v, and the configured shutdown grace periods are %v in all: they are shortened to %v, "+
			"because the statuses of pods need time too; set InhibitDelayMaxSec=%.0f in /etc/systemd/logind.conf and restart "+
			"systemd-logind", m.max, total, left.Round(time.Millisecond), a.needs().Seconds())
	}
}

func (a *actor) raised(ctx *kernel.Context[Message], m raised) {
	if !a.measuring.Take(m.id) {
		return
	}
	if m.err != nil {
		ctx.Log().Warn().Str("error", m.err.Error()).Msg("cannot raise InhibitDelayMaxSec of systemd-logind")
	}
	a.measure(ctx)
}

func (a *actor) release(ctx *kernel.Context[Message]) {
	portcall.Do0(ctx, a.effect("Release"), a.deps.Inhibitor.Release,
		func(id kernel.EffectID, err error) Message { return released{id, err} })
}

// fitted are the configured groups, shortened if a shutdown does not wait that long. A tenth is left for the
// statuses.
func (a *actor) fitted() shutdown.Groups {
	if a.max <= 0 {
		return a.deps.Groups
	}
	return a.deps.Groups.Fit(max(a.max-Patience, a.max*9/10))
}
