package kernel

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/tests/check"
)

// following is the spec of a lab that writes down each value that it receives.
func (b *bench) following(name string, of ...*Published[int]) Spec[do] {
	spec := b.spec(name)
	for i, p := range of {
		spec.Follows = append(spec.Follows, Follow(p, func(n int) do { return b.say(fmt.Sprintf("%s gets %d.%d", name, i, n)) }))
	}
	return spec
}

func publish(p *Published[int], v int) do { return func(*Context[do]) { p.Publish(v) } }

// inOrder are the lines of each actor, in their order: which actor comes first is up to the scheduler.
func inOrder(log []string) []string {
	slices.SortStableFunc(log, func(a, b string) int { return cmp.Compare(strings.Fields(a)[0], strings.Fields(b)[0]) })
	return log
}

// TestPublished: those that follow a value receive it, also if they start later or again, and of changes that wait only
// the newest.
func TestPublished(t *testing.T) {
	b := newBench(t)
	var p, q Published[int]
	owner := b.root(b.spec("owner"))
	one, other := b.root(b.following("one", &p, &q)), b.root(b.following("other", &p))
	b.took()
	b.Settle()
	equal(t, "before the first value", b.took(), nil)
	owner.Tell(publish(&p, 1))
	b.Settle()
	equal(t, "the first value", inOrder(b.took()), []string{"one gets 0.1", "other gets 0.1"})
	b.root(b.following("late", &p))
	equal(t, "a late follower", b.took(), []string{"late start 1", "late gets 0.1"})
	owner.Tell(func(*Context[do]) {
		p.Publish(2)
		q.Publish(5)
		p.Publish(3)
	})
	b.Settle()
	equal(t, "several at once", inOrder(b.took()), []string{"late gets 0.3", "one gets 0.3", "one gets 1.5", "other gets 0.3"})
	for _, r := range []Ref[do]{one, other} {
		r.Tell(boom("oh"))
	}
	b.RunUntil(start.Add(time.Minute), func() bool { return false })
	equal(t, "after a restart", inOrder(b.took()), []string{"one start 2", "one gets 0.3", "one gets 1.5", "other start 2", "other gets 0.3"})
}

// TestPublishedToFullMailbox: a full mailbox loses no value, and a stopped follower is no matter.
func TestPublishedToFullMailbox(t *testing.T) {
	b := newBench(t)
	var p Published[int]
	spec := b.following("full", &p)
	spec.MailboxLimit = 1
	full, owner := b.root(spec), b.root(b.spec("owner"))
	b.took()
	owner.Tell(func(*Context[do]) {
		full.Tell(b.say("hello"))
		full.Tell(b.say("is dropped"))
		p.Publish(1)
	})
	b.Settle()
	equal(t, "full", b.took(), []string{"full overflowed", "hello", "full gets 0.1"})
	StopRoot(full)
	owner.Tell(publish(&p, 2))
	b.Settle()
	equal(t, "stopped", b.took(), []string{"full stop"})
	check.Equal(t, b.sys.DeadLetters(), uint64(0), "%d dead letters", b.sys.DeadLetters())
}

// TestPublishedOfAnEarlierTree: news that are on their way while owner and follower are made anew, with a value of their
// own, are not for the new follower.
func TestPublishedOfAnEarlierTree(t *testing.T) {
	b := newBench(t, func(c *Config) { c.Intercept = func(_, _ string, _ any) Fate { return Fate{Delay: time.Second} } })
	var p *Published[int]
	root := b.root(b.spec("root", func(l *lab) {
		l.onStart = func(ctx *Context[do]) {
			p = &Published[int]{}
			check.Value(Spawn(ctx, b.spec("owner")))(t)
			check.Value(Spawn(ctx, b.following("one", p)))(t)
		}
	}))
	owner, _ := Lookup[do](b.sys, "root/owner")
	owner.Tell(publish(p, 1))
	b.Settle()
	root.Tell(boom("oh"))
	b.Advance(500 * time.Millisecond)
	b.took()
	b.Advance(time.Minute)
	equal(t, "of the earlier tree", b.took(), nil)
	owner.Tell(publish(p, 2))
	b.Advance(time.Minute)
	equal(t, "of the new one", b.took(), []string{"one gets 0.2"})
}

// TestPublishedAmongFaults: whatever becomes of messages, and whoever crashes, each follower has the newest value in the
// end, and none goes back.
func TestPublishedAmongFaults(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var fate Fate
		b := newBench(t, func(c *Config) { c.Intercept = func(_, _ string, _ any) Fate { return fate } })
		var p Published[int]
		owner := b.root(b.spec("owner"))
		names := []string{"a", "b"}
		refs := map[string]Ref[do]{}
		for _, name := range names {
			spec := b.following(name, &p)
			spec.Policy = ForPods
			refs[name] = b.root(spec)
		}
		b.took()
		n := rapid.IntRange(1, 20).Draw(rt, "n")
		for i := 1; i <= n; i++ {
			f := Fate{Twice: rapid.Bool().Draw(rt, "twice"), Drop: rapid.Bool().Draw(rt, "drop")}
			f.Delay = time.Duration(rapid.SampledFrom([]int{0, 50, 1000}).Draw(rt, "delay")) * time.Millisecond
			owner.Tell(func(*Context[do]) {
				fate = f
				p.Publish(i)
			})
			if who := rapid.SampledFrom([]string{"", "", "a", "b"}).Draw(rt, "crash"); who != "" {
				refs[who].Tell(boom("oh"))
			}
			b.Advance(time.Duration(rapid.SampledFrom([]int{0, 0, 50, 3000}).Draw(rt, "pause")) * time.Millisecond)
		}
		b.Advance(time.Hour)
		log := b.took()
		for _, name := range names {
			last := 0
			for _, line := range log {
				if after, is := strings.CutPrefix(line, name+" gets 0."); is {
					var now int
					check.Fatal(rt, check.Err(fmt.Sscan(after, &now)))
					if now < last {
						rt.Fatalf("%s went back from %d to %d: %v", name, last, now, log)
					}
					last = now
				}
			}
			check.Equal(rt, last, n, "%s has %d in the end, want %d: %v", name, last, n, log)
		}
	})
}

// TestPublishedOnTheWallClock is for the race detector: one actor publishes while those that follow crash and start
// again. None goes back, and all have the newest value in the end.
func TestPublishedOnTheWallClock(t *testing.T) {
	const last, readers = 2000, 4
	sys := wallSystem(t)
	var p Published[int]
	ended := make(chan struct{}, readers)
	policy := Policy{Base: time.Millisecond, Max: time.Millisecond, Restarts: 1, Window: time.Second, Beyond: Quarantine, Retry: time.Millisecond}
	for i := range readers {
		have := 0 // survives its crashes
		hear := func(n int) do {
			return func(*Context[do]) {
				if n < have {
					t.Errorf("reader %d went back from %d to %d", i, have, n)
				}
				was := have
				switch have = n; {
				case n == last && was != last:
					ended <- struct{}{}
				case n%7 == 0:
					panic("on order")
				}
			}
		}
		check.Value(SpawnRoot(sys, Spec[do]{
			Name: fmt.Sprint("reader", i), Policy: policy, Follows: []Subscription[do]{Follow(&p, hear)},
			New: func() Behavior[do] { return &lab{} },
		}))(t)
	}
	owner := check.Value(SpawnRoot(sys, Spec[do]{Name: "owner", New: func() Behavior[do] { return &lab{} }}))(t)
	for n := range last + 1 {
		owner.Tell(publish(&p, n))
	}
	for range readers {
		check.Receive(t, ended)
	}
	check.Fatal(t, sys.Shutdown(t.Context()))
}
