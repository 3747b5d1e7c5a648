package simapi

import (
	"context"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/port/simport"
)

// follow is one watch of the port: what client-go's reflector makes of lists and
// watches.
//
//	             ┌──────────── broken: told, then after a backoff ◄────────────┐
//	             ▼                                                             │
//	asking ──List, or Watch from where it was──► open ──connection lost──► waiting
//	  ▲                                           │ │
//	  │ the history since is gone: List           │ └──closed by the server──► asking
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
	// asked is the call under way; only while asking.
	asked *op
	// version is that of what was told last, and where it continues; 0 for a list.
	version uint64
	// queue is what is to be told, in order, each when its time has come. A
	// Replaced, if there is one, is first.
	queue []item
	// covers is the version of the last Replaced that was put into the queue: what
	// happened until then is in it. 0 once that may have been lost.
	covers uint64
	// stopTimer ends the wait for the first of the queue, or for the next attempt.
	stopTimer func() bool
	// failures since it was open; told is the reason that was told of them.
	failures uint8
	told     string
}

type followState uint8

const (
	asking followState = iota
	open
	waiting
	ended
)

// item is one thing to be told.
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

// ask asks for what there is, or for what there was since. bad is what is wrong
// with the selection, for ever.
func (f *follow) ask(bad error) {
	f.state, f.stopTimer = asking, nil
	call := Call{Verb: List, Node: f.c.node, Field: f.selected.Field,
		Key: port.APIKey{Kind: f.selected.Kind, Namespace: f.selected.Namespace}}
	if f.version != 0 {
		call.Verb = Watch
	}
	s := f.c.s
	// The hook is asked without the lock.
	s.stage.Later(func() {
		var fault Fault
		if s.cfg.Fault != nil {
			fault = s.cfg.Fault(call)
		}
		fault.Fail, fault.Hang = fault.Fail || fault.Partial, fault.Hang || fault.LoseReply
		fault.Partial, fault.LoseReply = false, false
		s.stage.Do(func() {
			if f.state != asking {
				return
			}
			fail := func(err error) { s.stage.Do(func() { f.refused(err, bad) }) }
			f.asked = f.c.beginLocked(context.Background(), call, f.selected.String(), fault, fail,
				func(o *op) { f.answered(o, call.Verb, bad) })
			f.asked.From = f
			if f.c.link == Silent && !s.down {
				f.asked.RefuseAfter(dialTimeout, unreachable("dial tcp: i/o timeout"))
			}
		})
	})
}

// answered: the apiserver does what was asked.
func (f *follow) answered(o *op, verb Verb, bad error) {
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
	f.state, f.failures, f.told = open, 0, ""
	if verb == List {
		f.startOver(s.stage.Now().Add(f.lag()))
	} else if !t.history.since(f.version, f.see) {
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

// broken: nothing can be heard. It is told, and tried again later.
func (f *follow) broken(err error, bad error) {
	f.close()
	if reason := err.Error(); f.told != reason {
		f.told = reason
		f.c.s.stage.Later(func() { f.change(port.APIBroken{Err: err}) })
	}
	f.state = waiting
	f.stopTimer = f.c.s.stage.After(f.backoff(), func() { f.ask(bad) })
}

// The backoff of client-go's reflector.
const (
	backoffBase = 800 * time.Millisecond
	backoffMax  = 30 * time.Second
)

// backoff is how long to wait after a failure: twice as long each time, and up
// to as long again, so that the nodes of a cluster don't all come at once.
func (f *follow) backoff() time.Duration {
	d := backoffBase << f.failures
	if d >= backoffMax {
		d = backoffMax
	} else {
		f.failures++
	}
	return d + time.Duration(f.c.s.bo.Int64N(int64(d)))
}

// close ends what an open watch has: what waits to be told is lost, and will
// come again from the history or a list. What a bookmark has told by now counts.
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

// reopen: the server has closed the stream, as it does now and then.
func (f *follow) reopen() {
	if f.state == open {
		f.close()
		f.ask(nil)
	}
}

// end: the caller wants no more.
func (f *follow) end(why error) {
	if f.state == ended {
		return
	}
	f.drop()
	err := simport.ContextError(why)
	err.Verb, err.Object = Watch.String(), f.selected.String()
	f.c.s.stage.Later(func() { f.done(err) })
}

// drop ends it in silence.
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

// lag is how late the next thing is told.
func (f *follow) lag() time.Duration {
	s := f.c.s
	d := s.cfg.WatchLag.Sample(s.wat)
	if s.cfg.ExtraLag != nil {
		d += s.cfg.ExtraLag(Watching{f.c.node, f.selected})
	}
	return d
}

// startOver puts all that there is in place of what waits.
func (f *follow) startOver(due time.Time) {
	s := f.c.s
	f.covers = s.version
	f.queue = append([]item(nil), item{port.APIReplaced{Objects: s.tables[f.sel.kind].list(f.sel)}, s.version, due})
	f.arm()
}

// take puts a change into the queue.
func (f *follow) take(e Event) {
	s := f.c.s
	if e.Version <= f.covers {
		return // told from the history, and it started over meanwhile
	}
	if n := len(f.queue); n >= s.cfg.WatchBuffer {
		// Too far behind: the real one ends the stream, and what comes of it is a
		// list. It is due when what waits longest would have been, so that a watch
		// that is always behind is told something at last.
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

// skip takes versions of an object out of the queue that a newer one overtakes.
func (f *follow) skip(o port.APIObject) {
	uid := metaOf(o).UID
	f.queue = slices.DeleteFunc(f.queue, func(i item) bool {
		set, ok := i.change.(port.APISet)
		return ok && metaOf(set.Object).UID == uid
	})
}

// arm waits for the first of the queue.
func (f *follow) arm() {
	if f.stopTimer != nil {
		f.stopTimer()
		f.stopTimer = nil
	}
	if len(f.queue) > 0 && f.c.link != Silent {
		f.stopTimer = f.c.s.stage.After(f.queue[0].due.Sub(f.c.s.stage.Now()), f.fire)
	}
}

// fire tells what is due.
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
