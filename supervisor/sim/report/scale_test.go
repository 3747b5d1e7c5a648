package report

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/tests/check"
)

// onAxis checks what holds for the marks of any axis.
func onAxis(t *rapid.T, ticks []tick, most int) {
	if len(ticks) < 1 || len(ticks) > most {
		t.Fatalf("%d marks, want 1 to %d", len(ticks), most)
	}
	seen := map[string]bool{}
	for i, k := range ticks {
		if k.At < 0 || k.At > 100 || k.Text == "" || seen[k.Text] {
			t.Fatalf("mark %q at %v %%: out of the axis, empty or twice", k.Text, k.At)
		}
		if i > 0 && (k.At > ticks[i-1].At) != (ticks[1].At > ticks[0].At) {
			t.Fatalf("mark %q at %v %% is out of order", k.Text, k.At)
		}
		seen[k.Text] = true
	}
}

func TestTimeTicks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		end := time.Duration(rapid.Int64Range(1, int64(longest)).Draw(t, "end")) >> rapid.IntRange(0, 50).Draw(t, "shift")
		onAxis(t, timeTicks(max(end, 1), axisTime), 9)
	})
	if timeTicks(0, axisTime) != nil {
		t.Error("an axis without length has marks")
	}
}

func TestCountTicks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.Float64Range(0, 1e12).Draw(t, "most") / float64(int64(1)<<rapid.IntRange(0, 40).Draw(t, "shift"))
		top, ticks := countTicks(most)
		onAxis(t, ticks, 7)
		if top < most-0.001 || (most > 5 && top > 2*most) {
			t.Fatalf("the axis ends at %v, and the most is %v", top, most)
		}
	})
	if top, _ := countTicks(30000.000000004); top != 30000 {
		t.Errorf("an error of rounding moved the end of the axis to %v", top)
	}
}

func TestLatencyAxis(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := axis{log: rapid.Bool().Draw(t, "log")}
		a.from = time.Duration(rapid.Int64Range(int64(time.Millisecond), int64(time.Hour)).Draw(t, "from"))
		a.to = a.from * time.Duration(rapid.IntRange(8, 100000).Draw(t, "times"))
		if !a.log {
			a.from = 0
		}
		d := time.Duration(rapid.Int64Range(0, 2*int64(a.to)).Draw(t, "d"))
		e := d + time.Duration(rapid.Int64Range(0, int64(a.to)).Draw(t, "more"))
		if a.at(d) < 0 || a.at(e) > 100 || a.at(d) > a.at(e) {
			t.Fatalf("%v is at %v %%, %v at %v %% of %+v", d, a.at(d), e, a.at(e), a)
		}
		onAxis(t, a.ticks(), 16)
	})
	a := axis{true, time.Second, 100 * time.Second}
	check.Count(t, a.at(10*time.Second), 50, "10 s is at %v %% of a logarithmic axis from 1 s to 100 s")
}
