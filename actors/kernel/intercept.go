package kernel

import (
	"errors"
	"time"
)

// Fate is what becomes of a message from one actor to another. The zero value lets it pass.
type Fate struct {
	// Drop loses it as a full mailbox does: the receiver is told that something was lost. What a full mailbox does not
	// lose, a Published value, passes.
	Drop bool
	// Delay is how much later it comes. Later messages of the same sender to the same receiver don't
	// overtake it, those of others do.
	Delay time.Duration
	// Twice lets it come twice.
	Twice bool
}

// handling is the message that an actor of a simulation handles.
type handling struct {
	cell *cell
	msg  any
	// sends counts its calls of Tell and Do.
	sends int
}

// line is the way from one actor to another.
type line struct{ from, to string }

// delayed are the messages on their way: how many, and when the last one comes.
type delayed struct {
	n    int
	last time.Time
}

// interceptor has the hooks into what actors of a simulation send; nil in other systems.
type interceptor struct {
	intercept func(from, to string, m any) Fate
	within    func(actor string, m any, k int)
	handling  handling
	lines     map[line]*delayed
}

func (c Config) interceptor() (*interceptor, error) {
	if c.Intercept == nil && c.Within == nil {
		return nil, nil
	}
	if _, virtual := c.Clock.(*Virtual); !virtual {
		return nil, errors.New("kernel: Config.Intercept and Within are for simulations: Clock must be a *Virtual")
	}
	return &interceptor{intercept: c.Intercept, within: c.Within, lines: map[line]*delayed{}}, nil
}

// begin notes what is handled now.
func (d *interceptor) begin(c *cell, msg any, system bool) {
	switch m := msg.(type) {
	case result:
		msg = m.payload()
	case overflowed, resync, *effectPanic:
		msg = nil
	}
	if system {
		msg = nil
	}
	d.handling = handling{cell: c, msg: msg}
}

func (d *interceptor) end() { d.handling = handling{} }

// send is called before each Tell and Do. It may panic, as the actor might there.
func (d *interceptor) send() {
	if d.handling.cell == nil || d.within == nil {
		return
	}
	d.handling.sends++
	d.within(d.handling.cell.path, d.handling.msg, d.handling.sends)
}

// tell decides on a message, and reports whether it sees to it.
func (d *interceptor) tell(to *cell, e envelope) bool {
	d.send()
	from := d.handling.cell
	if from == nil || from == to || d.intercept == nil {
		return false
	}
	msg := e.msg
	if n, is := msg.(news); is {
		msg = n.newest()
	}
	fate := d.intercept(from.path, to.path, msg)
	if fate.Drop && !e.owed() {
		to.drop()
		return true
	}
	deliver := func() {
		to.deliver(e)
		if fate.Twice {
			to.deliver(e)
		}
	}
	clock := to.clock()
	now, way := clock.Now(), line{from.path, to.path}
	l := d.lines[way]
	if l == nil {
		if fate.Delay <= 0 {
			deliver()
			return true
		}
		l = &delayed{last: now}
		d.lines[way] = l
	}
	l.n++
	if at := now.Add(fate.Delay); at.After(l.last) {
		l.last = at
	}
	clock.AfterFunc(l.last.Sub(now), func() {
		if l.n--; l.n == 0 {
			delete(d.lines, way)
		}
		if !to.wasKilled() { // else its process took the message with it
			deliver()
		}
	})
	return true
}

// drop drops a message to c, as a full mailbox does.
func (c *cell) drop() {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return
	}
	c.dropped++
	c.overflow = true
	c.sys.dropped.Add(1)
	c.wakeLocked()
}
