package machine

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/oom"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/port/simport"
)

// OOM implements port.OOMKills: kernel messages of the OOM killer that a simulation makes.
type OOM struct {
	Calls
	// NoLog: the kernel's log can't be read.
	NoLog bool

	kills []oom.Kill
	// wait is the last call that waits; nil if there is none.
	wait   *waiting
	counts oom.Counts
}

// waiting is a call that no kill has answered yet.
type waiting struct {
	ctx      context.Context
	done     func([]oom.Kill, error)
	answered bool
}

var _ port.OOMKills = (*OOM)(nil)

func newOOM(clock simport.Clock) *OOM {
	return &OOM{Calls: Calls{clock: clock}, counts: oom.Counts{Containers: map[string]uint64{}}}
}

// Kill says that the kernel killed a process. A container is named by k.Container, as the kernel's counters
// do, and is in the cgroup of its name in the kernel's log.
func (o *OOM) Kill(k oom.Kill) {
	o.mu.Lock()
	o.counts.All++
	o.counts.Containers[k.Container]++
	if k.Container != "" {
		k.Cgroup, k.Container = "/kubepods/"+k.Container, ""
		if !k.System {
			k.Limit = k.Cgroup
		}
	}
	o.kills = append(o.kills, k)
	o.mu.Unlock()
	o.clock.AfterFunc(hostLatency, o.answer)
}

// answer gives the kills to the caller that waits for them.
func (o *OOM) answer() {
	o.mu.Lock()
	if o.wait == nil || o.wait.ctx.Err() != nil || len(o.kills) == 0 {
		o.mu.Unlock()
		return
	}
	w, kills := o.wait, o.kills
	o.wait, o.kills, w.answered = nil, nil, true
	o.mu.Unlock()
	w.done(kills, nil)
}

// giveUp ends a call whose caller gave up, or that another one replaced; nil for none.
func (o *OOM) giveUp(w *waiting) {
	if w == nil {
		return
	}
	o.mu.Lock()
	answered := w.answered
	w.answered = true
	if o.wait == w {
		o.wait = nil
	}
	o.mu.Unlock()
	if !answered {
		w.done(nil, &port.Error{Kind: port.Canceled, Verb: "WatchOOM", Detail: "the caller gave up"})
	}
}

// Watch implements port.OOMKills.
func (o *OOM) Watch(ctx context.Context, done func([]oom.Kill, error)) {
	o.do(ctx, Call{Verb: "WatchOOM"}, hostLatency, func(err error) {
		if err != nil {
			done(nil, err)
			return
		}
		o.mu.Lock()
		w, before := &waiting{ctx: ctx, done: done}, o.wait
		o.wait = w
		o.mu.Unlock()
		o.giveUp(before)
		o.answer()
		simport.OnEnd(ctx, func() { o.giveUp(w) })
	}, func() error {
		if o.NoLog {
			return &port.Error{Kind: port.Unsupported, Verb: "WatchOOM", Detail: "the simulated kernel has no log"}
		}
		return nil
	})
}

// Count implements port.OOMKills.
func (o *OOM) Count(ctx context.Context, pods []*v1.Pod, done func(oom.Counts, error)) {
	var n oom.Counts
	o.do(ctx, Call{Verb: "CountOOM"}, hostLatency, func(err error) { done(n, err) }, func() error {
		n = oom.Counts{All: o.counts.All, Containers: map[string]uint64{}}
		for _, id := range oom.Running(pods) {
			n.Containers[id] = o.counts.Containers[id]
		}
		return nil
	})
}
