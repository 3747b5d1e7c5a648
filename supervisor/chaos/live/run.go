package live

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/troupe-dev/troupe/supervisor/chaos"
	"github.com/troupe-dev/troupe/supervisor/chaos/plan"
	"github.com/troupe-dev/troupe/supervisor/invariants"
)

// SameEnd is the rule that a case ends in the simulator as it does on the node.
const SameEnd = "same end"

const (
	// restartDelay is until an agent that was killed is started again.
	restartDelay = 100 * time.Millisecond
	// runtimeDelay is how long a runtime is down that was killed by a fault.
	runtimeDelay = time.Second
)

// Run runs a case in the simulator, and if it holds there, on the node. The result is that of the
// simulator if the case does not hold there. An error is one of the run, or of ctx.
func (s *Session) Run(ctx context.Context, c *plan.Case) (*chaos.Result, error) {
	if err := s.config.Possible(c); err != nil {
		return nil, err
	}
	simulated := newEnds()
	r := chaos.Run(c, chaos.WithVersions(simulated.shown))
	if r.Verdict() != chaos.Held {
		return r, nil
	}
	w := newWorld(s, c)
	l := &liveRun{world: w, Session: s}
	err := l.run(ctx)
	s.mu.Lock()
	w.out.Reached = w.inj.reached()
	if len(w.out.Violations) == 0 {
		w.out.Unreached = append(w.inj.unreached(), l.undone()...)
	}
	violated := len(w.out.Violations) > 0
	s.mu.Unlock()
	// What is left of a case must not be there in the next one.
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*cleanPatience)
	defer cancel()
	if err := errors.Join(err, l.finish(clean)); err != nil {
		return nil, err
	}
	if what := simulated.difference(w.ends); what != "" && !violated && len(w.out.Unreached) == 0 {
		w.out.Violations = append(w.out.Violations, invariants.Violation{ID: SameEnd, What: what, At: time.Now()})
	}
	return w.out, nil
}

// liveRun does the operations of a case.
type liveRun struct {
	*Session
	world *world
	// next is the operation that is waited for.
	next  int
	begin time.Time
	// startAt is when an agent that was killed is started, zero for none.
	startAt time.Time
	timers  []*time.Timer
}

// undone are the operations that were not reached.
func (l *liveRun) undone() (out []string) {
	for i := l.next; i < len(l.world.c.Ops); i++ {
		out = append(out, l.world.c.Ops[i].String())
	}
	return out
}

func (l *liveRun) run(ctx context.Context) error {
	if err := l.runtime.withdraw(ctx, l.images[:]...); err != nil {
		return err
	}
	if l.world.inj.aboutTheNode() {
		l.agent.kill() // calls that are about no pod are counted from its start
	}
	l.mu.Lock()
	l.cur = l.world
	l.mu.Unlock()
	if !l.agent.running() {
		if err := l.agent.start(); err != nil {
			return err
		}
	}
	l.begin = time.Now()
	ops := l.world.c.Ops
	for ; l.next < len(ops); l.next++ {
		if reached, err := l.waitFor(ctx, &ops[l.next]); err != nil || !reached {
			return err
		}
		if err := l.do(ctx, &ops[l.next]); err != nil {
			return fmt.Errorf("%s: %w", &ops[l.next], err)
		}
	}
	return l.end(ctx)
}

// finish ends a case, whatever has become of it, and takes what is left of its pods away.
func (l *liveRun) finish(ctx context.Context) error {
	l.mu.Lock()
	l.cur = nil
	l.mu.Unlock()
	close(l.world.over)
	for _, t := range l.timers {
		t.Stop()
	}
	l.cri.Release()
	l.agent.signal(syscall.SIGCONT)
	err := l.way.Heal()
	if !l.agent.running() {
		err = errors.Join(err, l.agent.start())
	}
	if err = errors.Join(err, l.clean(ctx)); err != nil {
		// The agent can't, and the next case must not find it.
		return errors.Join(err, l.runtime.clear(ctx))
	}
	return nil
}

// pass waits until cond holds, a rule is broken or the time has come, does what hooks have asked
// for, and reports whether cond holds. cond is asked under the lock.
func (l *liveRun) pass(ctx context.Context, end time.Time, cond func() bool) (bool, error) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if err := l.asks(ctx); err != nil {
			return false, err
		}
		l.mu.Lock()
		done, broken := cond(), len(l.world.out.Violations) > 0
		l.mu.Unlock()
		if done || broken || !time.Now().Before(end) {
			return done && !broken, nil
		}
		select {
		case <-l.happened:
		case <-tick.C:
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// asks does what hooks have asked for, and starts an agent that has ended.
func (l *liveRun) asks(ctx context.Context) error {
	l.mu.Lock()
	killed, downed := l.world.killed, l.world.downed
	l.world.killed, l.world.downed = false, false
	l.mu.Unlock()
	if killed {
		l.restart(restartDelay)
	}
	if downed {
		if err := l.config.KillRuntime(ctx, runtimeDelay); err != nil {
			return fmt.Errorf("kill the runtime: %w", err)
		}
	}
	if l.startAt.IsZero() && !l.agent.running() {
		l.mu.Lock()
		l.world.out.Crashes++
		l.mu.Unlock()
		l.restart(restartDelay)
	}
	if l.startAt.IsZero() || time.Now().Before(l.startAt) {
		return nil
	}
	l.startAt = time.Time{}
	l.mu.Lock()
	l.world.began()
	l.mu.Unlock()
	return l.agent.start()
}

// restart kills the agent, and has it started so much later.
func (l *liveRun) restart(after time.Duration) {
	l.agent.kill()
	l.startAt = time.Now().Add(after)
}

// waitFor waits for the time of an operation, and reports whether it has come.
func (l *liveRun) waitFor(ctx context.Context, o *plan.Op) (bool, error) {
	w := o.When
	until := l.begin.Add(w.At)
	if w.On != plan.NoState {
		reached, err := l.pass(ctx, time.Now().Add(l.config.Patience), func() bool { return l.world.history.Is(w.Of, w.On) })
		if !reached || err != nil {
			return false, err
		}
		until = time.Now().Add(w.After)
	}
	return l.pass(ctx, until, func() bool { return !time.Now().Before(until) })
}

// end waits until all is well and stays so.
func (l *liveRun) end(ctx context.Context) error {
	limit := time.Now().Add(l.config.Patience)
	for time.Now().Before(limit) {
		well, err := l.pass(ctx, limit, func() bool { return l.missing() == "" })
		if err != nil {
			return err
		}
		if !well {
			break
		}
		until := time.Now().Add(l.config.Settle)
		if _, err := l.pass(ctx, until, func() bool { return !time.Now().Before(until) }); err != nil {
			return err
		}
		if err := l.runtime.look(ctx); err != nil {
			return err
		}
		l.mu.Lock()
		why := l.missing()
		if why == "" {
			l.world.happened(time.Now(), l.world.rules.Settled)
		}
		l.mu.Unlock()
		if why == "" {
			return nil
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.world.out.Violations) == 0 {
		l.world.violated(invariants.Violation{
			ID: "L01", At: time.Now(),
			What: fmt.Sprintf("not all is well %s after the last operation: %s", l.config.Patience, l.missing()),
		})
	}
	return nil
}

func (l *liveRun) missing() string {
	if !l.startAt.IsZero() {
		return "the agent does not run"
	}
	return l.world.history.Missing()
}
