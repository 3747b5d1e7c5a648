package csi_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

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

// TestTurns: whatever comes, goes and is answered, those are asked for that are due: first those that never were, in the order
// in which they came, and then those with the oldest answer. At most a few have no answer.
func TestTurns(t *testing.T) {
	const period, most = time.Minute, 2
	rapid.Check(t, func(t *rapid.T) {
		type turn struct {
			*csi.Turn
			at   time.Time // zero: never answered
			busy bool
		}
		now := time.Unix(1000, 0)
		var q csi.Turns
		var all []*turn // those that never were, and then by the answer
		asked := func() (out []*turn) {
			for _, o := range all {
				if o.busy {
					out = append(out, o)
				}
			}
			return out
		}
		drop := func(of []*turn) {
			if len(of) > 0 {
				o := of[rapid.IntRange(0, len(of)-1).Draw(t, "which")]
				all = slices.DeleteFunc(all, func(p *turn) bool { return p == o })
				check.Fatal(t, check.Is(q.Drop(o.Turn), o.busy, "whether one more can be asked for"))
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"comes": func(*rapid.T) {
				o := &turn{Turn: &csi.Turn{}}
				at := slices.IndexFunc(all, func(p *turn) bool { return !p.at.IsZero() })
				if at < 0 {
					at = len(all)
				}
				all = slices.Insert(all, at, o)
				q.Add(o.Turn)
			},
			"goes":            func(*rapid.T) { drop(all) },
			"goes unanswered": func(*rapid.T) { drop(asked()) },
			"time":            func(t *rapid.T) { now = now.Add(time.Duration(rapid.IntRange(1, 40).Draw(t, "s")) * time.Second) },
			"answered": func(*rapid.T) {
				for _, o := range asked() {
					all = append(slices.DeleteFunc(all, func(p *turn) bool { return p == o }), o)
					o.at, o.busy = now, false
					q.Answered(o.Turn, now)
				}
			},
			"": func(t *rapid.T) {
				busy := len(asked())
				var want []*csi.Turn
				var next time.Time
				for _, o := range all {
					due := o.at.IsZero() || !o.at.Add(period).After(now)
					switch {
					case o.busy:
					case due && busy < most:
						o.busy = true
						busy++
						want = append(want, o.Turn)
					case !due && next.IsZero():
						next = o.at.Add(period)
					case due:
						next = now // somebody waits for an answer
					}
				}
				begin, again := q.Due(now, period, most)
				if !slices.Equal(begin, want) {
					t.Fatalf("begins %d, want %d", len(begin), len(want))
				}
				if next.Equal(now) {
					next = time.Time{}
				}
				check.Fatal(t, check.Is(again, next, "the next one"))
			},
		})
	})
}
