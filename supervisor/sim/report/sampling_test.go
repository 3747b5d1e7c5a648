package report

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/tests/check"
)

// Times are drawn in seconds: sums of shares of them are then exact enough to be compared.
func drawLooks(t *rapid.T) (looks []PhaseSample, end time.Duration) {
	var at time.Duration
	for range rapid.IntRange(1, 60).Draw(t, "looks") {
		s := PhaseSample{At: at}
		for p := range s.Pods {
			s.Pods[p] = rapid.IntRange(0, 1000).Draw(t, "pods")
		}
		looks = append(looks, s)
		at += time.Duration(rapid.IntRange(0, 100).Draw(t, "wait")) * time.Second
	}
	return looks, at
}

func TestPhaseBinsKeepPodSeconds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		looks, end := drawLooks(t)
		limit := rapid.IntRange(1, 80).Draw(t, "limit")
		bins := phaseBins(looks, end, limit)
		if len(bins) == 0 || len(bins) > limit {
			t.Fatalf("%d bins of %d looks, want at least 1 and at most %d", len(bins), len(looks), limit)
		}
		if bins[0].at != looks[0].At || !slices.IsSortedFunc(bins, func(a, b bin) int { return int(a.at - b.at) }) {
			t.Fatalf("the bins begin at %v and are not in order, or do not begin at %v", bins[0].at, looks[0].At)
		}
		for p := range phaseCount {
			var want, got float64
			low, high := math.Inf(1), 0.0
			for i, s := range looks {
				until := end
				if i+1 < len(looks) {
					until = looks[i+1].At
				}
				want += float64(s.Pods[p]) * (until - s.At).Seconds()
				low, high = math.Min(low, float64(s.Pods[p])), math.Max(high, float64(s.Pods[p]))
			}
			for i, b := range bins {
				until := end
				if i+1 < len(bins) {
					until = bins[i+1].at
				}
				got += b.pods[p] * (until - b.at).Seconds()
				if until > b.at && (b.pods[p] < low-1e-6 || b.pods[p] > high+1e-6) {
					t.Fatalf("%v: a bin has %v pods, and the looks have from %v to %v", p, b.pods[p], low, high)
				}
			}
			if math.Abs(got-want) > 1e-6*(1+want) {
				t.Fatalf("%v: %v pod-seconds in the bins, %v in the looks", p, got, want)
			}
		}
	})
}

func TestPeaksAreOfAllLooks(t *testing.T) {
	looks := make([]PhaseSample, 10*maxBins)
	for i := range looks {
		looks[i] = PhaseSample{At: time.Duration(i) * time.Second, Pods: PhaseCounts{Ready: 5}}
	}
	looks[1234].Pods[Failed] = 7
	check.Count(t, peaks(looks), (PhaseCounts{Ready: 5, Failed: 7}), "peaks %v: one look of many has 7 failed pods")
}

func drawHeatOf(t *rapid.T) Heat {
	h := Heat{Column: time.Minute}
	for i := range rapid.IntRange(0, 40).Draw(t, "nodes") {
		n := NodeHeat{Name: fmt.Sprint(i)}
		for range rapid.IntRange(0, 40).Draw(t, "cells") {
			n.Cells = append(n.Cells, Cell{
				Looks: 2, Down: rapid.Uint32Range(0, 2).Draw(t, "down"),
				Pods: 9, Ready: rapid.Uint64Range(0, 9).Draw(t, "ready"), Starts: 1, Restarts: uint32(i),
			})
		}
		h.Nodes = append(h.Nodes, n)
	}
	return h
}

func TestGroupKeepsSumsAndOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := drawHeatOf(t)
		rows, columns := rapid.IntRange(1, 20).Draw(t, "rows"), rapid.IntRange(1, 50).Draw(t, "columns")
		g := group(h, rows, columns)
		if len(g.rows) > rows {
			t.Fatalf("%d rows, want at most %d", len(g.rows), rows)
		}
		next := 0
		for _, row := range g.rows {
			if len(row.cells) > columns || len(row.cells) != len(g.rows[0].cells) {
				t.Fatalf("a row of %d cells beside one of %d, and at most %d may be", len(row.cells), len(g.rows[0].cells), columns)
			}
			if row.begin != next || row.first != h.Nodes[next].Name || row.last != h.Nodes[next+row.nodes-1].Name {
				t.Fatalf("a row is nodes %q to %q, %d from %d: it does not follow the one before", row.first, row.last, row.nodes, row.begin)
			}
			want := make([]Cell, len(row.cells))
			for _, n := range h.Nodes[next : next+row.nodes] {
				for i, c := range n.Cells {
					want[time.Duration(i)*h.Column/g.column].add(c)
				}
			}
			if !slices.Equal(row.cells, want) {
				t.Fatalf("nodes %q to %q: cells %v, and its nodes add up to %v", row.first, row.last, row.cells, want)
			}
			next += row.nodes
		}
		if len(g.rows) > 0 && next != len(h.Nodes) {
			t.Fatalf("%d nodes in the rows, want %d", next, len(h.Nodes))
		}
	})
}

func TestBarsHoldAllPods(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var starts []Latency
		for range rapid.IntRange(1, 60).Draw(t, "starts") {
			took := time.Duration(rapid.Int64Range(0, int64(longest)).Draw(t, "took"))
			took /= time.Duration(math.Pow(10, float64(rapid.IntRange(0, 17).Draw(t, "power"))))
			starts = append(starts, Latency{took, rapid.IntRange(0, 9).Draw(t, "pods")})
		}
		h := bars(starts, maxBars)
		if len(h.bars) > maxBars {
			t.Fatalf("%d bars, want at most %d", len(h.bars), maxBars)
		}
		all := 0
		for _, l := range starts {
			all += l.Pods
		}
		for i, b := range h.bars {
			want := 0
			for _, l := range starts {
				if (l.Took >= b.from || i == 0) && l.Took < b.to {
					want += l.Pods
				}
			}
			if b.pods != want || b.to <= b.from || (i > 0 && b.from != h.bars[i-1].to) {
				t.Fatalf("bar %d is %+v: want %d pods, and that it begins where the one before ends", i, b, want)
			}
			all -= b.pods
		}
		check.Fatal(t, check.Is(all, 0, "%d pods are in no bar", all))
	})
}

func TestHistogramAxis(t *testing.T) {
	for _, c := range []struct {
		name    string
		slowest time.Duration
		log     bool
	}{{"all alike", 3 * time.Second, false}, {"a long tail", 3 * time.Minute, true}} {
		starts := []Latency{{2 * time.Second, 100}, {c.slowest, 1}}
		h := bars(starts, maxBars)
		check.Equal(t, h.log, c.log, "%s: logarithmic", c.name)
		if !c.log && h.bars[0].from != 0 {
			t.Errorf("%s: a linear axis begins at %v, want 0: or a small difference looks great", c.name, h.bars[0].from)
		}
		check.AtLeast(t, len(h.bars), maxBars/4, "%s: %d bars say too little", c.name, len(h.bars))
	}
}
