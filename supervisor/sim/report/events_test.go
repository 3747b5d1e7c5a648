package report

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestFlagsDoNotOverlap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := Data{Duration: time.Hour}
		when := rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.Int64Range(0, int64(d.Duration)).Draw(t, "at"))
		})
		for range rapid.IntRange(0, 120).Draw(t, "marks") {
			d.Marks = append(d.Marks, Mark{At: when.Draw(t, "at"), Until: d.Duration, Kind: MarkKind(rapid.IntRange(0, 1).Draw(t, "kind")), Text: "x"})
		}
		for range rapid.IntRange(0, 3).Draw(t, "failures") {
			d.Failures = append(d.Failures, Failure{At: when.Draw(t, "at")})
		}
		all := events(&d)
		put, lanes := flags(all, d.Duration)
		if lanes > maxLanes {
			t.Fatalf("%d lanes, want at most %d", lanes, maxLanes)
		}
		next := 1
		var end [maxLanes]float64 // in pixels
		for _, f := range put {
			if f.first != next || f.last < f.first || f.Lane >= lanes {
				t.Fatalf("flag %q is for events %d to %d in lane %d: the next event is %d", f.Label, f.first, f.last, f.Lane, next)
			}
			next = f.last + 1
			at := centre(f.At, f.Half)
			if at-f.Half < end[f.Lane] || at+f.Half > narrowest {
				t.Fatalf("flag %q is from %v to %v of lane %d, where another is until %v", f.Label, at-f.Half, at+f.Half, f.Lane, end[f.Lane])
			}
			end[f.Lane] = at + f.Half
		}
		if next != len(all)+1 {
			t.Fatalf("the flags end before event %d of %d", next, len(all))
		}
		if long := extents(all, put, d.Duration); len(long) > maxEvents {
			t.Fatalf("%d events are drawn as long, want at most %d", len(long), maxEvents)
		}
	})
}

func TestEvents(t *testing.T) {
	d := small()
	all := events(&d)
	want := []string{"1 step 0s create 10 pods", "2 fault 20s – 40s apiserver gone", "3 failed 50s Not met: 10 pods ready within 50s. There was: 8 ready"}
	for i, e := range all {
		if got := fmt.Sprint(e.Number, " ", e.Kind, " ", e.At, " ", e.Text); got != want[i] {
			t.Errorf("got %q, want %q", got, want[i])
		}
	}
}

func TestFlagOfSeveralEventsIsOfTheWorstKind(t *testing.T) {
	d := Data{Duration: time.Hour}
	for i := range 9 {
		d.Marks = append(d.Marks, Mark{At: time.Duration(i) * time.Second, Text: "x"})
	}
	d.Failures = []Failure{{At: 20 * time.Second}}
	put, _ := flags(events(&d), d.Duration)
	last := put[len(put)-1]
	if last.Label != "3–10" || last.Kind != "failed" || last.Title != "8 events from 2s to 20s" || last.Target != 3 {
		t.Errorf("the last flag is %+v: want one for events 3 to 10, of which the last failed", last)
	}
}

func TestLabelsOfPercentiles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := rapid.Float64Range(0, 100)
		p50, p90, p99 := at.Draw(t, "p50"), at.Draw(t, "p90"), at.Draw(t, "p99")
		m := []startMark{{At: min(p50, p90, p99)}, {At: max(min(p50, p90), min(max(p50, p90), p99))}, {At: max(p50, p90, p99)}}
		placeLabels(m)
		rows := map[int]bool{}
		for _, x := range m {
			rows[x.Row] = true
			if !x.Left && x.At > 100-labelRoom {
				t.Fatalf("the label of the mark at %v %% goes beyond the end: %+v", x.At, m)
			}
			if x.Left && x.At < labelRoom {
				t.Fatalf("the label of the mark at %v %% goes beyond the beginning: %+v", x.At, m)
			}
		}
		if len(rows) != 3 {
			t.Fatalf("two labels in one row: %+v", m)
		}
	})
}
