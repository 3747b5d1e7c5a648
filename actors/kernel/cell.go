package kernel

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime/debug"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// Status is the state of an actor.
//
//	Running ──panic──► Restarting ──backoff──► Running
//	                       │ too many in the window
//	                       ├──► Quarantined ──slow retry──► Running
//	                       └──► Failed: its parent fails, and stops it
//	any ──stop──► Stopping ──all below it stopped──► Stopped
type Status uint8

const (
	Running Status = iota
	Restarting
	Quarantined
	Failed
	Stopping
	Stopped
)

func (s Status) String() string {
	switch s {
	case Running:
		return "Running"
	case Restarting:
		return "Restarting"
	case Quarantined:
		return "Quarantined"
	case Failed:
		return "Failed"
	case Stopping:
		return "Stopping"
	case Stopped:
		return "Stopped"
	default:
		return fmt.Sprintf("Status(%d)", uint8(s))
	}
}

// record is a message that was handled.
type record struct {
	name string
	at   int64
}

// shape is what similar actors share. Cells point to it.
type shape struct {
	kind     string
	policy   Policy
	limit    int
	protocol reflect.Type
}

// faults is the crash history of an actor.
type faults struct {
	total   uint32
	crashes []time.Time
	last    *CrashReport
}

// cell is an actor's mailbox, with everything that the kernel knows about the actor. It outlives
// the actor's incarnations. It implements actor.Mailbox.
type cell struct {
	sys    *System
	runner *Runner
	// effects are the unfinished effects of this path, oldest first. The runner's lock guards them.
	effects []*effect
	// lanes are how many effects that have not ended each lane has; nil while there are few.
	lanes  map[string]int
	parent *cell
	*shape
	path string
	// construct is a func() Behavior[M] for the M of protocol, or a *reader[M].
	construct any
	// label is for people; empty if the name is readable.
	label string

	mu      sync.Mutex
	invoker actor.MessageInvoker
	system  []any
	// queue holds the waiting messages; nil if there are none.
	queue *queue

	// Invariant: scheduled iff the scheduler holds the cell, or is in its step.
	scheduled bool
	// suspended: messages wait in queue. True before the first start.
	suspended bool
	overflow  bool
	// crashed: this incarnation is dead, and waits for its restart or its end.
	crashed bool
	// closed: the actor is stopping or stopped. The queue takes no messages.
	closed bool
	// killed: closed without calling Stop, like a process that is killed.
	killed bool
	status Status

	incarnation uint32
	current     string
	since       int64
	handled     uint64
	dropped     uint32
	coalesced   uint32
	faults      *faults
	history     *history // nil until the first message
	rng         *rand.Rand
}

// clock is that of the actor's machine. The kernel's own records (ages, crashes, traces) are by the
// system's clock instead, so that those of all machines compare.
func (c *cell) clock() Clock {
	if c.runner != nil {
		return c.runner.clock
	}
	return c.sys.clock
}

// history is a ring of the last handled messages.
type history struct {
	ring []record
	next int
}

// begin notes the message that is being handled.
func (c *cell) begin(name string) {
	c.mu.Lock()
	c.beginLocked(name)
	c.mu.Unlock()
}

func (c *cell) beginLocked(name string) {
	c.current = name
	c.since = c.sys.clock.Now().UnixNano()
}

// end notes that the message was handled, and leaves c.mu locked.
func (c *cell) end(ok bool) {
	c.mu.Lock()
	if !ok {
		return // the crash report has the message
	}
	if n := c.sys.history; n > 0 {
		r := record{name: c.current, at: c.since}
		h := c.history
		if h == nil {
			h = &history{}
			c.history = h
		}
		if len(h.ring) < n {
			h.ring = append(h.ring, r)
		} else {
			h.ring[h.next] = r
		}
		h.next = (h.next + 1) % n
	}
	c.current = ""
}

// trace reports the current message to the tracer.
func (c *cell) trace(msg any) {
	if t := c.sys.tracer; t != nil {
		t.Deliver(c.sys.clock.Now(), c.path, c.current, msg)
	}
}

// during calls f as the handling of name. The caller recovers a panic in f.
func (c *cell) during(name string, f func()) {
	c.begin(name)
	c.trace(nil)
	f()
	c.end(true)
	c.mu.Unlock()
}

// invoke lets the actor handle m. A panic becomes a crash report, and a failure that the parent's
// strategy decides on.
func (c *cell) invoke(m any, system bool) (ok bool) {
	defer func() {
		if ok {
			return
		}
		r := recover()
		if d := c.sys.interceptor; d != nil {
			d.end()
		}
		report := c.crash(r, m, debug.Stack())
		c.fail()
		c.invoker.EscalateFailure(&failure{c, report}, nil)
	}()
	d := c.sys.interceptor
	if d != nil {
		d.begin(c, m, system)
	}
	if system {
		c.invoker.InvokeSystemMessage(m)
	} else {
		c.invoker.InvokeUserMessage(m)
	}
	if d != nil {
		d.end()
	}
	return true
}

// fail ends the incarnation and drops its effects that have not begun. It reports false if it had
// already ended.
func (c *cell) fail() bool {
	c.mu.Lock()
	if c.crashed || c.closed {
		c.mu.Unlock()
		return false
	}
	c.crashed = true
	c.status = Restarting
	c.mu.Unlock()
	if c.runner != nil {
		c.runner.dropQueued(c)
	}
	return true
}

// restart begins the next incarnation, unless there is one or the actor was stopped meanwhile. It
// uses this cell and not protoactor's PID, which may belong to another actor of the same name by
// now.
func (c *cell) restart(after uint32) {
	c.mu.Lock()
	if c.closed || !c.crashed || c.incarnation != after {
		c.mu.Unlock()
		return
	}
	c.system = append(c.system, &actor.Restart{})
	c.wakeLocked()
}

// stop ends the actor after the current message.
func (c *cell) stop() {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return
	}
	c.system = append(c.system, &actor.Stop{})
	c.wakeLocked()
}

// kill ends the actor at once, without calling Stop.
func (c *cell) kill() {
	c.mu.Lock()
	if !c.closed {
		c.closeLocked()
	}
	c.killed = true
	c.mu.Unlock()
}

// ended notes that the actor has ended.
func (c *cell) ended() {
	c.mu.Lock()
	c.status = Stopped
	c.history, c.rng = nil, nil
	c.mu.Unlock()
	if c.runner != nil {
		c.runner.orphan(c)
	}
	if c.parent == nil {
		c.sys.removeCell(c.path)
	}
}

func (c *cell) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

func (c *cell) wasKilled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.killed
}

func (c *cell) hasEnded() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status == Stopped
}
