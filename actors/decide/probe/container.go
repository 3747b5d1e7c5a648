package probe

import "time"

// Container is the probes of one incarnation of a container.
//
//	          ┌─ has a startup probe ─► startup ─passed─► liveness, readiness
//	began ────┤                            └─failed─► nothing more: it is to be restarted
//	          └─ has none ───────────────────────────► liveness, readiness
//
//	stopping: liveness and startup are over, readiness goes on
type Container struct {
	// Probes are by kind, nil for those that it does not have.
	Probes [Kinds]*Probe
	// startedAt is in Unix nanoseconds.
	startedAt int64
	jitter    float64
	stopping  bool
}

// Beginning is what is known when the probing of a container begins.
type Beginning struct {
	Now, StartedAt time.Time
	// Known is what was said of it before, by a predecessor or in its pod's
	// status. It counts until there are answers.
	Known Health
	// Jitter spreads what need not be at once: from 0 to less than 1.
	Jitter float64
}

// Begin begins the probing. What nobody knows yet is as in the API: not
// started, alive, not ready.
func (c *Container) Begin(b Beginning) {
	now := b.Now.UnixNano()
	c.startedAt, c.jitter = now, b.Jitter
	if !b.StartedAt.IsZero() && b.StartedAt.Before(b.Now) { // else the clock was set back since
		c.startedAt = b.StartedAt.UnixNano()
	}
	initial := [Kinds]Result{Startup: Unknown, Liveness: Success, Readiness: Failure}
	known := [Kinds]Result{Startup: b.Known.Startup, Liveness: b.Known.Liveness, Readiness: b.Known.Readiness}
	for k, p := range c.Probes {
		if p == nil {
			continue
		}
		if p.Result = known[k]; p.Result == None || p.Result == Unknown {
			p.Result = initial[k]
		}
	}
	if s := c.Probes[Startup]; s != nil {
		switch s.Result {
		case Success:
			s.end()
		case Failure:
			s.end()
			return
		default:
			c.beginOne(s, now, c.startedAt)
			return
		}
	}
	c.open(now, c.startedAt)
}

// open begins what a startup probe holds back; since is since when it could.
func (c *Container) open(now, since int64) {
	for _, k := range [...]Kind{Liveness, Readiness} {
		switch p := c.Probes[k]; {
		case p == nil:
		case k == Liveness && (c.stopping || p.Result == Failure):
			p.end()
		default:
			c.beginOne(p, now, since)
		}
	}
}

// beginOne decides on the first run of a probe. A container that has just been
// started is asked at once whether it has started and is ready, since users wait
// for that; whether it lives, somewhere in the first period. All others are
// spread over a period, so that an agent that starts does not ask everybody at
// the same time; but for those of which nobody has heard that they are ready,
// which are spread over a second.
func (c *Container) beginOne(p *Probe, now, since int64) {
	first := max(c.startedAt+int64(p.InitialDelay), now)
	fresh := now-since < int64(p.InitialDelay)+int64(p.Period)
	waited := p.Kind != Liveness && p.Result != Success
	switch {
	case waited && fresh:
	case waited:
		first += int64(c.jitter * float64(min(p.Period, time.Second)))
	default:
		first += int64(c.jitter * float64(p.Period))
	}
	p.begin(first, waited && fresh)
}

// Answered takes in one answer of a probe. It says whether the answer counts,
// and so is to be told to users unless it passed, and whether the container's
// health is another now.
func (c *Container) Answered(k Kind, v Verdict, now time.Time) (counted, changed bool) {
	p := c.Probes[k]
	counted, changed = p.answered(v, now)
	if changed && k == Startup && p.Result == Success {
		c.open(now.UnixNano(), now.UnixNano())
	}
	return counted, changed
}

// Stopping: the container is being stopped. It is not asked any more whether it
// lives, and that it does not start is no news; but others want to know whether
// it still serves.
func (c *Container) Stopping() {
	c.stopping = true
	for _, k := range [...]Kind{Startup, Liveness} {
		if p := c.Probes[k]; p != nil {
			p.end()
		}
	}
}

// Health is what the plan of the pod needs to know.
func (c *Container) Health() Health {
	var h Health
	if p := c.Probes[Startup]; p != nil {
		h.Startup = p.Result
		if h.Startup == Failure {
			h.Grace = p.Grace
		}
	}
	if p := c.Probes[Liveness]; p != nil {
		h.Liveness = p.Result
		if h.Liveness == Failure {
			h.Grace = p.Grace
		}
	}
	if p := c.Probes[Readiness]; p != nil {
		h.Readiness = p.Result
	}
	return h
}
