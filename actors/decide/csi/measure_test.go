package csi_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestDisk: numbers that can't be true are unknown, and huge ones stay.
func TestDisk(t *testing.T) {
	at := time.Unix(1, 0)
	d := csi.Usage{Bytes: csi.Amount{Total: math.MaxInt64, Available: -1, Used: 3}, Inodes: csi.Amount{Total: math.MinInt64, Used: 0}}.Disk(at)
	for name, c := range map[string]struct {
		got  *uint64
		want int64 // -1: unknown
	}{
		"capacity": {d.Capacity, math.MaxInt64}, "available": {d.Available, -1}, "used": {d.Used, 3},
		"inodes": {d.Inodes, -1}, "inodes free": {d.InodesFree, 0}, "inodes used": {d.InodesUsed, 0},
	} {
		if c.want < 0 && c.got != nil || c.want >= 0 && (c.got == nil || *c.got != uint64(c.want)) {
			t.Errorf("%s is %v, want %d", name, c.got, c.want)
		}
	}
	check.Equal(t, d.At, at, "it is of")
}

// TestTurns: what is due is asked for, the oldest first, and a driver that does not answer is not asked for more than a few.
func TestTurns(t *testing.T) {
	now := time.Unix(1000, 0)
	ago := func(seconds int) csi.Turn { return csi.Turn{At: now.Add(-time.Duration(seconds) * time.Second)} }
	busy := func(seconds int) csi.Turn { t := ago(seconds); t.Busy = true; return t }
	for name, c := range map[string]struct {
		turns []csi.Turn
		begin []int
		again time.Duration
	}{
		"none":             {},
		"new":              {[]csi.Turn{{}}, []int{0}, 0},
		"due":              {[]csi.Turn{ago(60)}, []int{0}, 0},
		"not yet":          {[]csi.Turn{ago(59), ago(10)}, nil, time.Second},
		"oldest first":     {[]csi.Turn{ago(61), ago(70), {}}, []int{2, 1}, 0},
		"busy":             {[]csi.Turn{busy(100), busy(90), ago(61)}, nil, 0},
		"one more":         {[]csi.Turn{busy(100), ago(61), ago(62), ago(20)}, []int{2}, 40 * time.Second},
		"more than so few": {[]csi.Turn{busy(1), busy(1), busy(1), {}}, nil, 0},
	} {
		begin, again := csi.Turns(c.turns, now, time.Minute, 2)
		var want time.Time
		if c.again > 0 {
			want = now.Add(c.again)
		}
		if !slices.Equal(begin, c.begin) || again != want {
			t.Errorf("%s: %v again at %v, want %v at %v", name, begin, again, c.begin, want)
		}
	}
}
