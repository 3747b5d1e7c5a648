package backoff

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/tests/check"
)

func kubelet() Policy {
	return Policy{Base: 10 * time.Second, Max: 300 * time.Second, Reset: 10 * time.Minute}
}

func TestNext(t *testing.T) {
	const s, m = time.Second, time.Minute
	for name, c := range map[string]struct {
		prev    *Crash
		attempt uint32
		ran     time.Duration
		want    Crash
	}{
		"first":                             {nil, 0, s, Crash{0, 0, false, false, false}},
		"second":                            {&Crash{0, 0, false, false, false}, 1, s, Crash{1, 10 * s, false, false, false}},
		"third":                             {&Crash{1, 10 * s, true, false, false}, 2, s, Crash{2, 20 * s, false, false, false}},
		"up to the most":                    {&Crash{5, 160 * s, true, false, false}, 6, s, Crash{6, 300 * s, false, false, false}},
		"at the most":                       {&Crash{6, 300 * s, true, false, false}, 7, s, Crash{7, 300 * s, false, false, false}},
		"ran nearly long enough":            {&Crash{6, 300 * s, true, false, false}, 7, 10*m - 1, Crash{7, 300 * s, false, false, false}},
		"ran long enough":                   {&Crash{6, 300 * s, true, false, false}, 7, 10 * m, Crash{7, 0, false, false, false}},
		"the same twice":                    {&Crash{6, 300 * s, true, false, false}, 6, 10 * m, Crash{6, 300 * s, true, false, false}},
		"no memory, second":                 {nil, 1, s, Crash{1, 10 * s, false, false, false}},
		"no memory, fifth":                  {nil, 4, s, Crash{4, 80 * s, false, false, false}},
		"no memory, millionth":              {nil, 1e6, s, Crash{1e6, 300 * s, false, false, false}},
		"no memory, highest":                {nil, 1<<32 - 1, s, Crash{1<<32 - 1, 300 * s, false, false, false}},
		"no memory, but it ran long enough": {nil, 100, 10 * m, Crash{100, 0, false, false, false}},
	} {
		check.Equal(t, kubelet().Next(c.prev, c.attempt, c.ran), c.want, "%s", name)
	}
}

func TestRetry(t *testing.T) {
	p := Policy{Base: time.Second, Max: 5 * time.Second}
	for count, want := range []time.Duration{0, 1, 2, 4, 5, 5} {
		check.Equal(t, Retry(p, count), want*time.Second, "after %d failures", count)
	}
	check.Equal(t, Retry(p, -1), 0, "after -1 failures")
	check.Equal(t, Retry(Policy{Base: time.Hour, Max: time.Minute}, 3), time.Minute, "a base above the most")
	check.Equal(t, Retry(Policy{}, 3), 0, "the zero policy waits")
}

// TestLoop: a crash loop waits longer each time and at most Max; a long run
// begins anew; without memory it never waits less than with it, if it crashed
// from the beginning.
func TestLoop(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Policy{
			Base:  time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "base")),
			Max:   time.Duration(rapid.Int64Range(0, 1<<62).Draw(t, "max")),
			Reset: time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "reset")),
		}
		var prev *Crash
		last, looping := time.Duration(0), true
		for attempt := range uint32(rapid.IntRange(1, 100).Draw(t, "crashes")) {
			ran := time.Duration(rapid.Int64Range(0, 2*int64(p.Reset)).Draw(t, "ran"))
			c := p.Next(prev, attempt, ran)
			if c.Attempt != attempt || c.Noted {
				t.Fatalf("crash of attempt %d: %+v", attempt, c)
			}
			if again := p.Next(&c, attempt, 0); again != c {
				t.Fatalf("counted twice: %+v, then %+v", c, again)
			}
			if c.Delay < 0 || c.Delay > p.Max {
				t.Fatalf("delay %v is not between 0 and %v", c.Delay, p.Max)
			}
			if ran >= p.Reset {
				looping = false
				check.Fatal(t, check.Is(c.Delay, 0, "ran %v ≥ %v, and yet waits", ran, p.Reset))
			} else if c.Delay < last {
				t.Fatalf("delay fell from %v to %v", last, c.Delay)
			}
			if lost := p.Next(nil, attempt, ran); looping && lost.Delay < c.Delay {
				t.Fatalf("without memory attempt %d waits %v, with it %v", attempt, lost.Delay, c.Delay)
			}
			last, prev = c.Delay, &c
		}
	})
}

// TestFailures: they count, the next try waits longer each time, and nothing has failed after a success.
func TestFailures(t *testing.T) {
	p, now := Policy{Base: time.Second, Max: 3 * time.Second}, time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	var f Failures
	check.Equal(t, f.RetryAt(p), time.Time{}, "without a failure")
	for i, want := range []time.Duration{time.Second, 2 * time.Second, 3 * time.Second} {
		now = now.Add(time.Hour)
		f = f.Failed(now, fmt.Sprint("no ", i))
		check.Equal(t, f, Failures{Count: i + 1, At: now, Message: fmt.Sprint("no ", i)}, "failures")
		check.Equal(t, f.RetryAt(p).Sub(now), want, "wait after %d", f.Count)
	}
	if f.At = (time.Time{}); f.RetryAt(p).After(now) {
		t.Errorf("without its time it waits until %v", f.RetryAt(p))
	}
}
