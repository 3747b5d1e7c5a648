package probes

import (
	"container/heap"
	"context"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/probe"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/portcall"
)

// queue is a heap of probes, by when they are due.
type queue []*run

// Len implements heap.Interface.
func (q queue) Len() int { return len(q) }

// Less implements heap.Interface.
func (q queue) Less(i, j int) bool {
	if q[i].at != q[j].at {
		return q[i].at < q[j].at
	}
	return q[i].seq < q[j].seq
}

// Swap implements heap.Interface.
func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

// Push implements heap.Interface.
func (q *queue) Push(x any) {
	r := x.(*run)
	r.index = len(*q)
	*q = append(*q, r)
}

// Pop implements heap.Interface.
func (q *queue) Pop() any {
	old := *q
	r := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	r.index = -1
	return r
}

// requeue puts a probe in the queue by its schedule.
func (a *probes) requeue(r *run) {
	at := r.Due()
	if r.target == nil && r.broken == "" {
		at = 0 // no target yet
	}
	switch {
	case at == 0 && r.index >= 0:
		heap.Remove(&a.queue, r.index)
	case at == 0:
	case r.index < 0:
		r.at = at
		heap.Push(&a.queue, r)
	case r.at != at:
		r.at = at
		heap.Fix(&a.queue, r.index)
	}
}

// runDue starts all due probes.
func (a *probes) runDue(ctx *kernel.Context[Message]) {
	now := a.now(ctx)
	for len(a.queue) > 0 && a.queue[0].at <= now.UnixNano() {
		r := a.queue[0]
		if r.under != 0 { // the last run takes longer than the period
			r.Skipped(now, a.grid)
			a.requeue(r)
			continue
		}
		r.Begun(now, a.grid)
		a.requeue(r)
		r.asked, r.tries = ctx.Now(), 0
		if r.broken != "" {
			a.take(ctx, r, probe.Answer{Verdict: probe.Errored, Output: r.broken})
		} else {
			a.ask(ctx, r)
		}
	}
}

// slack is extra time, beyond a network probe's timeout, for its answer.
const slack = time.Second

// tries is how often in a row a probe is run that could not be run.
const tries = 3

// ask runs a probe.
func (a *probes) ask(ctx *kernel.Context[Message], r *run) {
	// Only values of r: the call runs on another goroutine.
	deps, id, timeout := a.deps, r.of.id, r.Timeout
	r.tries++
	e := kernel.Effect[Message]{
		// The pools are Fair: however many of a pod hang, they are its own.
		Object: r.of.object, For: string(r.of.pod.pod.UID), Lane: r.lane, Pool: networkPool, Deadline: timeout + slack,
		Patience: timeout + slack,
		Expired: func(id kernel.EffectID) Message {
			return answered{id, probe.Answer{Verdict: probe.Failed, Output: portcall.NoAnswer("", "", timeout).Detail}}
		},
	}
	switch t := r.target.(type) {
	case probe.Exec:
		e.Kind, e.Pool = "ExecProbe", execPool
		// A runtime that stands still says nothing of the container: it has as long as for any call.
		e.Deadline = timeout + deps.RequestTimeout
		e.Expired = func(id kernel.EffectID) Message {
			return answered{id, execAnswer(t, timeout, port.ExecResult{}, &port.Error{Kind: port.Deadline})}
		}
		e.Run = func(ctx context.Context, effect kernel.EffectID, done func(Message)) {
			deps.Runtime.ExecSync(ctx, id, t.Words, timeout, func(r port.ExecResult, err error) {
				done(answered{effect, execAnswer(t, timeout, r, err)})
			})
		}
	case probe.HTTP:
		e.Kind = "HTTPProbe"
		e.Run = func(ctx context.Context, effect kernel.EffectID, done func(Message)) {
			deps.Network.ProbeHTTP(ctx, t, timeout, func(r port.HTTPAnswer, err error) {
				if err != nil {
					done(answered{effect, failure(err)})
					return
				}
				done(answered{effect, probe.JudgeHTTP(r.Status, r.Body, r.Unread)})
			})
		}
	case probe.TCP:
		e.Kind = "TCPProbe"
		e.Run = func(ctx context.Context, effect kernel.EffectID, done func(Message)) {
			deps.Network.ProbeTCP(ctx, t, timeout, func(err error) {
				if err != nil {
					done(answered{effect, failure(err)})
					return
				}
				done(answered{effect, probe.Answer{Verdict: probe.Passed}})
			})
		}
	case probe.GRPC:
		e.Kind = "GRPCProbe"
		e.Run = func(ctx context.Context, effect kernel.EffectID, done func(Message)) {
			deps.Network.ProbeGRPC(ctx, t, timeout, func(status string, err error) {
				if err != nil {
					done(answered{effect, failure(err)})
					return
				}
				done(answered{effect, probe.JudgeGRPC(status)})
			})
		}
	}
	a.runs(r, ctx.Do(e))
}

// runs notes that a probe is under way, ended that it is no more.
func (a *probes) runs(r *run, id kernel.EffectID) {
	r.under = id
	a.running[id] = r
}

func (a *probes) ended(r *run) {
	delete(a.running, r.under)
	r.under = 0
}

// execAnswer judges a command's result.
func execAnswer(t probe.Exec, timeout time.Duration, r port.ExecResult, err error) probe.Answer {
	switch {
	case err == nil:
		return probe.JudgeExec(r.ExitCode, r.Stdout, r.Stderr)
	case port.KindOf(err) == port.Deadline:
		return probe.Answer{Verdict: probe.Failed, Output: probe.Shown(fmt.Sprintf(
			"command timed out: %q timed out after %v", t.Text(), timeout))}
	default:
		return probe.Answer{Verdict: probe.Errored, Output: probe.Shown(port.Detail(err))}
	}
}

// failure is a network probe without an answer. If the request could not even be sent, the
// container's health stays unknown.
func failure(err error) probe.Answer {
	v := probe.Failed
	switch port.KindOf(err) {
	case port.InvalidConfig, port.Canceled, port.Panic:
		v = probe.Errored
	default:
	}
	return probe.Answer{Verdict: v, Output: probe.Shown(port.Detail(err))}
}
