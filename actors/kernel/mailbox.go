package kernel

import (
	"github.com/asynkron/protoactor-go/actor"
)

// RegisterHandlers implements actor.Mailbox. It is called once the name is known to be free, and
// before any message.
func (c *cell) RegisterHandlers(invoker actor.MessageInvoker, _ actor.Dispatcher) {
	c.mu.Lock()
	c.invoker = invoker
	c.suspended = true
	c.mu.Unlock()
	if c.runner != nil {
		c.runner.adopt(c)
	}
	c.sys.addCell(c)
}

// Start implements actor.Mailbox.
func (c *cell) Start() {}

// UserMessageCount implements actor.Mailbox.
func (c *cell) UserMessageCount() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.queue.depth()
}

// PostUserMessage implements actor.Mailbox, though all our messages are sent through a Ref.
func (c *cell) PostUserMessage(m any) { c.deliver(envelope{msg: m}) }

// PostSystemMessage implements actor.Mailbox.
func (c *cell) PostSystemMessage(m any) {
	c.mu.Lock()
	c.system = append(c.system, m)
	c.wakeLocked()
}

// send delivers e, unless a simulation has other plans for it.
func (c *cell) send(e envelope) {
	if d := c.sys.interceptor; d == nil || !d.tell(c, e) {
		c.deliver(e)
	}
}

// deliver posts e to this cell, or to the actor that has this path now. News are not for that one: it follows by
// itself, perhaps the value of another owner.
func (c *cell) deliver(e envelope) {
	if c.post(e) {
		return
	}
	_, follows := e.msg.(news)
	if n := c.sys.cell(c.path); n != nil && n != c && n.protocol == c.protocol && !follows && n.post(e) {
		return
	}
	c.sys.deadLetter(c.path, e.msg)
}

// post reports false if the cell is closed. Over the limit, the message is dropped and counted, and
// the actor is told of it (Overflowed).
func (c *cell) post(e envelope) bool {
	e.at = c.sys.clock.Now().UnixNano()
	if k, ok := e.msg.(Keyed); ok { // called without the lock, because it is not our code
		e.key, e.keyed = k.MailboxKey(), true
	}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return false
	}
	if e.timer != 0 && (c.crashed || e.timer != c.incarnation) {
		c.mu.Unlock()
		return true // the incarnation that set the timer is dead
	}
	if e.keyed {
		if w := c.queue.find(&e); w != nil {
			w.msg = e.msg // keeps its place and its age
			c.coalesced++
			c.mu.Unlock()
			return true
		}
	}
	if c.queue.depth() >= c.limit && !e.owed() {
		c.dropped++
		c.overflow = true
		c.mu.Unlock()
		c.sys.dropped.Add(1)
		return true
	}
	if c.queue == nil {
		c.queue = c.sys.lendQueue()
	}
	c.queue.push(e)
	c.wakeLocked()
	return true
}

// wakeLocked unlocks, and hands the cell to the scheduler if it has become runnable.
func (c *cell) wakeLocked() {
	wake := !c.scheduled && c.runnableLocked()
	if wake {
		c.scheduled = true
	}
	c.mu.Unlock()
	if wake {
		c.sys.sched.ready(c)
	}
}

func (c *cell) runnableLocked() bool {
	return len(c.system) > 0 || (!c.suspended && (c.overflow || c.queue != nil))
}

// step handles one message and reports whether there is another. At most one goroutine runs it at a
// time: the one that the scheduler handed the cell to.
func (c *cell) step() bool {
	c.mu.Lock()
	switch {
	case len(c.system) > 0:
		m := c.system[0]
		if c.system = c.system[1:]; len(c.system) == 0 {
			c.system = nil
		}
		c.systemLocked(m)
		c.mu.Lock()
	case c.suspended:
	case c.overflow:
		c.overflow = false
		c.beginLocked("Overflowed")
		c.mu.Unlock()
		c.trace(nil)
		c.end(c.invoke(overflowed{}, false))
	case c.queue != nil:
		e := c.popLocked()
		if e.timer != 0 && e.timer != c.incarnation {
			break // a timer of a dead incarnation
		}
		if n, is := e.msg.(news); is {
			e.msg = n.newest()
		}
		c.beginLocked(messageName(e.msg))
		c.handled++
		c.mu.Unlock()
		if c.sys.tracer != nil {
			c.trace(e.payload())
		}
		crashed := c.invoke(e.msg, false)
		if r, ok := e.msg.(result); ok {
			r.handled()
		}
		c.end(crashed)
	}
	more := c.runnableLocked()
	if !more {
		c.scheduled = false
	}
	c.mu.Unlock()
	return more
}

// unable says that the actor is suspended or closed: it handles its messages late or never.
func (c *cell) unable() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.suspended || c.closed
}

// systemLocked handles a system message of protoactor, and unlocks.
func (c *cell) systemLocked(m any) {
	var unread []envelope
	switch m.(type) {
	case *actor.SuspendMailbox:
		c.suspended = true
		c.mu.Unlock()
		return
	case *actor.ResumeMailbox:
		c.suspended = false
		c.mu.Unlock()
		return
	case *actor.Started:
		c.suspended = false
	case *actor.Restart:
		if c.closed { // protoactor would start it again
			c.mu.Unlock()
			return
		}
	case *actor.Stop:
		if !c.closed {
			unread = c.closeLocked()
		}
	}
	c.mu.Unlock()
	for _, e := range unread {
		c.sys.deadLetter(c.path, e.msg)
	}
	c.invoke(m, true)
}

// closeLocked closes the mailbox and returns the unread messages.
func (c *cell) closeLocked() (unread []envelope) {
	if q := c.queue; q != nil {
		unread, c.queue = q.user[q.head:], nil
	}
	c.closed, c.overflow, c.status = true, false, Stopping
	return unread
}

func (c *cell) popLocked() envelope {
	e := c.queue.pop()
	if c.queue.depth() == 0 {
		c.sys.returnQueue(c.queue)
		c.queue = nil
	}
	return e
}
