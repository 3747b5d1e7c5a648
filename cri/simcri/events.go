package simcri

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/port"
)

// EventPolicy is how well the event stream works. The zero value is perfect.
type EventPolicy struct {
	// Off: the runtime has no events (Unsupported).
	Off bool
	// Delay is how late each event comes; different delays change their order.
	Delay Dist
	// Drop and Duplicate are the chances, 0 to 1, that an event does not come,
	// or comes twice.
	Drop, Duplicate float64
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

// subscribe opens a stream. With early, events come from now on and not only
// once it is opened: over gRPC there is no notice of that.
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
				o.Drop() // nobody listens any more
				return
			}
			if !early {
				add(o)
			}
			r.mu.Later(opened)
		})
}

// emit tells the subscribers what happened to a container or sandbox.
func (r *Runtime) emit(kind observed.EventKind, id string, ref observed.PodRef) {
	if len(r.subs) == 0 {
		return
	}
	e := port.RuntimeEvent{Kind: kind, ContainerID: id, Pod: ref, At: r.cfg.Clock.Now()}
	policy := &r.cfg.Events
	for _, sub := range r.subs {
		copies := 1
		if policy.Drop > 0 && r.flt.Float64() < policy.Drop {
			copies = 0
		}
		if policy.Duplicate > 0 && r.flt.Float64() < policy.Duplicate {
			copies *= 2
		}
		for range copies {
			r.send(sub, e, policy)
		}
	}
}

func (r *Runtime) send(sub *subscription, e port.RuntimeEvent, policy *EventPolicy) {
	if policy.Delay.IsZero() {
		r.mu.Later(func() { sub.event(e) })
		return
	}
	r.after(policy.Delay.Sample(r.flt), func() {
		if !sub.closed {
			r.mu.Later(func() { sub.event(e) })
		}
	})
}
