package kernel

import "time"

// Alarm sends its actor a message later. It is set for one time only: setting it again replaces the time before. The
// zero value is not set. It is small, because there are several of it for each pod.
type Alarm[M any] struct{ cancel func() bool }

// SetIn has m sent after d.
func (a *Alarm[M]) SetIn(ctx *Context[M], d time.Duration, m M) {
	a.Stop()
	a.cancel = ctx.After(d, m)
}

// SetAt has m sent at a time. The zero time only stops the alarm.
func (a *Alarm[M]) SetAt(ctx *Context[M], at time.Time, m M) {
	a.Stop()
	if !at.IsZero() {
		a.SetIn(ctx, at.Sub(ctx.Now()), m)
	}
}

// IsSet reports whether a message is still to come.
func (a *Alarm[M]) IsSet() bool { return a.cancel != nil }

// Fired says that the message was received. It may be that of an earlier time, which was in the mailbox already when
// the alarm was set again: it counts as this one, so what has to come after it is set again.
func (a *Alarm[M]) Fired() { a.Stop() }

// Stop ends the wait. A message that is in the mailbox already is received all the same.
func (a *Alarm[M]) Stop() {
	if a.cancel != nil {
		a.cancel()
		a.cancel = nil
	}
}

// Soonest is an Alarm of which the earliest time counts: setting it for a later one does nothing.
type Soonest[M any] struct {
	alarm Alarm[M]
	at    time.Time
}

// SetAt has m sent at a time, or before if the alarm is set so.
func (s *Soonest[M]) SetAt(ctx *Context[M], at time.Time, m M) {
	if s.alarm.IsSet() && !at.Before(s.at) {
		return
	}
	s.at = at
	s.alarm.SetAt(ctx, at, m)
}

// Fired says that the message was received: see Alarm.Fired.
func (s *Soonest[M]) Fired() { s.alarm.Stop() }

// Stop ends the wait, as Alarm.Stop does.
func (s *Soonest[M]) Stop() { s.alarm.Stop() }
