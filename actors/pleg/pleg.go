// Package pleg is the pod lifecycle event generator: the actor that detects changes in
// the runtime, from its container event stream if it has one, and from lists.
//
//	pleg ──Events, List──► runtime       pleg ──Snapshot, Seen──► podset ──► pod
//	                                     pleg ──Hint, Back──► pods ──► pod      pleg ──Back──► images
//
// Events and lists are hints: the receiver inspects that one pod. Actors wait only for
// the first list of a process. A later list that is slow or hangs delays only the
// safety net.
//
//	       ┌── stream ends, again after a moment ──┐
//	       ▼                                       │
//	opening ──opened──► streaming: relist slowly ──┘
//	   └──unsupported──► polling: relist often
package pleg

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/portcall"
)

// Message is what pleg understands.
//
//sumtype:decl
type Message interface{ isPLEGMessage() }

// Resend asks for the first list again. From podset, which restarted.
type Resend struct{}

// Tick is this actor's own timer for the next list.
type Tick struct{}

// Reopen is this actor's own timer for the next try at the stream.
type Reopen struct{}

// opened says that the stream stands. What happened before is found by a list.
type opened struct{ id kernel.EffectID }

// closed says that the stream ended.
type closed struct {
	id  kernel.EffectID
	err error
}

// listed is the result of a List.
type listed struct {
	id    kernel.EffectID
	begun time.Time
	list  observed.Runtime
	err   error
}

func (Resend) isPLEGMessage() {}
func (Tick) isPLEGMessage()   {}
func (Reopen) isPLEGMessage() {}
func (opened) isPLEGMessage() {}
func (closed) isPLEGMessage() {}
func (listed) isPLEGMessage() {}

// Snapshot is the first full list of a process. To podset.
type Snapshot struct {
	Runtime observed.Runtime
	Listed  time.Time
}

// Hint says that something happened to a container or sandbox. To pods, from
// wherever the stream is read.
type Hint struct{ Event port.RuntimeEvent }

// Seen says that a list shows a pod otherwise than the one before, or how the list shows it,
// every Deps.Slow if there were events or no stream. To podset.
type Seen struct {
	Ref    observed.PodRef
	View   observed.Pod
	Listed time.Time
}

// Runtime is what the actor uses of port.Runtime.
type Runtime interface {
	List(ctx context.Context, uid string, done func(observed.Runtime, error))
	Events(ctx context.Context, opened func(), event func(port.RuntimeEvent), done func(error))
}

// Deps are what the actor is connected to.
type Deps struct {
	Runtime  Runtime
	Snapshot func(Snapshot)
	// Hint is called from anywhere.
	Hint func(Hint)
	Seen func(Seen)
	// Health is told after each list whether the runtime answered.
	Health func(Health)
	// Back is called when the runtime answers a list again after it did not.
	Back func()
	// Slow is the time between lists while the stream stands, Fast without.
	Slow, Fast time.Duration
	// Deadline of one list; after Impatience the next does not wait for it.
	Deadline, Impatience time.Duration
}

// Health is how the runtime is, as far as lists tell.
type Health struct {
	At time.Time
	// Err is why the last list failed, Since when the first of a row of such
	// was begun; nil and zero if it did not.
	Err   error
	Since time.Time
	// Streaming says that events come.
	Streaming bool
}

// maxLists bounds the lists under way at once: one that hangs does not keep
// the next from being tried, but not without limit.
const maxLists = 3

// New makes the constructor of the actor.
func New(deps *Deps) func() kernel.Behavior[Message] {
	return func() kernel.Behavior[Message] { return &pleg{deps: deps} }
}

type mode uint8

const (
	opening mode = iota
	streaming
	polling
)

type pleg struct {
	deps *Deps
	mode mode
	// stream is the effect of the stream that counts; others are old ones.
	stream kernel.EffectID
	retry  time.Duration
	// first is true until the first list was handed on.
	first   bool
	last    []outline
	unread  []observed.Unread // pods of which a part could not be read, as of the last list
	newest  time.Time         // when the newest list that was taken in had begun
	whole   time.Time         // when the newest list of which every pod was told had begun
	events  atomic.Uint64     // of the stream; counted where it is read
	told    uint64            // events when whole was told
	lists   map[kernel.EffectID]time.Time
	nextRun kernel.Alarm[Message] // for the next list; slow says that it has the long period
	slow    bool
	failing bool
	since   time.Time // while failing: when the first list was begun that failed
}

// Start implements kernel.Behavior.
func (p *pleg) Start(ctx *kernel.Context[Message]) {
	p.first, p.lists = true, map[kernel.EffectID]time.Time{}
	p.retry = p.deps.Fast / 8
	for _, e := range ctx.InFlight() {
		if e.Kind == "GetContainerEvents" {
			ctx.Cancel(e.ID) // of a predecessor; ours reports to us
		}
	}
	p.list(ctx, false)
	p.open(ctx)
}

// Overflowed implements kernel.OverflowHandler: events were missed.
func (p *pleg) Overflowed(ctx *kernel.Context[Message]) { p.list(ctx, true) }

// Receive implements kernel.Behavior.
func (p *pleg) Receive(ctx *kernel.Context[Message], m Message) {
	switch m := m.(type) {
	case Resend:
		p.first = true
		p.list(ctx, true)
	case Tick:
		p.list(ctx, false)
	case Reopen:
		p.open(ctx)
	case opened:
		if m.id == p.stream {
			p.mode, p.retry = streaming, p.deps.Fast/8
			p.list(ctx, true) // what happened while nobody listened
		}
	case closed:
		p.closed(ctx, m)
	case listed:
		p.listed(ctx, m)
	}
}

func (p *pleg) open(ctx *kernel.Context[Message]) {
	p.mode = opening
	self, deps := ctx.Self(), p.deps
	p.stream = ctx.Do(kernel.Effect[Message]{
		Kind: "GetContainerEvents", Lane: fmt.Sprintf("events/%d", ctx.Incarnation()), Standing: true,
		Run: func(c context.Context, id kernel.EffectID, done func(Message)) {
			// An event is of no use to this actor: it continues at once. That something
			// was created needs no message: the creator knows, and what another
			// made is found by the name that it has taken, or by a list.
			deps.Runtime.Events(c,
				func() { self.Tell(opened{id}) },
				func(e port.RuntimeEvent) {
					p.events.Add(1)
					if e.Kind != observed.ContainerCreatedEvent {
						deps.Hint(Hint{Event: e})
					}
				},
				func(err error) { done(closed{id, err}) })
		},
	})
}

func (p *pleg) closed(ctx *kernel.Context[Message], m closed) {
	if m.id != p.stream {
		return
	}
	if port.KindOf(m.err) == port.Unsupported {
		if p.mode != polling {
			ctx.Log().Info().Dur("every",
				p.deps.Fast).Msg("the container runtime does not support container events; listing containers periodically instead")
		}
		p.mode = polling
		p.hasten(ctx)
		return
	}
	if p.mode == streaming {
		e := ctx.Log().Warn()
		if m.err != nil {
			e = e.Str("error", m.err.Error())
		}
		e.Msg("the container event stream of the runtime ended; reopening it")
	}
	p.mode = opening
	ctx.After(p.retry, Reopen{})
	p.retry = min(p.retry*2, 2*time.Second)
	p.hasten(ctx)
}

// list begins a full list, and sets the timer for the next. Unless it must be
// a new one, one that was begun a moment ago will do.
func (p *pleg) list(ctx *kernel.Context[Message], fresh bool) {
	p.schedule(ctx)
	for _, at := range p.lists { // order-free: any
		if !fresh && ctx.Now().Sub(at) < p.deps.Impatience {
			return
		}
	}
	if len(p.lists) >= maxLists {
		return
	}
	begun := ctx.Now()
	id := portcall.Do(ctx, kernel.Effect[Message]{
		Kind: "List", Lane: fmt.Sprintf("list/%d/%d", begun.UnixNano(), len(p.lists)), Deadline: p.deps.Deadline,
	}, func(c context.Context, done func(observed.Runtime, error)) { p.deps.Runtime.List(c, "", done) },
		func(id kernel.EffectID, l observed.Runtime, err error) Message {
			return listed{id: id, begun: begun, list: l, err: err}
		})
	p.lists[id] = begun
}

// schedule sets the timer for the next list anew.
func (p *pleg) schedule(ctx *kernel.Context[Message]) {
	every := p.deps.Fast
	if p.mode == streaming && !p.first && !p.failing {
		every = p.deps.Slow
	}
	p.slow = every > p.deps.Fast
	p.nextRun.SetIn(ctx, every, Tick{})
}

// hasten shortens the timer for the next list after the end of a stream. A short one is left alone: a
// stream that fails again and again would put the list off for ever.
func (p *pleg) hasten(ctx *kernel.Context[Message]) {
	if p.slow {
		p.schedule(ctx)
	}
}

func (p *pleg) listed(ctx *kernel.Context[Message], m listed) {
	delete(p.lists, m.id)
	if m.begun.Before(p.newest) {
		return // a slow one, overtaken by a later
	}
	if m.err != nil {
		if !p.failing {
			ctx.Log().Warn().Str("error", m.err.Error()).Msg("cannot list the containers of the runtime; retrying")
		}
		if !p.failing {
			p.since = m.begun
		}
		p.failing = true
		p.deps.Health(Health{At: ctx.Now(), Err: m.err, Since: p.since, Streaming: p.mode == streaming})
		p.schedule(ctx)
		return
	}
	if p.failing {
		ctx.Log().Info().Msg("listing the containers of the runtime works again")
		p.failing = false
		p.deps.Back()
		if p.mode == polling {
			p.open(ctx) // it was away, and may have come back as one with events
		}
		p.schedule(ctx)
	}
	p.deps.Health(Health{At: ctx.Now(), Streaming: p.mode == streaming})
	p.newest = m.begun
	now := make([]outline, len(m.list.Pods))
	for i := range m.list.Pods {
		now[i] = outlineOf(&m.list.Pods[i])
	}
	before := p.unread
	p.unreadable(ctx, m.list.Unread)
	for _, o := range p.last {
		if unread(p.unread, o.ref.UID) {
			now = append(now, o) // nobody knows better
		}
	}
	slices.SortFunc(now, outline.order)
	if p.first {
		p.first = false
		p.last, p.whole = now, m.begun
		p.deps.Snapshot(Snapshot{Runtime: m.list, Listed: m.begun})
		p.schedule(ctx)
		return
	}
	// What came and went between two lists is in neither, but its pod may know of it: so each pod is
	// told of a list now and then, if there were events at all. Idle pods cost nothing. Without a stream
	// nobody knows whether there was something to tell.
	events := p.events.Load()
	all := (events != p.told || p.mode == polling) && m.begun.Sub(p.whole) >= p.deps.Slow
	if all {
		p.whole, p.told = m.begun, events
	}
	for i := range m.list.Pods {
		rp := &m.list.Pods[i]
		o := outlineOf(rp)
		at, known := slices.BinarySearchFunc(p.last, o, outline.order)
		if all || !known || p.last[at].states != o.states || unread(before, rp.Ref.UID) {
			p.deps.Seen(Seen{Ref: rp.Ref, View: rp.Pod, Listed: m.begun})
		}
	}
	for _, o := range p.last {
		if _, there := slices.BinarySearchFunc(now, o, outline.order); !there {
			p.deps.Seen(Seen{Ref: o.ref, Listed: m.begun})
		}
	}
	for _, u := range before {
		if !unread(p.unread, u.UID) && !outlined(now, u.UID) && !outlined(p.last, u.UID) {
			p.deps.Seen(Seen{Ref: observed.PodRef{UID: u.UID}, Listed: m.begun}) // gone before it could be read
		}
	}
	p.last = now
}

// unreadable takes in which pods can't be read, and says so when that changes.
func (p *pleg) unreadable(ctx *kernel.Context[Message], now []observed.Unread) {
	for _, u := range now {
		if at, was := whereUnread(p.unread, u.UID); !was || p.unread[at] != u {
			ctx.Log().Error().Str("pod", string(u.UID)).Str("error", u.Why).
				Msg("cannot read a sandbox or container of this pod from the runtime: its last known state is kept; " +
					"meanwhile no dead containers and images are removed")
		}
	}
	p.unread = now
}

func unread(all []observed.Unread, uid types.UID) bool {
	_, is := whereUnread(all, uid)
	return is
}

// whereUnread is the place of a pod: they are in order of their UIDs.
func whereUnread(all []observed.Unread, uid types.UID) (int, bool) {
	return slices.BinarySearchFunc(all, uid, func(u observed.Unread, uid types.UID) int { return cmp.Compare(u.UID, uid) })
}

// outline is what is remembered of a pod in a list, to see whether the next one
// shows it otherwise: there are as many as pods on the machine.
type outline struct {
	ref observed.PodRef
	// states are the IDs of sandboxes and containers, and their states.
	states string
}

func outlineOf(rp *observed.RuntimePod) outline {
	n := 0
	for i := range rp.Sandboxes {
		n += len(rp.Sandboxes[i].ID) + 2
	}
	for i := range rp.Containers {
		n += len(rp.Containers[i].ID) + 2
	}
	b := make([]byte, 0, n)
	for i := range rp.Sandboxes {
		s := &rp.Sandboxes[i]
		b = append(append(b, s.ID...), ' ', '0'+byte(s.State))
	}
	for i := range rp.Containers {
		c := &rp.Containers[i]
		b = append(append(b, c.ID...), ' ', '0'+byte(c.State))
	}
	return outline{rp.Ref, string(b)}
}

// outlined says whether a pod is among those in order.
func outlined(all []outline, uid types.UID) bool {
	_, is := slices.BinarySearchFunc(all, uid, func(o outline, uid types.UID) int { return cmp.Compare(o.ref.UID, uid) })
	return is
}

func (o outline) order(p outline) int {
	return cmp.Or(cmp.Compare(o.ref.UID, p.ref.UID), cmp.Compare(o.ref.Namespace, p.ref.Namespace),
		cmp.Compare(o.ref.Name, p.ref.Name))
}
