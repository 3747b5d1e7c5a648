package simapi

import (
	"context"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/port/simport"
	"github.com/troupe-dev/troupe/apiclient/internal/patience"
)

// follow is one watch of the port: it behaves like client-go's reflector.
//
//	             ┌──────────── broken: told, then after a backoff ◄────────────┐
//	             ▼                                                             │
//	asking ──List, or Watch from where it was──► open ──connection lost──► waiting
//	  ▲                                           │ │
//	  │ the version is too old or too new: List   │ └──closed by the server──► asking
//	  └───────────────────────────────────────────┘
//
// any ──context ended──► ended
type follow struct {
	watch
	c        *client
	selected port.Selection
	change   func(port.APIChange)
	done     func(error)
	stopCtx  func() bool

	state followState
	// asked is the running call; only while asking.
	asked *op
	// version is the last reported one, from which it resumes; 0 for a list.
	version uint64
	// queue are the events to report, in order, each when it is due. A Replaced, if there is one,
	// is first.
	queue []item
	// covers is the version of the last Replaced in the queue, which includes all earlier
	// changes. 0 once that may have been lost.
	covers uint64
	// stopTimer cancels the timer for the first of the queue, or for the next attempt.
	stopTimer func() bool
	// began is when it was last asked for. pauses are those between attempts; told is the last reported reason.
	began  time.Time
	pauses patience.Pauses
	told   string
}

type followState uint8

const (
	asking followState = iota
	open
	waiting
	ended
)

// item is one event to report.
type item struct {
	change  port.APIChange
	version uint64
	due     time.Time
}

// Watch implements port.API.
func (c *client) Watch(ctx context.Context, selected port.Selection, change func(port.APIChange), done func(error)) {
	f := &follow{c: c, selected: selected, change: change, done: done}
	sel, err := parseSelector(selected.Kind, selected.Namespace, selected.Field, "")
	f.watch = watch{sel: sel, tell: f.take}
	c.s.stage.Do(func() {
		c.follows = append(c.follows, f)
		if ctx.Err() != nil {
			c.s.stage.After(0, func() { f.end(ctx.Err()) })
			return
		}
		f.stopCtx = simport.OnEnd(ctx, func() { c.s.stage.Do(func() { f.end(ctx.Err()) }) })
		f.stopTimer = c.s.stage.After(0, func() { f.ask(err) })
	})
}

// ask requests a list, or the changes since version. bad is a permanent error of the selection.
func (f *follow) ask(bad error) {
	f.state, f.stopTimer, f.began = asking, nil, f.c.s.stage.Now()
	call := Call{Verb: List, Node: f.c.node, Field: f.selected.Field,
		Key: port.APIKey{Kind: f.selected.Kind, Namespace: f.selected.Namespace}}
	if f.version != 0 {
		call.Verb = Watch
	}
	s := f.c.s
	// The hook is called without the lock.
	s.stage.Later(func() {
		var fault Fault
		if s.cfg.Fault != nil {
			fault = s.cfg.Fault(call)
		}
		fault.Fail, fault.Hang = fault.Fail || fault.Partial, fault.Hang || fault.LoseReply
		fault.Partial, fault.LoseReply = false, false
		// A late list has the objects of its instant. A watch has no other answer than its changes.
		late := time.Duration(0)
		if call.Verb == List {
			late = fault.AnswerLate
		} else {
			fault.Latency += fault.AnswerLate
		}
		fault.Latency += fault.WorkLate
		fault.AnswerLate, fault.WorkLate = 0, 0
		s.stage.Do(func() {
			if f.state != asking {
				return
			}
			fail := func(err error) { s.stage.Do(func() { f.refused(err, bad) }) }
			f.asked = f.c.beginLocked(context.Background(), call, f.selected.String(), fault, fail,
				func(o *op) { f.answered(o, call.Verb, late, bad) })
			f.asked.From = f
			if f.c.link.deaf() && !s.down {
				f.asked.RefuseAfter(patience.Dial, unreachable("dial tcp: i/o timeout"))
			}
		})
	})
}

// answered: the call succeeds. A list is told late.
func (f *follow) answered(o *op, verb Verb, late time.Duration, bad error) {
	s := f.c.s
	given := o.Answered() // the connection was lost meanwhile
	o.Drop()
	if given {
		return
	}
	f.asked = nil
	if bad != nil {
		err := portError(bad)
		err.Verb, err.Object = verb.String(), f.selected.String()
		f.broken(err, bad)
		return
	}
	t := s.tables[f.sel.kind]
	f.state, f.told = open, ""
	if verb == List {
		f.startOver(s.stage.Now().Add(f.lag() + late))
	} else if f.version > s.version || !t.history.since(f.version, f.see) {
		f.version, f.queue = 0, nil
		f.ask(nil)
		return
	}
	t.watches.add(&f.watch)
}

// refused: the call failed.
func (f *follow) refused(err error, bad error) {
	if f.state == asking {
		f.asked = nil
		f.broken(err, bad)
	}
}

// broken: the watch fails. That is reported, and the watch retries later.
func (f *follow) broken(err error, bad error) {
	f.close()
	if reason := err.Error(); f.told != reason {
		f.told = reason
		f.c.s.stage.Later(func() { f.change(port.APIBroken{Err: err}) })
	}
	f.state = waiting
	s := f.c.s
	pause := f.pauses.Next(f.selected.Kind, true, port.KindOf(err), s.stage.Now().Sub(f.began), s.bo.Int64N)
	f.stopTimer = s.stage.After(pause, func() { f.ask(bad) })
}

// close ends an open watch. Events in the queue are lost, and come again from the history or a
// list. Bookmarks that were due by now count.
func (f *follow) close() {
	if f.state != open {
		return
	}
	s := f.c.s
	s.tables[f.sel.kind].watches.remove(&f.watch)
	if told := s.marks.told(s.stage.Now()); f.version != 0 && told > f.version &&
		(len(f.queue) == 0 || f.queue[0].version > told) {
		f.version = told
	}
	f.queue, f.covers = nil, 0
	if f.stopTimer != nil {
		f.stopTimer()
		f.stopTimer = nil
	}
}

// reopen: the server has closed the stream, as it does periodically.
func (f *follow) reopen() {
	if f.state == open {
		f.close()
		f.ask(nil)
	}
}

// end ends the watch: its caller cancelled it.
func (f *follow) end(why error) {
	if f.state == ended {
		return
	}
	f.drop()
	err := simport.ContextError(why)
	err.Verb, err.Object = Watch.String(), f.selected.String()
	f.c.s.stage.Later(func() { f.done(err) })
}

// drop ends it without a report.
func (f *follow) drop() {
	f.close()
	if f.asked != nil {
		f.asked.Forget()
		f.asked = nil
	}
	if f.stopTimer != nil {
		f.stopTimer()
	}
	if f.stopCtx != nil {
		f.stopCtx()
	}
	f.state = ended
	f.c.follows = slices.DeleteFunc(f.c.follows, func(x *follow) bool { return x == f })
}

// lag is the delay of the next event.
func (f *follow) lag() time.Duration {
	s := f.c.s
	d := s.cfg.WatchLag.Sample(s.wat)
	if s.cfg.ExtraLag != nil {
		d += s.cfg.ExtraLag(Watching{f.c.node, f.selected})
	}
	return d
}

// startOver replaces the queue by a list of all objects.
func (f *follow) startOver(due time.Time) {
	s := f.c.s
	f.covers = s.version
	f.queue = append([]item(nil), item{port.APIReplaced{Objects: s.tables[f.sel.kind].list(f.sel)}, s.version, due})
	f.arm()
}

// take queues a change.
func (f *follow) take(e Event) {
	s := f.c.s
	if e.Version <= f.covers {
		return // it started over meanwhile, and reported this from the history
	}
	if n := len(f.queue); n >= s.cfg.WatchBuffer {
		// Too far behind: a real apiserver ends the stream, and the client lists again. The list
		// is due when the first of the queue was, so that a watch that is always behind still
		// makes progress.
		f.startOver(f.queue[0].due)
		return
	}
	due := s.stage.Now().Add(f.lag())
	if n := len(f.queue); n > 0 && due.Before(f.queue[n-1].due) {
		due = f.queue[n-1].due
	}
	var c port.APIChange
	if e.Type == Deleted {
		c = port.APIDeleted{Object: e.Object}
	} else {
		c = port.APISet{Object: e.Object}
	}
	if s.cfg.WatchSkip > 0 && s.wat.Float64() < s.cfg.WatchSkip {
		f.skip(e.Object)
	}
	f.queue = append(f.queue, item{c, e.Version, due})
	if len(f.queue) == 1 {
		f.arm()
	}
}

// skip removes queued versions of an object that a newer one replaces.
func (f *follow) skip(o port.APIObject) {
	uid := metaOf(o).UID
	f.queue = slices.DeleteFunc(f.queue, func(i item) bool {
		set, ok := i.change.(port.APISet)
		return ok && metaOf(set.Object).UID == uid
	})
}

// arm sets the timer for the first of the queue.
func (f *follow) arm() {
	if f.stopTimer != nil {
		f.stopTimer()
		f.stopTimer = nil
	}
	if len(f.queue) > 0 && !f.c.link.deaf() {
		f.stopTimer = f.c.s.stage.After(f.queue[0].due.Sub(f.c.s.stage.Now()), f.fire)
	}
}

// fire reports the due events.
func (f *follow) fire() {
	f.stopTimer = nil
	now := f.c.s.stage.Now()
	n := 0
	for n < len(f.queue) && !f.queue[n].due.After(now) {
		n++
	}
	if n == 0 {
		f.arm()
		return
	}
	f.version = f.queue[n-1].version
	if n == 1 {
		c := f.queue[0].change
		f.c.s.stage.Later(func() { f.change(c) })
	} else {
		due := slices.Clone(f.queue[:n])
		f.c.s.stage.Later(func() {
			for _, i := range due {
				f.change(i.change)
			}
		})
	}
	if n == len(f.queue) {
		f.queue = nil
		return
	}
	f.queue = slices.Delete(f.queue, 0, n)
	f.arm()
}
