package kernel

import (
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/asynkron/protoactor-go/actor"
)

// adapter is one incarnation in the form that protoactor needs.
type adapter[M any] struct {
	sys      *System
	cell     *cell       // nil until its first message
	behavior Behavior[M] // nil until it has started
	ctx      Context[M]
	// resyncing: the pause before a Resync runs.
	resyncing bool
}

// Receive implements actor.Actor.
func (a *adapter[M]) Receive(ac actor.Context) {
	if a.cell == nil {
		a.cell = a.sys.cell(ac.Self().Id)
	}
	switch m := ac.Message().(type) {
	case *actor.Started:
		a.start(ac)
	case *actor.Restarting:
	case *actor.Stopping:
		a.stop()
	case *actor.Stopped:
		a.cell.ended()
	case *actor.Terminated:
		a.childStopped(m.Who.Id)
	case *effectResult[M]:
		a.receive(m.msg)
	case *effectPanic:
		panic(m)
	case overflowed:
		a.overflowed()
	case resync:
		a.resync()
		a.check()
	case M:
		a.receive(m)
	default:
		panic(fmt.Sprintf("message of type %T, which is not of this actor's protocol", m))
	}
}

// start makes the behavior here, and not when protoactor asks for the adapter. That happens on the
// parent, which a panicking constructor must not crash.
func (a *adapter[M]) start(ac actor.Context) {
	c := a.cell
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return
	}
	c.incarnation++
	c.rng = nil
	c.crashed = false
	c.status = Running
	c.mu.Unlock()
	a.ctx = Context[M]{cell: c, ac: ac}
	c.during("Start", func() {
		a.behavior = a.construct()
		a.behavior.Start(&a.ctx)
		if c.incarnation > 1 {
			a.resync()
		}
		a.check()
	})
}

func (a *adapter[M]) receive(m M) {
	a.behavior.Receive(&a.ctx, m)
	a.check()
}

// alive says whether user code of this incarnation may run.
func (a *adapter[M]) alive() bool {
	a.cell.mu.Lock()
	defer a.cell.mu.Unlock()
	return a.behavior != nil && !a.cell.crashed && !a.cell.killed
}

// stop calls the behavior's Stop, and drops its effects that have not begun. A panic in Stop is
// reported, but must not reach protoactor, which would restart an actor that should stop.
func (a *adapter[M]) stop() {
	c := a.cell
	defer func() {
		if r := recover(); r != nil {
			report := c.crash(r, nil, debug.Stack())
			c.sys.answer(c, report)
		}
		if c.runner != nil {
			c.runner.dropQueued(c)
		}
	}()
	if s, ok := a.behavior.(Stopper[M]); ok && a.alive() {
		c.during("Stop", func() { s.Stop(&a.ctx) })
	}
}

// childStopped frees the child's name and tells the behavior, unless this actor itself is stopping.
// Then protoactor waits for its children, and a panic here would make it wait forever.
func (a *adapter[M]) childStopped(path string) {
	a.cell.sys.removeCell(path)
	w, ok := a.behavior.(ChildWatcher[M])
	if !ok || !a.alive() || a.cell.isClosed() {
		return
	}
	name := path[strings.LastIndexByte(path, '/')+1:]
	a.cell.during("ChildStopped", func() {
		w.ChildStopped(&a.ctx, name)
		a.check()
	})
}
