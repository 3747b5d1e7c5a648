package kernel

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
)

// A small world in which everything happens: nodes with groups with workers,
// that talk, spawn, stop one another, set timers, do effects of random latency,
// overflow, and panic when the dice say so.

// talk is the protocol of all of them.
type talk interface{ isTalk() }

type (
	gossip struct {
		n    uint64
		hops int
	}
	hint    struct{ key string }
	tick    struct{ n int }
	outcome struct {
		id      EffectID
		expired bool
	}
)

func (gossip) isTalk()  {}
func (hint) isTalk()    {}
func (tick) isTalk()    {}
func (outcome) isTalk() {}

func (m hint) MailboxKey() string { return m.key }

// town is what all its people know: a list to pick a name from.
type town struct {
	*Virtual
	sys    *System
	run    *Runner
	paths  []string
	perils int // one in so many messages is the last of an incarnation

	overflows, lost, restarts, quarantines, escalations, fatal int
}

func (w *town) tell(ctx *Context[talk], m talk) {
	if r, ok := Lookup[talk](w.sys, w.paths[ctx.Rand().IntN(len(w.paths))]); ok {
		r.Tell(m)
	}
}

type worker struct {
	w     *town
	depth int
	kids  []Ref[talk]
}

func (p *worker) spec(w *town, name, kind string, depth int) Spec[talk] {
	policy := Policy{Base: 50 * time.Millisecond, Max: time.Second, Restarts: 2, Window: 10 * time.Second, Beyond: Escalate}
	if kind == "worker" {
		policy.Beyond, policy.Retry = Quarantine, 3*time.Second
	}
	return Spec[talk]{
		Name: name, Kind: kind, Policy: policy, Runner: w.run, MailboxLimit: 8,
		New: func() Behavior[talk] { return &worker{w: w, depth: depth} },
	}
}

func (p *worker) Start(ctx *Context[talk]) {
	for range ctx.InFlight() {
		ctx.Rand().Uint64()
	}
	if p.depth > 0 {
		for i := range 3 {
			p.spawn(ctx, i)
		}
	}
	p.danger(ctx, 4)
	ctx.After(time.Duration(ctx.Rand().IntN(300))*time.Millisecond, tick{})
}

func (p *worker) spawn(ctx *Context[talk], i int) {
	kind := "group"
	if p.depth == 1 {
		kind = "worker"
	}
	if r, err := Spawn(ctx, p.spec(p.w, fmt.Sprint(kind[:1], i), kind, p.depth-1)); err == nil {
		p.kids = append(p.kids, r)
	}
}

func (p *worker) danger(ctx *Context[talk], factor int) {
	if p.depth == 2 {
		factor *= 10 // else all is lost at once
	}
	if ctx.Rand().IntN(p.w.perils*factor) == 0 {
		panic(fmt.Sprintf("dice of %s", ctx.Path()))
	}
}

func (p *worker) Receive(ctx *Context[talk], m talk) {
	p.danger(ctx, 10)
	switch m := m.(type) {
	case gossip:
		if m.hops > 0 {
			for range ctx.Rand().IntN(3) {
				p.w.tell(ctx, gossip{ctx.Rand().Uint64(), m.hops - 1})
			}
		}
	case tick:
		ctx.After(time.Duration(1+ctx.Rand().IntN(500))*time.Millisecond, tick{m.n + 1})
		p.act(ctx)
	case outcome:
		if m.expired {
			p.w.tell(ctx, hint{"expired"})
		}
	case hint:
	}
}

func (p *worker) act(ctx *Context[talk]) {
	switch r := ctx.Rand(); r.IntN(6) {
	case 0:
		p.w.tell(ctx, gossip{r.Uint64(), 4})
	case 1:
		p.w.tell(ctx, hint{fmt.Sprint(r.IntN(2))})
		p.w.tell(ctx, hint{fmt.Sprint(r.IntN(2))})
	case 2:
		if n := len(p.kids); n > 0 {
			StopChild(ctx, p.kids[r.IntN(n)])
		} else {
			cancel := ctx.After(time.Second, tick{100})
			if r.IntN(2) == 0 {
				cancel()
			}
		}
	case 3: // more than a mailbox holds
		for range 12 {
			if kid, ok := Lookup[talk](p.w.sys, p.w.paths[len(p.w.paths)-1]); ok {
				kid.Tell(gossip{r.Uint64(), 0})
			}
		}
	default:
		p.effect(ctx)
	}
}

func (p *worker) effect(ctx *Context[talk]) {
	r := ctx.Rand()
	latency := time.Duration(r.ExpFloat64() * float64(800*time.Millisecond))
	pool := []string{"", "start"}[r.IntN(2)]
	id := ctx.Do(Effect[talk]{
		Kind: "Call", Lane: fmt.Sprint(r.IntN(2)), Pool: pool, Rank: int64(r.IntN(3)), Deadline: 2 * time.Second,
		Expired: func(id EffectID) talk { return outcome{id, true} },
		Run: func(_ context.Context, id EffectID, done func(talk)) {
			p.w.AfterFunc(latency, func() { done(outcome{id, false}) })
		},
	})
	if r.IntN(20) == 0 {
		ctx.Cancel(id)
	}
}

func (p *worker) Overflowed(ctx *Context[talk]) {
	p.w.overflows++
	p.w.tell(ctx, hint{"overflow"})
}

func (p *worker) ChildStopped(ctx *Context[talk], name string) {
	p.w.lost++
	p.kids = nil
	for i := range 3 {
		p.spawn(ctx, i) // those that are still there say so
	}
}

func (p *worker) Stop(ctx *Context[talk]) { p.w.tell(ctx, hint{"bye " + ctx.Path()}) }

// live runs a town, and gives the hash of all that happened.
func live(t testing.TB, seed uint64, d time.Duration) (uint64, *town, *HashTracer) {
	t.Helper()
	tr := NewHashTracer()
	w := &town{Virtual: NewVirtual(seed, start), perils: 15}
	sys := check.Value(NewSystem(Config{
		Clock: w.Virtual, Seed: seed, Tracer: tr,
		OnCrash: func(r *CrashReport) {
			switch r.Decision {
			case Restart:
				w.restarts++
			case Quarantine:
				w.quarantines++
			case Escalate:
				w.escalations++
			case Ended:
			}
		},
		OnFatal: func(*CrashReport) { w.fatal++ },
	}))(t)
	w.sys = sys
	w.run = check.Value(NewRunner(sys, Pool{Name: "start", Size: 2, MinHold: time.Second, MaxHold: 2 * time.Second}))(t)
	for n := range 2 {
		node := fmt.Sprint("n", n)
		for g := range 3 {
			for k := range 3 {
				w.paths = append(w.paths, fmt.Sprintf("%s/g%d/w%d", node, g, k))
			}
			w.paths = append(w.paths, fmt.Sprintf("%s/g%d", node, g))
		}
		check.Value(SpawnRoot(sys, (*worker)(nil).spec(w, node, "node", 2)))(t)
	}
	w.Advance(d)
	return tr.Sum(), w, tr
}

func TestSameSeedSameRun(t *testing.T) {
	const seeds, span = 200, 8 * time.Second
	before := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(before)
	all := &town{}
	sums := map[uint64]uint64{}
	var events uint64
	for seed := range uint64(seeds) {
		first, w, tr := live(t, seed, span)
		if o, twice := sums[first]; twice {
			t.Errorf("seeds %d and %d give the same run", o, seed)
		}
		sums[first] = seed
		events += tr.Events()
		all.restarts += w.restarts
		all.quarantines += w.quarantines
		all.escalations += w.escalations
		all.fatal += w.fatal
		all.overflows += w.overflows
		all.lost += w.lost
		if seed%10 == 0 { // a run takes long under -race
			for _, procs := range []int{1, 2, 8} {
				runtime.GOMAXPROCS(procs)
				if again, _, tr2 := live(t, seed, span); again != first {
					t.Fatalf("seed %d: %x of %d events, and at GOMAXPROCS %d %x of %d", seed, first, tr.Events(), procs, again, tr2.Events())
				}
			}
			runtime.GOMAXPROCS(before)
		}
	}
	t.Logf("%d events: %d restarts, %d quarantines, %d escalations, %d fatal, %d overflows, %d children lost",
		events, all.restarts, all.quarantines, all.escalations, all.fatal, all.overflows, all.lost)
	if all.restarts < seeds || all.quarantines < seeds/10 || all.escalations < seeds/10 || all.fatal == 0 || all.overflows == 0 || all.lost == 0 {
		t.Error("the world is too quiet to show anything")
	}
}
