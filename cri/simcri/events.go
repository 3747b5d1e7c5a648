package simcri

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/port"
)

// EventPolicy configures faults of the event stream. The zero value has none.
type EventPolicy struct {
	// Off: the runtime has no events (Unsupported).
	Off bool
	// Delay is the delay of each event; different delays change their order.
	Delay Dist
	// Drop and Duplicate are the chances, 0 to 1, that an event is lost or sent twice.
	Drop, Duplicate float64
	// Fate decides what becomes of each event, beside the above; nil for nothing. It is called
	// under the lock, once for all streams, and must not call the runtime.
	Fate func(port.RuntimeEvent) EventFate
}

// EventFate is what becomes of one event. The zero value is nothing special. It changes the draws of
// no other event.
type EventFate struct {
	// Drop: no stream gets it.
	Drop bool
	// Twice: each stream gets it twice, at the same time.
	Twice bool
	// Delay is added to the event's own, so that later events may come before it.
	Delay time.Duration
}

func (p *EventPolicy) validate() error {
	var errs []error
	if err := p.Delay.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("simcri: Events.Delay: %w", err))
	}
	if p.Drop < 0 || p.Drop > 1 || p.Duplicate < 0 || p.Duplicate > 1 {
		errs = append(errs, errors.New("simcri: Events.Drop and Events.Duplicate: want chances, 0 to 1"))
	}
	return errors.Join(errs...)
}

// subscription is one open stream of events.
type subscription struct {
	event  func(port.RuntimeEvent)
	closed bool
}

// Events implements port.Runtime.
func (r *Runtime) Events(ctx context.Context, opened func(), event func(port.RuntimeEvent), done func(error)) {
	r.subscribe(ctx, false, opened, event, done)
}

// subscribe opens a stream. With early, events are sent from now on and not only once it is
// opened: gRPC does not report that.
func (r *Runtime) subscribe(
	ctx context.Context, early bool, opened func(), event func(port.RuntimeEvent), done func(error),
) {
	sub := &subscription{event: event}
	add := func(o *op) {
		r.subs = append(r.subs, sub)
		o.Undo = func() {
			sub.closed = true
			r.subs = slices.DeleteFunc(r.subs, func(s *subscription) bool { return s == sub })
		}
	}
	r.begin(ctx, Call{Method: Events}, done,
		func(o *op) *port.Error {
			if r.cfg.Events.Off {
				return &port.Error{Kind: port.Unsupported, Detail: "GetContainerEvents is switched off"}
			}
			if early {
				add(o)
			}
			return nil
		},
		func(o *op) {
			if o.Answered() {
				o.Drop() // the subscriber is gone
				return
			}
			if !early {
				add(o)
			}
			r.mu.Later(opened)
		})
}

// emit sends an event of a container or sandbox to the subscribers.
func (r *Runtime) emit(kind observed.EventKind, id string, ref observed.PodRef) {
	if len(r.subs) == 0 || r.silent {
		return
	}
	e := port.RuntimeEvent{Kind: kind, ContainerID: id, Pod: ref, At: r.cfg.Clock.Now().Round(0)}
	policy := &r.cfg.Events
	var fate EventFate
	if policy.Fate != nil {
		fate = policy.Fate(e)
	}
	for _, sub := range r.subs {
		copies := 1
		if policy.Drop > 0 && r.flt.Float64() < policy.Drop {
			copies = 0
		}
		if policy.Duplicate > 0 && r.flt.Float64() < policy.Duplicate {
			copies *= 2
		}
		for range copies {
			r.send(sub, e, policy.Delay.Sample(r.flt), fate)
		}
	}
}

// send sends one copy of an event after a delay, which its fate may change.
func (r *Runtime) send(sub *subscription, e port.RuntimeEvent, delay time.Duration, fate EventFate) {
	times := 1
	switch {
	case fate.Drop:
		return
	case fate.Twice:
		times = 2
	}
	tell := func() {
		for range times {
			r.mu.Later(func() { sub.event(e) })
		}
	}
	if r.cfg.Events.Delay.IsZero() && fate.Delay == 0 {
		tell()
		return
	}
	r.after(delay+fate.Delay, func() {
		if !sub.closed {
			tell()
		}
	})
}
