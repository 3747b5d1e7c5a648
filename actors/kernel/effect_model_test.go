package kernel

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/tests/check"
)

// effectLaw watches every phase of every effect and knows what may follow what.
type effectLaw struct {
	t      *rapid.T
	phase  map[EffectID]EffectPhase
	lane   map[EffectID]string
	asked  map[string][]EffectID // by lane, in order of asking
	on     map[string]EffectID   // who runs on the lane
	closed bool
}

var allowed = map[EffectPhase][]EffectPhase{
	EffectQueued:  {EffectStarted, EffectDropped},
	EffectStarted: {EffectFinished, EffectExpired},
	EffectExpired: {EffectLate},
}

func (l *effectLaw) Effect(_ time.Time, path string, p EffectPhase, e EffectInfo) {
	lane := path + " " + e.Lane
	if p == EffectQueued {
		if _, there := l.phase[e.ID]; there {
			l.t.Fatalf("%d is asked for twice", e.ID)
		}
		l.asked[lane] = append(l.asked[lane], e.ID)
	} else if from := l.phase[e.ID]; !slices.Contains(allowed[from], p) && (!l.closed || p != EffectDropped) {
		l.t.Fatalf("effect %d: %s -> %s", e.ID, from, p)
	}
	l.phase[e.ID], l.lane[e.ID] = p, lane
	switch p {
	case EffectStarted:
		if o, busy := l.on[lane]; busy {
			l.t.Fatalf("effect %d begins on the lane of %d", e.ID, o)
		}
		check.Fatal(l.t, check.Is(l.asked[lane][0], e.ID, "effect %d begins before %d", e.ID, l.asked[lane][0]))
		l.on[lane] = e.ID
		l.asked[lane] = l.asked[lane][1:]
	case EffectFinished, EffectExpired:
		delete(l.on, lane)
	case EffectDropped:
		l.asked[lane] = slices.DeleteFunc(l.asked[lane], func(id EffectID) bool { return id == e.ID })
	case EffectQueued, EffectLate:
	}
}
func (*effectLaw) Deliver(time.Time, string, string, any) {}
func (*effectLaw) Crash(time.Time, string, *CrashReport)  {}
func (*effectLaw) DeadLetter(time.Time, string, string)   {}

// Whatever owners and the world do, in whatever order.
func TestEffectsKeepTheirLaws(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		law := &effectLaw{t: rt, phase: map[EffectID]EffectPhase{}, lane: map[EffectID]string{}, asked: map[string][]EffectID{}, on: map[string]EffectID{}}
		b := newBench(t, func(c *Config) { c.Tracer = law })
		run, err := NewRunner(b.sys,
			Pool{Name: "p", Size: rapid.IntRange(1, 3).Draw(rt, "p"), MinHold: time.Second, MaxHold: 3 * time.Second, SlowHold: time.Duration(rapid.IntRange(0, 6).Draw(rt, "slow")) * time.Second},
			Pool{Name: "q", Size: 1, MinHold: 2 * time.Second, MaxHold: 20 * time.Second, Unkept: rapid.Bool().Draw(rt, "unkept")},
			Pool{Name: "r", Size: 2, MinHold: time.Second, MaxHold: 2 * time.Second, Behind: "p", BehindMax: 4 * time.Second})
		if err != nil {
			rt.Fatal(err)
		}
		var dones []func(do)
		told := map[EffectID]int{} // results and expiries by effect
		owners := []string{"a", "b", "c"}
		ref := func(name string) Ref[do] {
			spec := b.spec(name)
			spec.Runner, spec.Policy = run, ForPods
			if r, ok := Lookup[do](b.sys, name); ok {
				return r
			}
			return b.root(spec)
		}
		for _, o := range owners {
			ref(o)
		}
		check := func() {
			for _, o := range owners {
				lanes := map[string]int{}
				for _, e := range run.InFlight(o) {
					check.Fatal(rt, check.Is(e.Phase, law.phase[e.ID], "%+v was last seen %s", e, law.phase[e.ID]))
					if e.HoldsSlot != "" {
						check.Fatal(rt, check.Is(e.Phase, EffectStarted, "holds a slot: %+v", e))
					}
					if e.Phase == EffectStarted {
						if lanes[e.Lane]++; lanes[e.Lane] > 1 {
							rt.Fatal("two on lane", e.Lane)
						}
					}
				}
			}
			for _, k := range run.kept {
				if k.Phase != EffectFinished || k.HoldsSlot == "" {
					rt.Fatalf("keeps a slot: %+v", k.EffectInfo)
				}
			}
			check.Fatal(rt, run.check())
			for id, p := range law.phase {
				want := map[EffectPhase]int{EffectFinished: 1, EffectExpired: 1, EffectLate: 2}[p]
				if told[id] > want {
					rt.Fatalf("effect %d is %s and its owner was told %d times", id, p, told[id])
				}
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"do": func(rt *rapid.T) {
				e := Effect[do]{
					Kind: rapid.SampledFrom([]string{"x", "y"}).Draw(rt, "kind"), Lane: rapid.SampledFrom([]string{"1", "2"}).Draw(rt, "lane"),
					Pool: rapid.SampledFrom([]string{"", "p", "p", "q", "r"}).Draw(rt, "pool"), Rank: int64(rapid.IntRange(0, 2).Draw(rt, "rank")),
					Deadline: time.Duration(rapid.IntRange(1, 12).Draw(rt, "deadline")) * time.Second,
					Expired:  func(id EffectID) do { return func(*Context[do]) { told[id]++ } },
					Idles:    rapid.Bool().Draw(rt, "idles"),
				}
				if rapid.IntRange(0, 3).Draw(rt, "keeps") == 0 {
					e.Pool, e.Keeps = "", e.Pool
				}
				how := rapid.SampledFrom([]string{"async", "async", "async", "at once", "at once and panic", "panic", "never"}).Draw(rt, "how")
				latency := time.Duration(rapid.IntRange(0, 20).Draw(rt, "latency")) * time.Second
				e.Run = func(_ context.Context, id EffectID, done func(do)) {
					m := func(*Context[do]) { told[id]++ }
					switch how {
					case "async":
						b.AfterFunc(latency, func() { done(m) })
						dones = append(dones, func(do) { done(m) })
					case "at once":
						done(m)
					case "at once and panic":
						done(m)
						panic("after done")
					case "panic":
						panic("run")
					}
				}
				ref(rapid.SampledFrom(owners).Draw(rt, "owner")).Tell(func(ctx *Context[do]) { ctx.Do(e) })
			},
			"answer": func(rt *rapid.T) {
				if len(dones) > 0 {
					rapid.SampledFrom(dones).Draw(rt, "done")(nil)
				}
			},
			"crash": func(rt *rapid.T) { ref(rapid.SampledFrom(owners).Draw(rt, "owner")).Tell(boom("x")) },
			"stop":  func(rt *rapid.T) { StopRoot(ref(rapid.SampledFrom(owners).Draw(rt, "owner"))) },
			"cancel": func(rt *rapid.T) {
				id := EffectID(rapid.IntRange(1, len(law.phase)+1).Draw(rt, "id"))
				ref(rapid.SampledFrom(owners).Draw(rt, "owner")).Tell(func(ctx *Context[do]) { ctx.Cancel(id) })
			},
			"step": func(rt *rapid.T) { b.Step() },
			"pass": func(rt *rapid.T) {
				b.Advance(time.Duration(rapid.IntRange(0, 5000).Draw(rt, "ms")) * time.Millisecond)
			},
			"": func(*rapid.T) { check() },
		})
		// Once all deadlines are over, everything has ended, and has ended once.
		b.Advance(time.Hour)
		check()
		sum := map[EffectPhase]uint64{}
		for id, p := range law.phase {
			sum[p]++
			if p == EffectQueued || p == EffectStarted {
				rt.Fatalf("effect %d is %s for ever", id, p)
			}
		}
		var n KindCount
		for _, k := range run.Counts() {
			n.Finished += k.Finished
			n.Expired += k.Expired
			n.Late += k.Late
			n.Dropped += k.Dropped
		}
		if n.Finished != sum[EffectFinished] || n.Expired != sum[EffectExpired]+sum[EffectLate] || n.Late != sum[EffectLate] || n.Dropped != sum[EffectDropped] {
			rt.Fatalf("counts %+v, seen %v", n, sum)
		}
		for _, p := range run.Pools() {
			if p.Held != 0 || p.Waiting != 0 {
				rt.Fatalf("leaked: %+v", p)
			}
		}
		if fmt.Sprint(law.on) != "map[]" {
			rt.Fatal("lanes are left", law.on)
		}
		law.closed = true
		run.Close()
		check()
		b.Advance(time.Hour) // what is left of supervision, so that bad ends show
	})
}
