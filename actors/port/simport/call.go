package simport

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/rescue"
)

// Fault is what goes wrong with one call. The zero value is no fault.
type Fault struct {
	// Fail: the call returns an error of Kind and has no effect.
	Fail   bool
	Kind   port.ErrorKind
	Detail string
	// Latency is added to the call's own.
	Latency time.Duration
	// Hang: the call has no effect and no answer until the context ends or the far side is killed.
	Hang bool
	// LoseReply: the call takes effect without an answer.
	LoseReply bool
	// Partial: the call takes effect, in full or in part, and then fails with Kind. The port defines
	// what a part is.
	Partial bool
	// AnswerLate: the call takes effect as usual. Its answer or refusal comes this much later, and says
	// what was true at the instant of the effect. It is lost if the caller gives up, or the far side is
	// killed, before it comes.
	AnswerLate time.Duration
	// Panics: what the port does on this side panics. With Fail that is the translation of the request, and the call has
	// no effect; without, it is the reading of the answer, after the call has taken effect.
	Panics bool
	// Takes: so many bytes are held from the call to its answer.
	Takes int
	// WorkLate: the call takes effect this much later, also if its caller gave up or was killed before.
	// If the far side is killed before, the call takes effect at that instant.
	WorkLate time.Duration
}

// Calls are the calls to one simulated port.
type Calls struct {
	*Stage
	// late is the chance that a call takes effect although it was given up before; rng draws for it.
	late float64
	rng  *rand.Rand
	// inflight are the unfinished calls, oldest first, so that events that concern all of them have a
	// fixed order.
	inflight list
}

// NewCalls makes the calls of one port. late is the chance, 0 to 1, that a call takes effect
// although its context ended, or the far side was killed, before it was answered. rng draws only
// for such calls.
func NewCalls(stage *Stage, late float64, rng *rand.Rand) *Calls {
	return &Calls{Stage: stage, late: late, rng: rng}
}

// InFlight is the number of unfinished calls.
func (c *Calls) InFlight() int { return c.inflight.n }

// Op is one call under way.
//
//	begun ──latency──► working ──► answered          (the usual way)
//	  │                   ├── waits ──► answered     (a pull, a stop with grace, a stream)
//	  │                   └── done, its answer waits ──► answered   (Fault.AnswerLate)
//	  └─ context ended, far side killed: answered; then it still works, or is dropped
//
// The stage's lock guards all its fields.
type Op struct {
	calls  *Calls
	verb   string
	object string
	// From is the caller, where a port has several callers.
	From  any
	Fault Fault
	// Undo releases what the call holds (a name, a place among the pulls); nil if it holds nothing.
	Undo func()

	fail func(error)
	work func(*Op)
	// held is the memory of Fault.Takes.
	held []byte
	// crash answers with a panic; nil unless Fault.Panics.
	crash func()
	// answered: done was called or will be. Never reset: done is called once.
	answered bool
	// working: the latency is over.
	working bool
	// refused: the call will fail at the end of its latency in any case.
	refused   bool
	stopTimer func() bool
	stopCtx   func() bool

	prev, next *Op // in calls.inflight while linked
	linked     bool
}

// list is a list of calls, oldest first.
type list struct {
	first, last *Op
	n           int
}

func (l *list) add(o *Op) {
	o.prev, o.linked = l.last, true
	if l.last != nil {
		l.last.next = o
	} else {
		l.first = o
	}
	l.last = o
	l.n++
}

func (l *list) remove(o *Op) {
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

// Begin registers a call, under the lock. Start, Hang or RefuseAfter then decides its outcome. verb
// and object are for its errors; fail gives the caller an error.
func (c *Calls) Begin(verb, object string, fault Fault, fail func(error)) *Op {
	o := &Op{calls: c, verb: verb, object: object, Fault: fault, fail: fail}
	c.inflight.add(o)
	return o
}

// Canceled refuses a call whose context has already ended, and reports whether it did.
func (o *Op) Canceled(ctx context.Context) bool {
	err := ctx.Err()
	if err == nil {
		return false
	}
	o.RefuseAfter(0, ContextError(err))
	return true
}

// Start runs work after the latency, unless ctx ends first or the fault prevents it. reserve, if
// not nil, runs now and may refuse.
func (o *Op) Start(ctx context.Context, latency time.Duration, reserve func(*Op) *port.Error, work func(*Op)) {
	if o.Fault.Takes > 0 {
		o.held = make([]byte, o.Fault.Takes)
		for i := 0; i < len(o.held); i += page {
			o.held[i] = 1
		}
	}
	if o.Fault.Panics {
		o.crash = func() { panics(ctx, &o.Fault, func(err *port.Error) { o.fail(o.named(err)) }) }
	}
	if o.Fault.Fail {
		o.RefuseAfter(latency+o.Fault.Latency, &port.Error{Kind: o.Fault.Kind, Detail: o.Fault.Detail})
		o.watch(ctx)
		return
	}
	if reserve != nil {
		if err := reserve(o); err != nil {
			o.RefuseAfter(latency+o.Fault.Latency, err)
			o.watch(ctx)
			return
		}
	}
	o.Again(latency+o.Fault.Latency+o.Fault.WorkLate, work)
	o.watch(ctx)
}

// Hang leaves the call unanswered until ctx ends.
func (o *Op) Hang(ctx context.Context) { o.watch(ctx) }

// Again delays the call's work by d: until then the call counts as not begun.
func (o *Op) Again(d time.Duration, work func(*Op)) {
	o.working, o.work = false, work
	o.stopTimer = o.calls.After(d, o.begun)
}

func (o *Op) begun() {
	o.working = true
	o.work(o)
}

// RefuseAfter fails the call after d in any case.
func (o *Op) RefuseAfter(d time.Duration, err *port.Error) {
	o.refused = true
	o.stopTimer = o.calls.After(d, func() { o.Refuse(err) })
}

// contextWithAfterFunc is a context that reports its end without a goroutine.
type contextWithAfterFunc interface {
	AfterFunc(func()) (stop func() bool)
}

// OnEnd calls f when ctx ends, on its own goroutine unless ctx has a method AfterFunc(func())
// func() bool. That method lets a simulation end contexts on its own thread. stop is nil if ctx
// never ends.
func OnEnd(ctx context.Context, f func()) (stop func() bool) {
	if c, ok := ctx.(contextWithAfterFunc); ok {
		return c.AfterFunc(f)
	}
	if ctx.Done() == nil {
		return nil
	}
	return context.AfterFunc(ctx, f)
}

// watch ends the call when ctx ends.
func (o *Op) watch(ctx context.Context) {
	o.stopCtx = OnEnd(ctx, func() {
		o.calls.Do(func() { o.ended(ContextError(ctx.Err()), false) })
	})
}

// ended: the caller no longer waits, or the far side was killed.
func (o *Op) ended(err *port.Error, killed bool) {
	if !o.linked {
		return
	}
	mayStillWork := !o.working && !o.refused && !o.Fault.Hang && o.work != nil
	o.answer(func() { o.fail(o.named(err)) })
	switch {
	case mayStillWork && (o.Fault.WorkLate > 0 || o.calls.rng.Float64() < o.calls.late):
		if killed {
			// After a kill nothing happens later: either the work is done now, or never.
			o.stopTimer()
			o.begun()
		}
		return
	case o.stopTimer != nil:
		o.stopTimer()
	}
	o.Drop()
}

// Kill ends the matching calls as the death of the far side does: each is answered with err, and
// may or may not have taken effect. The caller holds the lock.
func (c *Calls) Kill(match func(*Op) bool, err *port.Error) {
	for o := c.inflight.first; o != nil; {
		next := o.next
		if match(o) {
			o.ended(err, true)
		}
		o = next
	}
}

// Each calls f for each unfinished call, oldest first. The caller holds the lock; f must not end a
// call.
func (c *Calls) Each(f func(*Op)) {
	for o := c.inflight.first; o != nil; o = o.next {
		f(o)
	}
}

// Forget ends an abandoned call. It has no further effect and no answer.
func (o *Op) Forget() {
	o.answered = true
	if o.stopTimer != nil {
		o.stopTimer()
	}
	o.Drop()
}

// Answered reports whether the caller already has its answer.
func (o *Op) Answered() bool { return o.answered }

// Reply answers the call: f calls done, with values of now. All work of the call must be done.
func (o *Op) Reply(f func()) {
	o.Undo = nil
	switch {
	case o.answered:
		o.end()
	case o.answersLate(func() { o.Reply(f) }):
	case o.crash != nil:
		o.answer(o.crash)
		o.end()
	case o.Fault.Partial:
		o.answer(func() { o.fail(o.named(&port.Error{Kind: o.Fault.Kind, Detail: o.Fault.Detail})) })
		o.end()
	case o.Fault.LoseReply:
		// Stays in flight until its context ends.
	default:
		o.answer(f)
		o.end()
	}
}

// Refuse answers with an error and releases what the call holds.
func (o *Op) Refuse(err *port.Error) {
	if o.Undo != nil {
		o.Undo()
		o.Undo = nil
	}
	if o.Fault.LoseReply && !o.answered || o.answersLate(func() { o.Refuse(err) }) {
		return
	}
	fail := func() { o.fail(o.named(err)) }
	if o.crash != nil && o.Fault.Fail {
		fail = o.crash
	}
	o.answer(fail)
	o.end()
}

// panics panics as the goroutine of a port may that works for ctx, and fails the call with the text.
func panics(ctx context.Context, fault *Fault, fail func(*port.Error)) {
	defer rescue.Call(ctx, func(reason string) { fail(port.Panicked("", "")(reason).(*port.Error)) })
	panic(fault.Detail)
}

// answersLate reports whether the answer is late, and then calls f when it is due.
func (o *Op) answersLate(f func()) bool {
	d := o.Fault.AnswerLate
	if d <= 0 || !o.working || o.answered {
		return false
	}
	o.Fault.AnswerLate = 0
	o.stopTimer = o.calls.After(d, f)
	return true
}

// Refusef is Refuse with an error of a kind.
func (o *Op) Refusef(kind port.ErrorKind, detail string) {
	o.Refuse(&port.Error{Kind: kind, Detail: detail})
}

// Drop releases what the call holds and forgets it.
func (o *Op) Drop() {
	if o.Undo != nil {
		o.Undo()
		o.Undo = nil
	}
	o.end()
}

// answer schedules f, unless the call was answered before.
func (o *Op) answer(f func()) {
	if o.answered {
		return
	}
	o.answered = true
	o.calls.Later(f)
}

// page is the least memory that a process gets.
const page = 4 << 10

// end takes the call off the list.
func (o *Op) end() {
	o.held = nil
	o.calls.inflight.remove(o)
	if o.stopCtx != nil {
		o.stopCtx()
		o.stopCtx = nil
	}
}

// named adds the verb and object to err.
func (o *Op) named(err *port.Error) *port.Error {
	e := *err
	e.Verb = o.verb
	if e.Object == "" {
		e.Object = o.object
	}
	return &e
}

// ContextError is the answer to a call whose context has ended.
func ContextError(err error) *port.Error {
	if errors.Is(err, context.DeadlineExceeded) {
		return &port.Error{Kind: port.Deadline, Detail: err.Error()}
	}
	return &port.Error{Kind: port.Canceled, Detail: "the caller gave up"}
}
