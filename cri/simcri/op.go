package simcri

import (
	"context"
	"errors"
	"time"

	"github.com/troupe-dev/troupe/actors/port"
)

// op is one call under way.
//
//	begun ──latency──► working ──► answered          (the usual way)
//	  │                   └── waits ──► answered     (StopContainer, PullImage, ExecSync, Events)
//	  └─ context ended, runtime killed: answered; then it still works, or is dropped
//
// All fields belong to the runtime's lock.
type op struct {
	r     *Runtime
	call  Call
	fault Fault
	fail  func(error)
	work  func(*op)

	// answered: done was called or is in r.out. Never reset: done is called once.
	answered bool
	// working: the latency is over.
	working bool
	// refused: the call will fail at the end of its latency, whatever comes.
	refused bool
	// undo gives back what the call holds (a name, a place among the pulls);
	// nil if it holds nothing.
	undo      func()
	stopTimer func() bool
	stopCtx   func() bool

	prev, next *op // in r.inflight while linked
	linked     bool
}

// opList is a list of calls in the order in which they were made.
type opList struct {
	first, last *op
	n           int
}

func (l *opList) add(o *op) {
	o.prev, o.linked = l.last, true
	if l.last != nil {
		l.last.next = o
	} else {
		l.first = o
	}
	l.last = o
	l.n++
}

func (l *opList) remove(o *op) {
	if !o.linked {
		return
	}
	if o.prev != nil {
		o.prev.next = o.next
	} else {
		l.first = o.next
	}
	if o.next != nil {
		o.next.prev = o.prev
	} else {
		l.last = o.prev
	}
	o.prev, o.next, o.linked = nil, nil, false
	l.n--
}

// ctxWithAfterFunc is a context that tells of its end without a goroutine.
type ctxWithAfterFunc interface {
	AfterFunc(func()) (stop func() bool)
}

// begin makes a call. reserve, if not nil, runs now and may refuse; work runs
// when the latency is over; fail gives the caller an error. reserve and work
// run under the lock.
func (r *Runtime) begin(ctx context.Context, c Call, fail func(error), reserve func(*op) *port.Error, work func(*op)) {
	var fault Fault
	if r.cfg.Fault != nil {
		fault = r.cfg.Fault(c)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls[c.Method]++
	o := &op{r: r, call: c, fault: fault, fail: fail}
	r.inflight.add(o)
	if err := ctx.Err(); err != nil {
		o.refuseAfter(0, ctxError(err))
		return
	}
	if r.down {
		o.refuseAfter(refusedConnection, &port.Error{Kind: port.Unavailable, Detail: "the runtime is not running"})
		return
	}
	o.watch(ctx)
	if fault.Hang {
		return
	}
	latency := r.cfg.Latencies[c.Method].Sample(r.lat) + fault.Latency
	if fault.Fail {
		o.refuseAfter(latency, &port.Error{Kind: fault.Kind, Detail: fault.Detail})
		return
	}
	if reserve != nil {
		if err := reserve(o); err != nil {
			o.refuseAfter(latency, err)
			return
		}
	}
	o.again(latency, work)
}

// again puts the call's work off by d: until then it is as if it had not begun.
func (o *op) again(d time.Duration, work func(*op)) {
	if o.r.down {
		o.drop()
		return
	}
	o.working, o.work = false, work
	o.stopTimer = o.r.after(d, func() {
		o.working = true
		o.work(o)
	})
}

func (o *op) refuseAfter(d time.Duration, err *port.Error) {
	o.refused = true
	o.stopTimer = o.r.after(d, func() { o.refuse(err) })
}

// watch ends the call when ctx ends.
func (o *op) watch(ctx context.Context) {
	ended := func() { o.r.locked(func() { o.ended(ctxError(ctx.Err())) }) }
	if c, ok := ctx.(ctxWithAfterFunc); ok {
		o.stopCtx = c.AfterFunc(ended)
	} else if ctx.Done() != nil {
		o.stopCtx = context.AfterFunc(ctx, ended)
	}
}

// ended: the caller stops waiting, or the runtime was killed.
func (o *op) ended(err *port.Error) {
	if !o.linked {
		return
	}
	r := o.r
	mayStillWork := !o.working && !o.refused && !o.fault.Hang
	o.answer(func() { o.fail(o.named(err)) })
	switch {
	case mayStillWork && r.flt.Float64() < r.cfg.LateEffect:
		if r.down {
			// A killed runtime does nothing later: what it got done, it has done.
			o.stopTimer()
			o.working = true
			o.work(o)
		}
		return
	case o.stopTimer != nil:
		o.stopTimer()
	}
	o.drop()
}

// reply answers the call: f calls done. The call has done all its work.
func (o *op) reply(f func()) {
	o.undo = nil
	switch {
	case o.answered:
		o.end()
	case o.fault.Partial:
		o.answer(func() { o.fail(o.named(&port.Error{Kind: o.fault.Kind, Detail: o.fault.Detail})) })
		o.end()
	case o.fault.LoseReply:
		// Stays among the calls under way until its context ends.
	default:
		o.answer(f)
		o.end()
	}
}

// refuse answers with an error and gives back what the call holds.
func (o *op) refuse(err *port.Error) {
	if o.undo != nil {
		o.undo()
		o.undo = nil
	}
	if o.fault.LoseReply && !o.answered {
		return
	}
	o.answer(func() { o.fail(o.named(err)) })
	o.end()
}

func (o *op) refusef(kind port.ErrorKind, detail string) {
	o.refuse(&port.Error{Kind: kind, Detail: detail})
}

// drop gives back what the call holds and forgets it.
func (o *op) drop() {
	if o.undo != nil {
		o.undo()
		o.undo = nil
	}
	o.end()
}

// answer sees to it that f runs, unless the call was answered before.
func (o *op) answer(f func()) {
	if o.answered {
		return
	}
	o.answered = true
	o.r.out = append(o.r.out, f)
}

// end takes the call off the list.
func (o *op) end() {
	o.r.inflight.remove(o)
	if o.stopCtx != nil {
		o.stopCtx()
		o.stopCtx = nil
	}
}

// named completes err with what was called on what.
func (o *op) named(err *port.Error) *port.Error {
	e := *err
	e.Verb = o.call.Method.String()
	if e.Object == "" {
		e.Object = o.call.Object
	}
	return &e
}

func ctxError(err error) *port.Error {
	if errors.Is(err, context.DeadlineExceeded) {
		return &port.Error{Kind: port.Deadline, Detail: err.Error()}
	}
	return &port.Error{Kind: port.Canceled, Detail: "the caller gave up"}
}

// after runs step under the lock, d from now, and then the callbacks it left.
func (r *Runtime) after(d time.Duration, step func()) (stop func() bool) {
	return r.cfg.Clock.AfterFunc(d, func() {
		r.mu.Lock()
		step()
		r.mu.Unlock()
		r.flush()
	})
}

// locked runs step under the lock for somebody who is no clock callback: the
// callbacks that it leaves run from one.
func (r *Runtime) locked(step func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	step()
	if len(r.out) > 0 && !r.flushSoon {
		r.flushSoon = true
		r.cfg.Clock.AfterFunc(0, func() {
			r.mu.Lock()
			r.flushSoon = false
			r.mu.Unlock()
			r.flush()
		})
	}
}

// flush runs the callbacks in r.out in order. If another goroutine is at it,
// that one runs ours too.
func (r *Runtime) flush() {
	for out := r.take(true); out != nil; out = r.take(false) {
		for _, f := range out {
			f()
		}
	}
}

// take gives the callbacks to run next, nil if there are none or another
// goroutine runs them.
func (r *Runtime) take(first bool) []func() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if first && r.flushing {
		return nil
	}
	out := r.out
	r.out = nil
	r.flushing = out != nil
	return out
}

func (r *Runtime) now() int64 { return r.cfg.Clock.Now().UnixNano() }
