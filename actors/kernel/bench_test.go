package kernel

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"github.com/troupe-dev/troupe/tests/check"
)

type nop struct{}

func (nop) Start(*Context[int])        {}
func (nop) Receive(*Context[int], int) {}

func nopSpec(name string) Spec[int] {
	return Spec[int]{Name: name, Kind: "nop", New: func() Behavior[int] { return nop{} }}
}

// Tell until Receive, one message at a time, on the wall clock.
func BenchmarkTellWall(b *testing.B) {
	sys := wallSystem(b)
	got := make(chan struct{}, 1)
	r, _ := SpawnRoot(sys, Spec[int]{Name: "a", New: func() Behavior[int] {
		return receiver[int](func(int) { got <- struct{}{} })
	}})
	b.ReportAllocs()
	for b.Loop() {
		r.Tell(1)
		<-got
	}
}

// The same with the mailbox never empty.
func BenchmarkTellWallBusy(b *testing.B) {
	sys := wallSystem(b)
	done := make(chan struct{})
	n := 0
	r, _ := SpawnRoot(sys, Spec[int]{Name: "a", MailboxLimit: 1 << 30, New: func() Behavior[int] {
		return receiver[int](func(int) {
			if n++; n == b.N {
				close(done)
			}
		})
	}})
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		r.Tell(1)
	}
	<-done
}

func virtualBench(b *testing.B, tracer Tracer) (*Virtual, *System) {
	v := NewVirtual(1, start)
	sys := check.Value(NewSystem(Config{Clock: v, Log: zerolog.Nop(), Tracer: tracer}))(b)
	return v, sys
}

// relay passes on what it gets: each step is one Tell and one Receive.
type relay struct{ to *Ref[int] }

func (relay) Start(*Context[int])                 {}
func (r relay) Receive(_ *Context[int], hops int) { r.to.Tell(hops + 1) }

func benchSteps(b *testing.B, tracer Tracer) {
	v, sys := virtualBench(b, tracer)
	const n = 1000
	refs := make([]Ref[int], n)
	for i := range n {
		refs[i], _ = SpawnRoot(sys, Spec[int]{Name: fmt.Sprint(i), Kind: "relay", New: func() Behavior[int] { return relay{&refs[(i*7+1)%n]} }})
	}
	v.Settle()
	for i := range n / 10 {
		refs[i*10].Tell(i)
	}
	for range 100 * n {
		v.Step()
	}
	b.ReportAllocs()
	for b.Loop() {
		v.Step()
	}
}

func BenchmarkVirtualStep(b *testing.B)       { benchSteps(b, nil) }
func BenchmarkVirtualStepTraced(b *testing.B) { benchSteps(b, NewHashTracer()) }

func BenchmarkVirtualTimer(b *testing.B) {
	v, sys := virtualBench(b, nil)
	r, _ := SpawnRoot(sys, Spec[do]{Name: "a", New: func() Behavior[do] { return &lab{} }})
	var again do
	again = func(ctx *Context[do]) { ctx.After(time.Second, again) }
	for range 1000 {
		r.Tell(again)
	}
	v.Settle()
	b.ReportAllocs()
	for b.Loop() {
		v.next(v.now.Add(time.Hour))
		v.Step()
	}
}

// BenchmarkIdleActor is what an actor costs that has handled 20 messages and
// waits: its Go heap, protoactor's part and ours.
func BenchmarkIdleActor(b *testing.B) {
	v, sys := virtualBench(b, nil)
	root, _ := SpawnRoot(sys, Spec[do]{Name: "node", New: func() Behavior[do] { return &lab{} }})
	v.Settle()
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	refs := make([]Ref[int], 0, b.N)
	b.ReportAllocs()
	b.ResetTimer()
	root.Tell(func(ctx *Context[do]) {
		for i := range b.N {
			r := check.Value(Spawn(ctx, nopSpec(fmt.Sprintf("pod-%08d", i))))(b)
			refs = append(refs, r)
		}
	})
	v.Settle()
	b.StopTimer()
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(b.N), "heapB/fresh")
	for _, r := range refs {
		for i := range 20 {
			r.Tell(i)
			v.Settle()
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(b.N), "heapB/used")
	runtime.KeepAlive(sys)
}

func BenchmarkEffect(b *testing.B) {
	for _, pool := range []string{"", "start"} {
		b.Run("pool="+pool, func(b *testing.B) {
			v, sys := virtualBench(b, nil)
			run, _ := NewRunner(sys, Pool{Name: "start", Size: 2, MinHold: time.Second, MaxHold: 2 * time.Second})
			r, _ := SpawnRoot(sys, Spec[do]{Name: "a", Runner: run, New: func() Behavior[do] { return &lab{} }})
			nothing := do(func(*Context[do]) {})
			e := Effect[do]{
				Kind: "Call", Lane: "x", Pool: pool, Deadline: time.Minute,
				Run:     func(_ context.Context, _ EffectID, done func(do)) { done(nothing) },
				Expired: func(EffectID) do { return nothing },
			}
			ask := do(func(ctx *Context[do]) { ctx.Do(e) })
			b.ReportAllocs()
			for b.Loop() {
				r.Tell(ask)
				v.Step()
				v.Step()
			}
		})
	}
}

func BenchmarkSnapshot10k(b *testing.B) {
	v, sys := virtualBench(b, nil)
	run, _ := NewRunner(sys)
	root, _ := SpawnRoot(sys, Spec[do]{Name: "node", Runner: run, New: func() Behavior[do] { return &lab{} }})
	root.Tell(func(ctx *Context[do]) {
		for i := range 10_000 {
			_, _ = Spawn(ctx, nopSpec(fmt.Sprintf("pod-%08d", i)))
		}
	})
	v.Settle()
	b.ReportAllocs()
	b.Run("snapshot", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			sys.Snapshot("")
		}
	})
	b.Run("metrics", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			sys.Metrics()
		}
	})
}

// What protoactor costs by itself, to compare.
type stock struct {
	n, until int
	done     chan struct{}
}

func (s *stock) Receive(c actor.Context) {
	if _, ok := c.Message().(int); ok {
		if s.n++; s.n == s.until {
			close(s.done)
		}
	}
}

func BenchmarkStockTellBusy(b *testing.B) {
	sys := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }))
	s := &stock{until: b.N, done: make(chan struct{})}
	pid := sys.Root.Spawn(actor.PropsFromProducer(func() actor.Actor { return s }))
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		sys.Root.Send(pid, 1)
	}
	<-s.done
	b.StopTimer()
	_ = sys.Root.StopFuture(pid).Wait()
}

func BenchmarkStockIdleActor(b *testing.B) {
	sys := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }))
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	made := make(chan struct{})
	root := sys.Root.Spawn(actor.PropsFromFunc(func(c actor.Context) {
		if c.Message() == "go" {
			for i := range b.N {
				_, _ = c.SpawnNamed(actor.PropsFromProducer(func() actor.Actor { return &stock{} }), fmt.Sprintf("pod-%08d", i))
			}
			close(made)
		}
	}))
	b.ResetTimer()
	sys.Root.Send(root, "go")
	<-made
	b.StopTimer()
	time.Sleep(100 * time.Millisecond)
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(b.N), "heapB/fresh")
	runtime.KeepAlive(sys)
}

func BenchmarkNewSystem(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		virtualBench(b, nil)
	}
}
