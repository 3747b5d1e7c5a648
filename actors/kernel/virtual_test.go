package kernel

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/tests/check"
)

func TestVirtualTimersFireInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := NewVirtual(1, start)
		type timer struct {
			at  time.Time
			n   int
			off func() bool
		}
		var set []timer
		var fired []int
		for i := range rapid.IntRange(1, 50).Draw(t, "n") {
			d := time.Duration(rapid.IntRange(-1, 5).Draw(t, "d")) * time.Second
			set = append(set, timer{start.Add(max(d, 0)), i, v.AfterFunc(d, func() {
				if want := start.Add(max(d, 0)); !v.Now().Equal(want) {
					t.Fatalf("fired at %s, want %s", v.Now(), want)
				}
				fired = append(fired, i)
			})})
		}
		gone := map[int]bool{}
		for _, i := range rapid.SliceOfDistinct(rapid.IntRange(0, len(set)-1), rapid.ID[int]).Draw(t, "cancelled") {
			if !set[i].off() || set[i].off() {
				t.Fatal("cancel")
			}
			gone[i] = true
		}
		v.Advance(3 * time.Second)
		if !v.Now().Equal(start.Add(3 * time.Second)) {
			t.Fatal(v.Now())
		}
		last := -1
		for _, i := range fired {
			if gone[i] || set[i].at.After(v.Now()) {
				t.Fatal("fired:", i)
			}
			if last >= 0 && (set[i].at.Before(set[last].at) || set[i].at.Equal(set[last].at) && i < last) {
				t.Fatalf("%d before %d", last, i)
			}
			last = i
		}
		due := 0
		for _, s := range set {
			if !gone[s.n] && !s.at.After(v.Now()) {
				due++
			}
		}
		check.Fatal(t, check.Is(due, len(fired), "%d fired, %d were due", len(fired), due))
	})
}

func TestRunUntilStopsAtTheFirstMoment(t *testing.T) {
	b := newBench(t)
	r := b.root(b.spec("a"))
	var tick do
	n := 0
	tick = func(ctx *Context[do]) { n++; ctx.After(time.Second, tick) }
	r.Tell(tick)
	if !b.RunUntil(start.Add(time.Hour), func() bool { return n == 3 }) || !b.Now().Equal(start.Add(2*time.Second)) {
		t.Error(n, b.Now())
	}
	if b.RunUntil(start.Add(10*time.Second), func() bool { return false }) || !b.Now().Equal(start.Add(10*time.Second)) {
		t.Error(b.Now())
	}
}

func TestLivelockIsSeen(t *testing.T) {
	b := newBench(t)
	r := b.root(b.spec("a"))
	r.Tell(func(*Context[do]) {})
	b.steps = b.moved + livelock
	defer func() {
		check.Has(t, fmt.Sprint(recover()), "the next to a", "it")
	}()
	b.Settle()
}

func TestLogNamesTheActor(t *testing.T) {
	var out bytes.Buffer
	b := newBench(t, func(c *Config) { c.Log = zerolog.New(&out) })
	r := b.root(b.spec("a"))
	r.Tell(func(ctx *Context[do]) { ctx.Log().Info().Msg("hello") })
	r.Tell(boom("oh"))
	b.Settle()
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 || lines[0] != `{"level":"info","actor":"a","message":"hello"}` {
		t.Errorf("%q", lines)
	}
	if !strings.Contains(lines[1], `"decision":"restart"`) || !strings.Contains(lines[1], `"panic":"oh"`) {
		t.Error(lines[1])
	}
	silent := newBench(t)
	r = silent.root(silent.spec("a"))
	r.Tell(func(ctx *Context[do]) {
		if n := testing.AllocsPerRun(100, func() { ctx.Log().Info().Msg("x") }); n != 0 {
			t.Error("a silent log allocates", n)
		}
	})
	silent.Settle()
}
