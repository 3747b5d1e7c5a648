package kernel

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
)

// For the race detector: many goroutines tell, stop and look while actors
// crash, restart, are spawned again and do effects, on the wall clock.
func TestWallClockUnderFire(t *testing.T) {
	var crashes atomic.Int64
	sys := wallSystem(t, func(c *Config) { c.OnCrash = func(*CrashReport) { crashes.Add(1) } })
	run := check.Value(
		NewRunner(sys, Pool{Name: "p", Size: 2, MinHold: time.Millisecond, MaxHold: 2 * time.Millisecond}))(t)
	policy := Policy{Base: time.Millisecond, Max: 2 * time.Millisecond, Restarts: 3, Window: time.Second, Beyond: Quarantine, Retry: 5 * time.Millisecond}
	var results atomic.Int64
	kid := func(i int) Spec[do] {
		return Spec[do]{
			Name: fmt.Sprint("k", i), Kind: "kid", Policy: policy, Runner: run, MailboxLimit: 64,
			New: func() Behavior[do] { return &lab{} },
		}
	}
	spec := Spec[do]{Name: "a", Policy: policy, Runner: run, New: func() Behavior[do] {
		return &lab{onStart: func(ctx *Context[do]) {
			for i := range 8 {
				if _, err := Spawn(ctx, kid(i)); err != nil {
					t.Error(err)
				}
			}
		}}
	}}
	root := check.Value(SpawnRoot(sys, spec))(t)
	call := func(ctx *Context[do]) {
		r := ctx.Rand()
		latency := time.Duration(r.IntN(3000)) * time.Microsecond
		id := ctx.Do(Effect[do]{
			Kind: "Call", Lane: fmt.Sprint(r.IntN(2)), Pool: []string{"", "p"}[r.IntN(2)], Deadline: 2 * time.Millisecond,
			Expired: func(EffectID) do { return func(*Context[do]) { results.Add(1) } },
			Run: func(_ context.Context, _ EffectID, done func(do)) {
				time.AfterFunc(latency, func() { done(func(*Context[do]) { results.Add(1) }) })
			},
		})
		ctx.After(time.Duration(r.IntN(2000))*time.Microsecond, func(ctx *Context[do]) { ctx.InFlight() })
		if r.IntN(8) == 0 {
			ctx.Cancel(id)
		}
	}
	var wg sync.WaitGroup
	begun := time.Now()
	const enough = 40
	quiet := func() bool { return crashes.Load() < enough || results.Load() < enough }
	going := func() bool { return quiet() && time.Since(begun) < time.Minute }
	for g := range 6 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 1))
			for going() {
				k, ok := Lookup[do](sys, fmt.Sprint("a/k", r.IntN(8)))
				switch n := r.IntN(1000); {
				case n < 2:
					root.Tell(boom("root"))
				case n < 20 && ok:
					k.Tell(boom("kid"))
				case n < 40 && ok:
					i := r.IntN(8)
					root.Tell(func(ctx *Context[do]) {
						if k, ok := Lookup[do](sys, fmt.Sprint("a/k", i)); ok {
							StopChild(ctx, k)
						}
						if _, err := Spawn(ctx, kid(i)); err != nil && !errors.Is(err, ErrNameTaken) {
							t.Error(err)
						}
					})
				case n < 60:
					root.Tell(func(ctx *Context[do]) {
						for i := range 8 {
							_, _ = Spawn(ctx, kid(i)) // those that are gone
						}
					})
				case n < 70:
					sys.Snapshot("")
					sys.Metrics()
					run.Pools()
					sys.Crashes()
					sys.DeadLettersByName()
				case n < 300 && ok:
					k.Tell(call)
				case ok:
					k.Tell(func(*Context[do]) {})
				}
			}
		})
	}
	wg.Wait()
	StopRoot(root)
	if !sys.Until("a", 10*time.Second) {
		t.Fatalf("not stopped: %+v", sys.Snapshot(""))
	}
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		p := run.Pools()[0]
		if p.Held == 0 && p.Waiting == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("slots leaked: %+v", p)
		}
	}
	t.Logf("%d crashes, %d results, %d dead letters, %d dropped, %+v", crashes.Load(), results.Load(), sys.DeadLetters(), sys.Dropped(), run.Counts())
	if quiet() {
		t.Error("too quiet to show anything")
	}
}

// Order per sender, and nothing lost, when senders are goroutines.
func TestWallClockKeepsOrder(t *testing.T) {
	sys := wallSystem(t)
	type numbered struct{ sender, n int }
	const senders, each = 8, 5000
	var next [senders]int
	done := make(chan struct{})
	total := 0
	r := check.Value(SpawnRoot(sys, Spec[numbered]{Name: "a", MailboxLimit: senders * each, New: func() Behavior[numbered] {
		return receiver[numbered](func(m numbered) {
			check.Equal(t, next[m.sender], m.n, "of %d came %d, and %d was due", m.sender, m.n, next[m.sender])
			next[m.sender]++
			if total++; total == senders*each {
				close(done)
			}
		})
	}}))(t)
	for s := range senders {
		go func() {
			for n := range each {
				r.Tell(numbered{s, n})
			}
		}()
	}
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("messages are lost")
	}
}

type receiver[M any] func(M)

func (f receiver[M]) Start(*Context[M])          {}
func (f receiver[M]) Receive(_ *Context[M], m M) { f(m) }
