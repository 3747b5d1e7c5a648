package shutdown_test

import (
	"context"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/decide/podlife"
	rules "github.com/troupe-dev/troupe/actors/decide/podset"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	decide "github.com/troupe-dev/troupe/actors/decide/shutdown"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/podset"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/shutdown"
	"github.com/troupe-dev/troupe/tests/actortest"
)

// rig is the shutdown actor, and all that it talks to: the machine, pods and status.
type rig struct {
	*actortest.Rig
	actor *actortest.Actor[shutdown.Message]
	// down: the machine is shutting down. lost is what its calls fail with. max is its longest delay.
	down  bool
	lost  error
	max   time.Duration
	event func(bool)
	close func(error)
	// pods are in order; each takes its time to end.
	pods      []*podset.Fact
	takes     map[types.UID]time.Duration
	unwritten int
	disk      []byte
	told      bool
}

func newRig(t *testing.T, change ...func(*rig)) *rig {
	t.Helper()
	r := &rig{Rig: actortest.New(t), max: time.Hour, takes: map[types.UID]time.Duration{}}
	for _, f := range change {
		f(r)
	}
	r.start()
	return r
}

func (r *rig) start() {
	r.actor = actortest.Spawn(r.Rig, kernel.Spec[shutdown.Message]{Name: "shutdown", New: shutdown.New(&shutdown.Deps{
		NodeName: "n1", Inhibitor: r, Checkpoints: r, Events: r,
		Groups: decide.Groups{{Priority: 0, Period: 10 * time.Second}, {Priority: 100, Period: 5 * time.Second}},
		ShuttingDown: func(on bool) {
			if on != r.told {
				r.Say("all: shutting down %v", on)
			}
			r.told = on
		},
		Pods: func(reply func(podset.Inventory)) {
			var i podset.Inventory
			for _, p := range r.pods {
				i.Pods = append(i.Pods, *p)
			}
			reply(i)
		},
		Evict: func(m podset.Evict) {
			r.Say("pods: end %s in %v", m.UID, m.Stop.Grace)
			for _, p := range r.pods {
				if p.Pod.UID == m.UID {
					p.Stop = rules.Sooner(p.Stop, m.Stop)
					r.AfterFunc(min(r.takes[m.UID], m.Stop.Grace), func() { p.State = rules.Finished })
				}
			}
		},
		Unwritten: func(reply func(int)) { reply(r.unwritten) },
		Backoff:   backoff.Policy{Base: time.Second, Max: time.Minute}, Deadline: 10 * time.Second,
	})})
	r.Advance(100 * time.Millisecond)
}

func (r *rig) pod(uid string, priority int32, takes time.Duration) {
	grace := int64(30)
	r.takes[types.UID(uid)] = takes
	r.pods = append(r.pods, &podset.Fact{Entry: rules.Entry{Origin: podspec.API, State: rules.Running, Pod: &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), Name: uid, Namespace: "default"},
		Spec:       v1.PodSpec{Priority: &priority, TerminationGracePeriodSeconds: &grace},
	}}})
}

// prepare says that the machine begins to shut down, or that this was cancelled.
func (r *rig) prepare(on bool) {
	r.down = on
	r.event(on)
	r.Settle()
}

// Watch implements port.Inhibitor.
func (r *rig) Watch(_ context.Context, event func(bool), done func(error)) {
	r.Soon(func() {
		if r.lost != nil {
			done(r.lost)
			return
		}
		r.event, r.close = event, done
		event(r.down)
	})
}

func (r *rig) call(what string, done func(error)) {
	r.Say("machine: %s", what)
	r.Soon(func() { done(r.lost) })
}

// Inhibit implements port.Inhibitor.
func (r *rig) Inhibit(_ context.Context, done func(error)) { r.call("lock", done) }

// Release implements port.Inhibitor.
func (r *rig) Release(_ context.Context, done func(error)) { r.call("release", done) }

// MaxDelay implements port.Inhibitor.
func (r *rig) MaxDelay(_ context.Context, done func(time.Duration, error)) {
	r.Soon(func() { done(r.max, r.lost) })
}

// RaiseMaxDelay implements port.Inhibitor.
func (r *rig) RaiseMaxDelay(_ context.Context, to time.Duration, done func(error)) {
	r.call("raise to "+to.String(), done)
}

// Load implements port.Checkpoints.
func (r *rig) Load(_ context.Context, _ string, done func([]byte, error)) {
	r.Soon(func() { done(r.disk, nil) })
}

// Save implements port.Checkpoints.
func (r *rig) Save(_ context.Context, _ string, data []byte, done func(error)) {
	r.disk = data
	r.Soon(func() { done(nil) })
}

// SetAside implements port.Checkpoints.
func (r *rig) SetAside(_ context.Context, _ string, done func(string, error)) {
	r.disk = nil
	r.Soon(func() { done("shutdown.damaged", nil) })
}

// Record implements port.Recorder.
func (r *rig) Record(e port.Event) { r.Say("event: %s", e.Reason) }

// TestInOrder: the groups end one after another, and the lock is kept until the statuses are written.
func TestInOrder(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.pod("quick", 0, time.Second)
		r.pod("slow", 0, time.Minute)
		r.pod("high", 200, 2*time.Second)
		r.unwritten = 3
	})
	r.Want("it waits for a shutdown", "machine: lock")
	r.prepare(true)
	r.Want("a shutdown begins", "event: Shutdown", "all: shutting down true", "pods: end quick in 10s", "pods: end slow in 10s")
	r.WantAfter("it waits for the slow one", 9900*time.Millisecond)
	r.WantAfter("its period is over", 300*time.Millisecond, "pods: end high in 5s")
	r.WantAfter("statuses are not written yet", 4*time.Second)
	r.unwritten = 0
	r.WantAfter("they are", time.Second, "machine: release")
	r.WantAfter("nothing more", time.Hour)
	if d := string(r.disk); !strings.Contains(d, `"start"`) || !strings.Contains(d, `"end"`) {
		t.Errorf("the checkpoint is %s", d)
	}
}

// TestStatusesAreNotWritten: an apiserver that is away delays the machine for a moment only.
func TestStatusesAreNotWritten(t *testing.T) {
	r := newRig(t, func(r *rig) { r.pod("a", 0, time.Second); r.unwritten = 1 })
	r.prepare(true)
	r.Advance(1500 * time.Millisecond)
	r.Forget()
	r.WantAfter("not yet", 4*time.Second)
	r.WantAfter("that was enough", 2*time.Second, "machine: release")
}

// TestCancelled: new pods are let in again, and the next shutdown waits again.
func TestCancelled(t *testing.T) {
	r := newRig(t, func(r *rig) { r.pod("a", 0, time.Minute) })
	r.prepare(true)
	r.Advance(time.Second)
	r.Forget()
	r.prepare(false)
	r.Advance(time.Minute)
	r.Want("cancelled", "event: Shutdown", "all: shutting down false", "machine: lock")
}

// TestAnotherAgent goes on with the group that the killed one was at, without more time.
func TestAnotherAgent(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.down = true
		r.pod("asked", 0, time.Minute)
		r.pod("high", 200, time.Second)
		s := decide.Stop(r.Now().Add(-8*time.Second), 10*time.Second)
		r.pods[0].Stop = &s
	})
	r.Want("it goes on", "event: Shutdown", "all: shutting down true")
	r.WantAfter("the rest of the period", 2*time.Second, "pods: end high in 5s")
}

// TestDeletedBefore: a pod that was being deleted when the shutdown began does not take time from its group.
func TestDeletedBefore(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.pod("deleted", 0, time.Minute)
		r.pod("high", 200, time.Second)
		r.pods[0].Stop = &podlife.Stop{At: r.Now().Add(-8 * time.Second), Grace: time.Minute, Why: "the pod was deleted"}
	})
	r.Want("it waits for a shutdown", "machine: lock")
	r.prepare(true)
	r.Want("a shutdown begins", "event: Shutdown", "all: shutting down true", "pods: end deleted in 10s")
	if s := r.pods[0].Stop; s.Reason != decide.Reason || !s.Fail || !decide.Is(s) {
		t.Errorf("it ends for %+v", *s)
	}
	r.actor.Crash()
	r.WantAfter("the actor crashes, and goes on", 9900*time.Millisecond, "event: Shutdown")
	r.WantAfter("the period is over", 300*time.Millisecond, "pods: end high in 5s")
}

// TestNoBus: one warning, and it works as soon as there is one.
func TestNoBus(t *testing.T) {
	r := newRig(t, func(r *rig) { r.lost = &port.Error{Kind: port.Unavailable, Verb: "Watch"} })
	r.Advance(time.Hour)
	if n := r.Logged("cannot watch for shutdowns"); n != 1 {
		t.Errorf("%d warnings:\n%s", n, r.Log.String())
	}
	r.lost = nil
	r.WantAfter("there is one", time.Minute, "machine: lock")
	r.close(&port.Error{Kind: port.Unavailable})
	r.WantAfter("it restarts", 3*time.Second, "machine: lock")
}

// TestTooShort: what the machine does not wait for is taken from all groups alike.
func TestTooShort(t *testing.T) {
	r := newRig(t, func(r *rig) { r.max = 5 * time.Second; r.pod("low", 0, time.Minute); r.pod("high", 200, time.Minute) })
	r.Want("it tries to have more time", "machine: lock", "machine: raise to 20s")
	if r.Logged("set InhibitDelayMaxSec=20") != 1 {
		t.Errorf("it logs\n%s", r.Log.String())
	}
	r.prepare(true)
	r.Want("less time", "event: Shutdown", "all: shutting down true", "pods: end low in 3s")
	r.WantAfter("and for the others", 3100*time.Millisecond, "pods: end high in 1.5s")
}

// TestAlmostEnough: the warning comes whenever the periods are shortened, and only then.
func TestAlmostEnough(t *testing.T) {
	for _, c := range []struct {
		max  time.Duration // of 15 s for the groups and 5 s for the statuses
		warn string
	}{
		{14 * time.Second, "shortened to 12.6s"},
		{15 * time.Second, "waits at most 15s, and the configured shutdown grace periods are 15s in all: they are shortened to 13.5s"},
		{16 * time.Second, "shortened to 14.4s"},
		{17 * time.Second, ""}, // a tenth is left
		{20 * time.Second, ""},
	} {
		r := newRig(t, func(r *rig) { r.max = c.max })
		r.Advance(time.Second)
		warned := r.Logged("they are shortened")
		if c.warn == "" && warned != 0 || c.warn != "" && (warned != 1 || r.Logged(c.warn) != 1) {
			t.Errorf("with %v it logs\n%s", c.max, r.Log.String())
		}
	}
}

// TestCrash: after a crash at any message, all pods end and the lock is released.
func TestCrash(t *testing.T) {
	for at := 1; at < 12; at++ {
		r := newRig(t, func(r *rig) { r.pod("a", 0, time.Second); r.pod("b", 200, time.Second) })
		r.prepare(true)
		r.actor.CrashAt(at)
		r.Advance(time.Minute)
		if r.Count("machine: release") != 1 || r.pods[0].State != rules.Finished || r.pods[1].State != rules.Finished {
			t.Errorf("crash at message %d: released %d times", at, r.Count("machine: release"))
		}
	}
}
