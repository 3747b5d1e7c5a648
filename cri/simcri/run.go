package simcri

import (
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
)

// Exit codes that are not the program's own: 128 and the signal's number.
const (
	exitNotStarted int32 = 128
	exitKilled     int32 = 137
	exitTerminated int32 = 143
)

// play schedules the events of a running container's script. An adopted container has run for a
// while.
func (r *Runtime) play(c *container) {
	after, code, reason, ends := c.script.end(c, r)
	if !ends {
		return
	}
	after = max(0, after-r.ran(c))
	c.pending().stopExit = r.after(after, func() {
		if c.state == containerRunning {
			r.exit(c, code, reason, ByItself)
		}
	})
}

func (c *container) pending() *live {
	if c.live == nil {
		c.live = &live{}
	}
	return c.live
}

// exit: Running → Exited, for good. It calls the waiters.
func (r *Runtime) exit(c *container, code int32, reason exitReason, cause Cause) {
	if c.state != containerRunning {
		panic("simcri: exit of a container that does not run: " + c.id)
	}
	r.end(c, containerExited, code, reason, cause)
}

// end takes a running container to a state in which it no longer runs.
func (r *Runtime) end(c *container, to containerState, code int32, reason exitReason, cause Cause) {
	c.state, c.finishedAt = to, r.now()
	c.exitCode, c.reason, c.cause = code, reason, cause
	if reason == reasonOOMKilled && c.script != nil && !c.script.OOMLate.IsZero() {
		c.reason = reasonError
		r.after(c.script.OOMLate.Sample(r.scr), func() { c.reason = reasonOOMKilled })
	}
	was := c.live
	c.live = nil
	r.changed(observed.ContainerStoppedEvent, c, c.sandbox.pod.ref)
	if was == nil {
		return
	}
	if was.stopExit != nil {
		was.stopExit()
	}
	if was.stopTerm != nil {
		was.stopTerm()
	}
	for _, w := range was.waiters {
		w.f()
	}
}

// reasonOf is containerd's reason for a program that ended by itself.
func reasonOf(code int32) exitReason {
	if code == 0 {
		return reasonCompleted
	}
	return reasonError
}

// onExit runs f under the lock when the running container has exited. stop cancels that.
func (c *container) onExit(f func()) (stop func()) {
	w := &waiter{f}
	l := c.pending()
	l.waiters = append(l.waiters, w)
	return func() {
		if i := slices.Index(l.waiters, w); i >= 0 {
			l.waiters = slices.Delete(l.waiters, i, i+1)
		}
	}
}

// terminate delivers the stop signal to a running container, once.
func (r *Runtime) terminate(c *container) {
	l := c.pending()
	if l.termed {
		return
	}
	l.termed = true
	if c.script.IgnoreTERM {
		return
	}
	code := c.script.TermExitCode
	l.stopTerm = r.after(c.script.TermDelay.Sample(r.scr), func() {
		if c.state == containerRunning {
			r.exit(c, code, reasonOf(code), BySignal)
		}
	})
}

// StopContainer implements port.Runtime. A container that was never started is left as it is, as
// in containerd.
func (r *Runtime) StopContainer(ctx context.Context, id string, grace time.Duration, done func(error)) {
	call := r.containerCall(StopContainer, id)
	call.Grace = grace
	r.begin(ctx, call, done, nil, func(o *op) {
		c := r.containers[id]
		if c == nil || c.state != containerRunning {
			o.Reply(func() { done(nil) })
			return
		}
		if grace <= 0 {
			r.exit(c, exitKilled, reasonError, ByKill)
			o.Reply(func() { done(nil) })
			return
		}
		r.terminate(c)
		if o.Answered() || o.Fault.Partial {
			// There is no waiter, so no SIGKILL is sent.
			o.Reply(func() {})
			return
		}
		stopKill := r.after(grace, func() {
			if c.state == containerRunning {
				r.exit(c, exitKilled, reasonError, ByKill)
			}
		})
		stopWaiting := c.onExit(func() {
			stopKill()
			o.Reply(func() { done(nil) })
		})
		o.Undo = func() {
			stopKill()
			stopWaiting()
		}
	})
}

// memoryLimit of a container in bytes, 0 for none.
func memoryLimit(c *v1.Container) int64 {
	if q, ok := c.Resources.Limits[v1.ResourceMemory]; ok {
		return q.Value()
	}
	return 0
}
