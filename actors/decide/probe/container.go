package probe

import "time"

// Container holds the probes of one incarnation of a container.
//
//	          ┌─ has a startup probe ─► startup ─passed─► liveness, readiness
//	began ────┤                            └─failed─► nothing more: it must be restarted
//	          └─ has none ───────────────────────────► liveness, readiness
//
//	stopping: liveness and startup are over, readiness continues
type Container struct {
	// Probes are by kind; nil where the container has none.
	Probes [Kinds]*Probe
	// startedAt is in Unix nanoseconds.
	startedAt int64
	jitter    float64
	stopping  bool
}

// Beginning is what is known when probing begins.
type Beginning struct {
	Now, StartedAt time.Time
	// Known is the health that a predecessor or the pod's status recorded. It counts until there are
	// answers.
	Known Health
	// Jitter spreads runs that need not be at once: from 0 to less than 1.
	Jitter float64
}

// Begin begins the probing. Unknown results are as in the API: not started, alive, not ready.
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

// open begins the probes that a startup probe holds back. since is when they could first run.
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

// beginOne schedules the first run of a probe. A container that was just started gets its startup
// and readiness probes at once, because users wait for them, and its liveness probe within the
// first period. All other probes are spread over a period, so that an agent does not run all of
// them when it starts. Probes of containers not known as ready are spread over a second.
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

// Answered takes in one answer of a probe. counted says whether it counts: users are told of it
// unless it passed. changed says whether the container's health changed.
func (c *Container) Answered(k Kind, v Verdict, now time.Time) (counted, changed bool) {
	p := c.Probes[k]
	counted, changed = p.answered(v, now)
	if changed && k == Startup && p.Result == Success {
		c.open(now.UnixNano(), now.UnixNano())
	}
	return counted, changed
}

// Stopping tells the probes that the container is being stopped. Startup and liveness no longer
// matter. Readiness does: clients want to know whether it still serves.
func (c *Container) Stopping() {
	c.stopping = true
	for _, k := range [...]Kind{Startup, Liveness} {
		if p := c.Probes[k]; p != nil {
			p.end()
		}
	}
}

// Health is what the pod's plan needs to know.
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
