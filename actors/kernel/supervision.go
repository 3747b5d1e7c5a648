package kernel

import "github.com/asynkron/protoactor-go/actor"

// strategy answers failures of children by their cell's policy. It is also the guardian of the root
// actors. The whole system shares one; it has no state.
type strategy struct{ sys *System }

// HandleFailure implements actor.SupervisorStrategy. It runs on the parent, or for a root actor on
// that actor itself.
func (s strategy) HandleFailure(
	_ *actor.ActorSystem, parent actor.Supervisor, _ *actor.PID, _ *actor.RestartStatistics, reason, _ any,
) {
	f := reason.(*failure)
	if s.sys.answer(f.cell, f.report) != Escalate {
		return
	}
	above := f.cell.parent
	if above == nil {
		if s.sys.onFatal != nil {
			s.sys.onFatal(f.report)
		}
		return
	}
	if above.fail() { // else it has already failed or is stopping, which ends this child too
		parent.EscalateFailure(&failure{above, f.report}, nil)
	}
}

// answer applies c's policy to a crash of c or of an actor below it.
func (s *System) answer(c *cell, report *CrashReport) Decision {
	now := s.clock.Now()
	r := *report
	c.mu.Lock()
	if c.faults == nil {
		c.faults = &faults{}
	}
	if r.Path != c.path {
		c.faults.total++
	}
	incarnation := c.incarnation
	if c.closed {
		r.Decision = Ended
	} else {
		r.Decision, r.RetryAfter, c.faults.crashes = c.policy.Decide(c.faults.crashes, now)
	}
	r.Crashes = len(c.faults.crashes)
	c.faults.last = &r
	switch r.Decision {
	case Quarantine:
		c.status = Quarantined
	case Escalate:
		c.status = Failed
	case Restart, Ended, Contained:
	}
	c.mu.Unlock()

	s.report(c, &r)
	if r.Decision == Restart || r.Decision == Quarantine {
		c.clock().AfterFunc(r.RetryAfter, func() { c.restart(incarnation) })
	}
	return r.Decision
}

// report logs a crash and its decision, and calls the observers.
func (s *System) report(c *cell, r *CrashReport) {
	e := s.log.Error().Str("actor", c.path).Str("panic", r.Reason).Str("message", r.Message).
		Int("crashes", r.Crashes).Stringer("decision", r.Decision)
	if r.Path != c.path {
		e.Str("escalatedFrom", r.Path)
	} else {
		e.Str("stack", r.Stack)
	}
	if r.RetryAfter > 0 {
		e.Dur("retryAfter", r.RetryAfter)
	}
	if r.Decision == Contained {
		e.Str("call", r.Detail).Msg("panic in a call beside an actor; the call failed")
	} else {
		e.Msg("actor crashed")
	}
	if s.tracer != nil {
		s.tracer.Crash(s.clock.Now(), c.path, r)
	}
	s.crashes.add(r)
	if s.onCrash != nil {
		s.onCrash(r)
	}
}
