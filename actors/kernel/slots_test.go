package kernel

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
)

func pooled(rank int64) func(*Effect[do]) {
	return func(e *Effect[do]) { e.Pool, e.Rank = "start", rank }
}

func (c *calls) held(t *testing.T, held, waiting int) {
	t.Helper()
	if p := c.run.Pools()[0]; p.Held != held || p.Waiting != waiting {
		t.Errorf("%d held and %d waiting, want %d and %d", p.Held, p.Waiting, held, waiting)
	}
}

var starts = Pool{Name: "start", Size: 2, MinHold: 10 * time.Second, MaxHold: 30 * time.Second}

func TestSlotsGoByRankThenAge(t *testing.T) {
	c := newCalls(t, starts)
	r := c.root("a")
	c.b.took()
	for i, rank := range []int64{5, 5, 5, 3, 5, 3} {
		c.do(r, c.effect(fmt.Sprint(i), fmt.Sprint(i), pooled(rank)))
	}
	c.do(r, c.effect("no slot", "z"))
	equal(t, "first", c.b.took(), []string{"0 runs", "1 runs", "no slot runs"})
	c.held(t, 2, 4)
	for _, next := range []string{"3", "5", "2", "4"} {
		for o, l := range c.live {
			if l != nil && o != "no slot" {
				c.answer(o)
				c.live[o] = nil
				break
			}
		}
		if got := c.b.took(); !strings.HasSuffix(strings.Join(got, " "), next+" runs") {
			t.Errorf("%q, want %s", got, next)
		}
	}
	c.held(t, 2, 0)
}

// TestFairSlots: of a fair pool the next slot is for the pod that holds the fewest, whoever asked first; a pod that gave
// its slots back, or whose effects were cancelled, has none.
func TestFairSlots(t *testing.T) {
	c := newCalls(t, Pool{Name: "start", Size: 3, MinHold: time.Minute, MaxHold: time.Minute, Unkept: true, Fair: true})
	r := c.root("a")
	of := func(pod string) func(*Effect[do]) {
		return func(e *Effect[do]) { e.Pool, e.For = "start", pod }
	}
	c.b.took()
	for _, name := range strings.Fields("g1 g2 g3 g4 g5 p1 g6 p2 q1") {
		c.do(r, c.effect(name, name, of(name[:1])))
	}
	equal(t, "first", c.b.took(), []string{"g1 runs", "g2 runs", "g3 runs"})
	for _, step := range [][2]string{{"g1", "p1"}, {"g2", "q1"}, {"g3", "g4"}, {"p1", "p2"}, {"p2", "g5"}, {"q1", "g6"}} {
		c.answer(step[0])
		equal(t, "after "+step[0], c.b.took(), []string{step[1] + " runs", step[0] + " done"})
	}
	for _, name := range strings.Fields("g4 g5 g6") {
		c.answer(name)
	}
	check.Equal(t, len(c.run.pools["start"].shares), 0, "pods that are kept")
}

// TestFairSlotsAmongMany: as many greedy pods as there are slots take turns, and a pod that comes later has its turn
// before any of them has another.
func TestFairSlotsAmongMany(t *testing.T) {
	c := newCalls(t, Pool{Name: "start", Size: 2, MinHold: time.Minute, MaxHold: time.Minute, Unkept: true, Fair: true})
	r := c.root("a")
	c.b.took()
	for _, name := range strings.Fields("g1 h1 g2 g3 g4 h2 h3 h4 p1") {
		c.do(r, c.effect(name, name, func(e *Effect[do]) { e.Pool, e.For = "start", name[:1] }))
	}
	equal(t, "first", c.b.took(), []string{"g1 runs", "h1 runs"})
	for _, step := range [][2]string{{"g1", "p1"}, {"h1", "g2"}, {"p1", "h2"}, {"g2", "g3"}, {"g3", "g4"}, {"h2", "h3"}} {
		c.answer(step[0])
		equal(t, "after "+step[0], c.b.took(), []string{step[1] + " runs", step[0] + " done"})
	}
}

// An effect says whether it began at once, or had to wait for a slot, or only for an earlier one of its owner.
func TestWaitedFor(t *testing.T) {
	c := newCalls(t, Pool{Name: "start", Size: 1, MinHold: time.Second, MaxHold: time.Second})
	r := c.root("a")
	waited := map[string]string{}
	look := func() {
		for _, e := range c.run.InFlight("a") {
			if e.Phase == EffectStarted {
				waited[e.Object] = e.WaitedFor
			}
		}
	}
	c.do(r, c.effect("first", "x", pooled(0)), c.effect("slot", "y", pooled(0)), c.effect("free", "z"), c.effect("lane", "z"),
		c.effect("both", "x", pooled(0)))
	look()
	for _, next := range []string{"first", "free", "slot", "lane", "both"} {
		c.answer(next)
		look()
	}
	want := map[string]string{"first": "", "slot": "start", "free": "", "lane": WaitedForLane, "both": "start"}
	check.Equal(t, fmt.Sprint(waited), fmt.Sprint(want), "they waited for %v, want %v", waited, want)
}

// The next on a lane does not jump the queue for the slot that its predecessor held.
func TestLaneDoesNotKeepItsSlot(t *testing.T) {
	c := newCalls(t, Pool{Name: "start", Size: 1, MinHold: time.Second, MaxHold: time.Second})
	r := c.root("a")
	c.do(r, c.effect("1", "x", pooled(1)), c.effect("2", "x", pooled(2)), c.effect("other", "y", pooled(2)))
	c.b.took()
	c.answer("1")
	equal(t, "next", c.b.took(), []string{"1 done", "other runs"})
	c.held(t, 1, 1)
}

// What an owner asks for on a result goes on with the slot of what gave it, and
// is not overtaken by what others want to begin.
func TestSlotGoesOnWithItsOwner(t *testing.T) {
	c := newCalls(t, Pool{Name: "start", Size: 1, MinHold: time.Second, MaxHold: time.Second})
	a, b := c.root("a"), c.root("b")
	first := c.effect("sandbox", "x", pooled(2))
	run := first.Run
	first.Run = func(ctx context.Context, id EffectID, done func(do)) {
		run(ctx, id, func(do) {
			done(func(ctx *Context[do]) { ctx.Do(c.effect("container", "y", pooled(2))) })
		})
	}
	c.do(a, first)
	c.do(b, c.effect("other", "z", pooled(1)))
	c.b.took()
	c.live["sandbox"].done(nil)
	c.b.Settle()
	equal(t, "next", c.b.took(), []string{"container runs"})
	c.held(t, 1, 1)
	c.answer("container")
	equal(t, "at the end", c.b.took(), []string{"container done", "other runs"})
}

// Of an unkept pool, the slot is free before the owner has the result.
func TestUnkeptSlotGoesToTheNext(t *testing.T) {
	c := newCalls(t, Pool{Name: "start", Size: 1, MinHold: time.Second, MaxHold: time.Second, Unkept: true})
	r := c.root("a")
	c.do(r, c.effect("1", "x", pooled(1)), c.effect("2", "y", pooled(2)))
	c.b.took()
	c.live["1"].done(c.b.say("1 done"))
	equal(t, "before the result is handled", c.b.took(), []string{"2 runs"})
	c.held(t, 1, 0)
	c.b.Settle()
	equal(t, "then", c.b.took(), []string{"1 done"})
	c.answer("2")
	c.held(t, 0, 0)
}

func TestSlotIsGivenBack(t *testing.T) {
	c := newCalls(t, starts)
	r := c.root("a")
	for i := range 4 {
		c.do(r, c.effect(fmt.Sprint(i), fmt.Sprint(i), pooled(0)))
	}
	c.b.took()
	c.b.Advance(10*time.Second - 1)
	equal(t, "before", c.b.took(), nil)
	c.b.Advance(1)
	equal(t, "after MinHold", c.b.took(), []string{"2 runs", "3 runs"})
	c.held(t, 2, 0)
	for i := range 4 {
		c.answer(fmt.Sprint(i))
	}
	c.held(t, 0, 0)
	c.answer("3") // done twice
	c.held(t, 0, 0)
	if n := c.run.Counts()["Call"]; n.Finished != 4 || n.Late != 0 {
		t.Errorf("%+v", n)
	}
}

// Three times the usual, within bounds; and what is usual follows the machine.
func TestHoldFollowsTheUsualTime(t *testing.T) {
	p := &slots{Pool: starts}
	var now time.Time
	k := &effect{EffectInfo: EffectInfo{Kind: "k"}}
	holds := func(d time.Duration, what string) {
		t.Helper()
		check.Equal(t, p.hold(k), d, "%s: holds for", what)
	}
	holds(10*time.Second, "before the first")
	p.learn(k, now.Add(5*time.Second))
	holds(15*time.Second, "after the first")
	for range 100 {
		p.learn(k, now.Add(20*time.Second))
	}
	holds(30*time.Second, "all have become slower than their hold")
	for range 100 {
		p.learn(k, now.Add(time.Millisecond))
	}
	holds(10*time.Second, "all are fast")
	p.learn(&effect{EffectInfo: EffectInfo{Kind: "hung"}}, now.Add(time.Hour))
	if u := p.paces.At("hung").usual; u != 10*time.Second {
		t.Error("one hung call is now usual:", u)
	}
}

// While none that began later has ended, a slow call keeps its slot: the machine
// may be slow. One that others overtook does not.
func TestSlowCallsKeepTheirSlots(t *testing.T) {
	pool := starts
	pool.SlowHold = 25 * time.Second
	c := newCalls(t, pool)
	r := c.root("a")
	do := func(object string) { c.do(r, c.effect(object, object, pooled(0))) }
	do("1")
	c.b.Advance(time.Second)
	for _, object := range []string{"2", "3", "4", "5"} {
		do(object)
	}
	c.b.took()
	c.b.Advance(20 * time.Second)
	equal(t, "all are slow", c.b.took(), nil)
	c.answer("1")
	equal(t, "the oldest ends", c.b.took(), []string{"1 done", "3 runs"})
	c.b.Advance(3 * time.Second)
	equal(t, "before SlowHold", c.b.took(), nil)
	c.b.Advance(2 * time.Second)
	equal(t, "after SlowHold", c.b.took(), []string{"4 runs"}) // 2 has had its time
	c.answer("4")
	equal(t, "3 is overtaken", c.b.took(), []string{"4 done", "5 runs"})
	c.held(t, 2, 0)
}

// Of calls that wait for something, the more outlive their slots the sooner the
// next are begun; one that ends in time makes that undone.
func TestIdleCallsGiveUpTheirSlots(t *testing.T) {
	pool := starts
	pool.SlowHold = 25 * time.Second
	c := newCalls(t, pool)
	r := c.root("a")
	idle := func(object string) {
		c.do(r, c.effect(object, object, pooled(0), func(e *Effect[do]) { e.Idles = true }))
	}
	for i := range 40 {
		idle(fmt.Sprint(i))
	}
	for _, after := range []struct {
		time.Duration
		begun int
	}{{10*time.Second - 1, 2}, {1, 4}, {5 * time.Second, 5}, {20 * time.Second, 40}} {
		if c.b.Advance(after.Duration); len(c.live) != after.begun {
			t.Errorf("%d begun after %v more, want %d", len(c.live), after.Duration, after.begun)
		}
	}
	c.b.Advance(time.Second)
	c.held(t, 0, 0)
	idle("in time")
	c.answer("in time")
	for _, object := range []string{"x", "y", "z"} {
		idle(object)
	}
	c.b.Advance(10*time.Second - 1)
	c.held(t, 2, 1)
	c.b.Advance(1)
	c.held(t, 1, 0)

	// One that ends after its slot was taken, but in less time than calls have where
	// none idles, was at work.
	for i := range 40 {
		idle(fmt.Sprint("again ", i))
	}
	c.b.Advance(time.Minute)
	idle("at work")
	c.b.Advance(5 * time.Second)
	c.held(t, 0, 0)
	c.answer("at work")
	idle("next")
	c.b.Advance(10*time.Second - 1)
	c.held(t, 1, 0)
}

// One that may not wait long for a slot goes on without.
func TestWaitsForASlotNoLonger(t *testing.T) {
	c := newCalls(t, Pool{Name: "start", Size: 1, MinHold: time.Minute, MaxHold: time.Minute})
	r := c.root("a")
	c.b.took()
	bound := func(e *Effect[do]) { e.MaxQueue = 10 * time.Second }
	c.do(r, c.effect("holds", "x", pooled(0)), c.effect("1", "y", pooled(2), bound), c.effect("2", "y", pooled(2), bound), c.effect("3", "z", pooled(1), bound))
	equal(t, "first", c.b.took(), []string{"holds runs"})
	c.b.Advance(9 * time.Second)
	c.answer("holds")
	equal(t, "by rank", c.b.took(), []string{"holds done", "3 runs"})
	c.b.Advance(time.Second)
	equal(t, "then it has waited", c.b.took(), []string{"1 runs"})
	c.held(t, 1, 0)
	c.b.Advance(5 * time.Second)
	c.answer("1")
	equal(t, "the next on its lane waits anew", c.b.took(), []string{"1 done"})
	c.held(t, 1, 1)
	c.answer("3")
	equal(t, "and gets a slot in time", c.b.took(), []string{"3 done", "2 runs"})
	c.b.Advance(20 * time.Second)
	c.held(t, 1, 0)
	c.answer("2")
	c.held(t, 0, 0)
}

// A step that needs no slot goes on with the one that its owner has, so that the
// step after it has it too; without one it just runs.
func TestStepKeepsTheSlot(t *testing.T) {
	c := newCalls(t, Pool{Name: "start", Size: 1, MinHold: time.Second, MaxHold: time.Second})
	a, b := c.root("a"), c.root("b")
	keeps := func(e *Effect[do]) { e.Keeps = "start" }
	next := func(e Effect[do], then Effect[do]) Effect[do] {
		run := e.Run
		e.Run = func(ctx context.Context, id EffectID, done func(do)) {
			run(ctx, id, func(do) { done(func(ctx *Context[do]) { ctx.Do(then) }) })
		}
		return e
	}
	last := c.effect("sandbox stops", "z", pooled(2))
	c.b.took()
	c.do(a, next(c.effect("container stops", "x", pooled(2)), next(c.effect("look", "y", keeps), last)))
	c.do(b, c.effect("other", "z", pooled(1)), c.effect("other look", "y", keeps))
	equal(t, "first", c.b.took(), []string{"container stops runs", "other look runs"})
	c.answer("other look")
	c.answer("container stops")
	c.held(t, 1, 1)
	c.answer("look")
	c.held(t, 1, 1)
	equal(t, "then", c.b.took(), []string{"other look done", "look runs", "sandbox stops runs"})
	c.answer("sandbox stops")
	equal(t, "at the end", c.b.took(), []string{"sandbox stops done", "other runs"})
	c.answer("other")
	c.held(t, 0, 0)
}

// TestPoolBehindAnother: what is in no hurry begins when none of the others is at work, or when it has
// waited long enough.
func TestPoolBehindAnother(t *testing.T) {
	looks := Pool{Name: "look", Size: 1, MinHold: time.Minute, MaxHold: time.Minute, Behind: "start", BehindMax: 3 * time.Second}
	c := newCalls(t, starts, looks)
	r, o := c.root("a"), c.root("b")
	look := func(e *Effect[do]) { e.Pool = "look" }
	c.b.took()
	c.do(r, c.effect("look 1", "1", look), c.effect("start 1", "2", pooled(1)), c.effect("look 2", "3", look), c.effect("look 3", "4", look))
	equal(t, "first", c.b.took(), []string{"look 1 runs", "start 1 runs"})
	c.answer("look 1")
	equal(t, "while it starts", c.b.took(), []string{"look 1 done"})
	c.do(o, c.effect("start 2", "1", pooled(2)))
	c.answer("start 1")
	equal(t, "while the other starts", c.b.took(), []string{"start 2 runs", "start 1 done"})
	c.answer("start 2")
	equal(t, "then", c.b.took(), []string{"start 2 done", "look 2 runs"})
	c.do(o, c.effect("start 3", "1", pooled(2)))
	c.answer("look 2")
	c.do(o, c.effect("look 4", "2", look))
	c.b.took()
	c.b.Advance(2900 * time.Millisecond)
	equal(t, "not yet", c.b.took(), nil)
	c.b.Advance(200 * time.Millisecond)
	equal(t, "after 3 s", c.b.took(), []string{"look 3 runs"})
	c.answer("look 3")
	equal(t, "the next, which has waited as long", c.b.took(), []string{"look 3 done", "look 4 runs"})
	c.answer("look 4")
	c.answer("start 3")
	for _, p := range c.run.Pools() {
		check.AtMost(t, p.Held+p.Waiting, 0, "left: %+v", p)
	}
	for name, bad := range map[string]Pool{
		"nothing to be behind": {Name: "x", Size: 1, MinHold: 1, MaxHold: 1, Behind: "y", BehindMax: 1},
		"itself":               {Name: "x", Size: 1, MinHold: 1, MaxHold: 1, Behind: "x", BehindMax: 1},
		"for ever":             {Name: "x", Size: 1, MinHold: 1, MaxHold: 1, Behind: "start"},
	} {
		check.Fails(t, check.Err(NewRunner(c.b.sys, starts, bad)), "%s: no error", name)
	}
}
