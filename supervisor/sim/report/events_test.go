package report

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/tests/check"
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
		for _, width := range []float64{leastNarrow, leastWide} {
			checkFlags(t, layFlags("", all, d.Duration, width), len(all), width)
		}
	})
}

func checkFlags(t *rapid.T, l lanes, events int, width float64) {
	if l.Count > maxLanes || len(l.Extents) > 16 {
		t.Fatalf("%d lanes and %d events that last: too many", l.Count, len(l.Extents))
	}
	next := 1
	var end [maxLanes]float64 // in pixels
	for _, f := range l.Flags {
		if f.first != next || f.last < f.first || f.Lane >= l.Count {
			t.Fatalf("flag %q is for events %d to %d in lane %d: the next event is %d", f.Label, f.first, f.last, f.Lane, next)
		}
		next = f.last + 1
		at := f.centre(width)
		if at-f.Half < end[f.Lane] || at+f.Half > width {
			t.Fatalf("flag %q is from %v to %v of lane %d, where another is until %v", f.Label, at-f.Half, at+f.Half, f.Lane, end[f.Lane])
		}
		end[f.Lane] = at + f.Half
	}
	check.Fatal(t, check.Is(next, events+1, "the flags end before event %d of %d", next, events))
}

func TestManyEventsFillTheLanes(t *testing.T) {
	d := Data{Duration: time.Hour}
	for i := range 500 {
		d.Marks = append(d.Marks, Mark{At: d.Duration * time.Duration(i) / 500})
	}
	all := events(&d)
	for width, least := range map[float64]int{leastNarrow: 5, leastWide: 20} {
		if l := layFlags("", all, d.Duration, width); len(l.Flags) < least {
			t.Errorf("%d flags on %v pixels: there is room for %d", len(l.Flags), width, least)
		}
	}
}

func TestEvents(t *testing.T) {
	d := small()
	all := events(&d)
	want := []string{"1 step 0s create 10 pods", "2 fault 20s – 40s apiserver gone", "3 failed 50s Not met: 10 pods ready within 50s. There was: 8 ready"}
	for i, e := range all {
		check.Equal(t, fmt.Sprint(e.Number, " ", e.Kind, " ", e.At, " ", e.Text), want[i], "got")
	}
}

func TestFlagOfSeveralEventsIsOfTheWorstKind(t *testing.T) {
	d := Data{Duration: time.Hour}
	for i := range 9 {
		d.Marks = append(d.Marks, Mark{At: time.Duration(i) * time.Second, Text: "x"})
	}
	d.Failures = []Failure{{At: 20 * time.Second}}
	flags := layFlags("", events(&d), d.Duration, leastWide).Flags
	f := flags[0]
	if len(flags) != 1 || f.Label != "1–10" || f.Kind != "failed" || f.Title != "10 events from 0s to 20s" || f.Target != 1 {
		t.Errorf("flags %+v: want one for events 1 to 10, of which the last failed", flags)
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
		check.Fatal(t, check.Is(len(rows), 3, "two labels in one row: %+v", m))
	})
}
