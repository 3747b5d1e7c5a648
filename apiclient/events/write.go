package events

import (
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
)

// call is an event whose write is running.
type call struct {
	waiting
	ctx  context.Context
	end  func(error)
	stop func() bool
}

// advance starts the due writes, as far as there is room.
func (r *Recorder) advance() {
	for {
		r.mu.Lock()
		c, failed, err := r.beginLocked()
		var flushed func()
		if c == nil && err == nil && len(r.calls) == 0 {
			flushed, r.flushed = r.flushed, nil
		}
		r.mu.Unlock()
		switch {
		case err != nil:
			r.dropped(failed, err)
		case c != nil:
			r.write(c)
		default:
			if flushed != nil {
				flushed()
			}
			return
		}
	}
}

// beginLocked takes the next due event, if there is room for a call. An event that cannot be made
// an API object is returned with an error.
func (r *Recorder) beginLocked() (_ *call, failed port.Event, _ error) {
	for r.roomLocked() {
		h := haste{all: r.away || r.flushed != nil, wait: r.config.Wait, busy: r.config.Busy, patience: r.config.Patience}
		i, in := r.queue.next(r.config.Clock.Now(), h, r.freeLocked)
		if i < 0 {
			r.lookLocked(in)
			break
		}
		w := r.queue.take(i)
		if w.object == nil {
			result, err := r.correlate(&w.event)
			if err != nil {
				return nil, w.event, err
			}
			if result.Skip {
				continue
			}
			w.object, w.counted = result.Event, result.Event.Count > 1
		}
		c := &call{waiting: w}
		c.ctx, c.end = kernel.NewContext(r.config.Clock)
		c.stop = r.config.Clock.AfterFunc(r.config.Deadline, func() { c.end(context.DeadlineExceeded) })
		r.calls = append(r.calls, c)
		return c, failed, nil
	}
	return nil, failed, nil
}

func (r *Recorder) roomLocked() bool {
	if r.away {
		return len(r.calls) == 0 && r.retry == nil
	}
	return len(r.calls) < r.config.Calls
}

func (r *Recorder) freeLocked(of about) bool {
	return !slices.ContainsFunc(r.calls, func(c *call) bool { return c.about() == of }) &&
		!slices.ContainsFunc(r.troubled, func(w waiting) bool { return w.about() == of })
}

// lookLocked sets the timer for the next due event; 0 for no timer.
func (r *Recorder) lookLocked(in time.Duration) {
	if r.look != nil {
		r.look()
		r.look = nil
	}
	if in > 0 {
		r.look = r.config.Clock.AfterFunc(in, r.advance)
	}
}

// write creates an event, or counts up an existing one.
func (r *Recorder) write(c *call) {
	done := func(got port.APIObject, err error) {
		c.stop()
		r.written(c, got, err)
	}
	o := c.object
	if !c.counted {
		fresh := *o
		fresh.ResourceVersion = ""
		r.config.API.Create(c.ctx, &fresh, done)
		return
	}
	from := *o // the patch is the difference
	from.Count, from.LastTimestamp, from.Message = o.Count-1, o.FirstTimestamp, ""
	r.config.API.Patch(c.ctx, port.APIPatch{
		Key: port.APIKey{Kind: port.EventKind, Namespace: o.Namespace, Name: o.Name}, From: &from, To: o,
	}, done)
}

// troubleMost is how long an event is retried that the apiserver neither accepts nor refuses.
const troubleMost = 10 * time.Minute

// written handles the result of a call, and continues.
func (r *Recorder) written(c *call, got port.APIObject, err error) {
	drop := false
	now := r.config.Clock.Now()
	r.mu.Lock()
	r.calls = slices.DeleteFunc(r.calls, func(o *call) bool { return o == c })
	unheard := false
	switch kind := port.KindOf(err); {
	case r.closed:
		r.mu.Unlock()
		return
	case err == nil:
		r.updateState(&c.event, got.(*v1.Event))
	case kind == port.AlreadyExists && !c.counted:
		// An earlier call has worked.
	case kind == port.NotFound && c.counted:
		c.counted = false // the apiserver has expired it
		r.queue.putBack(c.waiting)
	case kind == port.Unavailable, kind == port.Deadline, kind == port.Canceled, kind == port.TooManyRequests,
		kind == port.Unauthorized:
		unheard = true
		r.queue.putBack(c.waiting)
	case kind == port.Other:
		unheard = true
		drop = !c.troubled.IsZero() && r.heard.After(c.troubled) || now.Sub(c.since) > troubleMost
		if !drop {
			c.troubled = now
			r.troubled = append(r.troubled, c.waiting)
		}
	default:
		drop = true // the namespace is being deleted, or another permanent error
	}
	switch {
	case !unheard:
		r.away, r.heard = false, now
	case r.retry == nil:
		r.retry = r.config.Clock.AfterFunc(r.config.Retry, r.tryAgain)
	}
	r.away = r.away || unheard && !drop
	r.mu.Unlock()
	if drop {
		r.dropped(c.event, err)
	}
	r.advance()
}

// tryAgain continues after a pause.
func (r *Recorder) tryAgain() {
	r.mu.Lock()
	r.untroubleLocked()
	r.mu.Unlock()
	r.advance()
}

// untroubleLocked ends the pause. Troubled events come after all others, also warnings: otherwise
// no other event would be tried.
func (r *Recorder) untroubleLocked() {
	r.retry = nil
	for _, w := range r.troubled {
		r.queue.putLast(w)
	}
	r.troubled = nil
}
