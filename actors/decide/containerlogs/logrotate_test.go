package containerlogs

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/tests/check"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

const (
	now   = "20261121-120000"
	older = "20261121-110000"
	old   = "20261121-100000"
)

func TestPlan(t *testing.T) {
	type input struct {
		Log
		Round
		Policy
	}
	for _, tt := range []struct {
		name   string
		change func(*input)
		want   Step
	}{
		{"small", func(*input) {}, nil},
		{"too big", func(i *input) { i.Size = 100 }, Rotate{now}},
		{"too big, and has ended", func(i *input) { i.Size, i.Runs = 100, false }, nil},
		{"too big, and was rotated this time", func(i *input) { i.Size, i.Rotated = 100, true }, nil},
		{"too big again within a second", func(i *input) { i.Size, i.Beside = 100, []string{now} }, Rotate{"20261121-120001"}},
		{"the clock was set back", func(i *input) { i.Size, i.Beside = 100, []string{"20270101-235959.gz"} }, Rotate{"20270102-000000"}},
		{"one that was rotated before stays as it is", func(i *input) { i.Beside = []string{old} }, nil},
		{"it is compressed when there is a newer one", func(i *input) { i.Beside = []string{older, old} }, Compress{old}},
		{"also if that is compressed", func(i *input) { i.Beside = []string{older + ".gz", old} }, Compress{old}},
		{"not if it is", func(i *input) { i.Beside = []string{older, old + ".gz"} }, nil},
		{"what was not finished", func(i *input) { i.Beside = []string{older, old, old + ".tmp"} }, Remove{[]string{old + ".tmp"}}},
		{"as others name it", func(i *input) { i.Beside = []string{old + ".gz.tmp"} }, Remove{[]string{old + ".gz.tmp"}}},
		{"compressed, and still there", func(i *input) { i.Beside = []string{old, older, old + ".gz"} }, Remove{[]string{old}}},
		{"too many", func(i *input) { i.MaxFiles, i.Beside = 2, []string{older, old + ".gz"} }, Remove{[]string{old + ".gz"}}},
		{"too many with the one to come", func(i *input) { i.MaxFiles, i.Size, i.Beside = 3, 100, []string{older, old + ".gz"} }, Remove{[]string{old + ".gz"}}},
		{"two files only", func(i *input) { i.MaxFiles, i.Size, i.Beside = 2, 100, []string{older} }, Remove{[]string{older}}},
		{"somebody else's", func(i *input) { i.Beside = []string{"bak", "1.gz", "x.tmp", "20261121-1100001"} }, nil},
		{"no file, and runs", func(i *input) { i.Current, i.Beside = false, []string{older} }, Reopen{}},
		{"no file, nothing beside", func(i *input) { i.Current = false }, Reopen{}},
		{"no file, and the runtime does not open one", func(i *input) { i.Current, i.Refused, i.Beside = false, true, []string{older, old} }, Restore{older}},
		{"no file, and has ended", func(i *input) { i.Current, i.Runs, i.Beside = false, false, []string{older} }, Restore{older}},
		{"no file, and the last is compressed", func(i *input) { i.Current, i.Runs, i.Beside = false, false, []string{older + ".gz", old} }, nil},
		{"no file, nothing beside, and has ended", func(i *input) { i.Current, i.Runs = false, false }, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := input{Log{Current: true, Size: 99}, Round{Runs: true}, Policy{MaxSize: 100, MaxFiles: 5}}
			tt.change(&in)
			check.Deep(t, PlanRotation(in.Log, in.Round, in.Policy, noon), tt.want, "got")
		})
	}
}

// disk is a log on a disk, and who writes it. A file is the numbers written to it.
type disk struct {
	files map[string]*[]int // by suffix, "" for the current one
	// writes is the file that the runtime holds open; nil when the container has ended.
	writes  *[]int
	written int
	// lost is the highest number that was removed as superfluous.
	lost int
}

func (d *disk) look() Log {
	l := Log{Current: d.files[""] != nil}
	if l.Current {
		l.Size = int64(len(*d.files[""]))
	}
	for suffix := range maps.Keys(d.files) { // order-free: the plan sorts
		if suffix != "" {
			l.Beside = append(l.Beside, suffix)
		}
	}
	return l
}

// do takes a step, up to where the agent is killed: after so many of its parts.
func (d *disk) do(t *rapid.T, s Step, r *Round, parts int) {
	part := func() bool { parts--; return parts >= 0 }
	switch s := s.(type) {
	case Remove:
		for _, suffix := range s.Suffixes {
			if !part() {
				return
			}
			f := d.files[suffix]
			if f == nil || f == d.writes {
				t.Fatalf("%s: removed, is not there or is written to", suffix)
			}
			delete(d.files, suffix)
			if !d.has(*f) && !strings.HasSuffix(suffix, Unfinished) {
				d.lost = max(d.lost, slices.Max(*f))
			}
		}
	case Rotate:
		r.Rotated = true
		if d.files[s.To] != nil {
			t.Fatalf("%s is taken", s.To)
		}
		if part() {
			d.files[s.To] = d.files[""]
			delete(d.files, "")
		}
	case Reopen:
		outcome := rapid.IntRange(0, 2).Draw(t, "outcome")
		r.Refused = outcome != 0
		if part() && outcome != 1 && d.writes != nil { // an error may come although it was done
			if d.files[""] == nil {
				d.files[""] = &[]int{}
			}
			d.writes = d.files[""]
		}
	case Restore:
		if part() && d.files[""] == nil {
			d.files[""] = d.files[s.From]
			delete(d.files, s.From)
		}
	case Compress:
		from := d.files[s.Suffix]
		if from == d.writes {
			t.Fatalf("%s is compressed while it is written to", s.Suffix)
		}
		if !part() {
			return
		}
		d.files[s.Suffix+Unfinished] = &[]int{-1}
		if !part() {
			return
		}
		delete(d.files, s.Suffix+Unfinished)
		whole := slices.Clone(*from)
		d.files[CompressedName(s.Suffix)] = &whole
		if part() {
			delete(d.files, s.Suffix)
		}
	}
}

func (d *disk) has(numbers []int) bool {
	for _, f := range d.files { // order-free: whether there is one
		if len(numbers) == 0 || slices.Contains(*f, numbers[0]) {
			return true
		}
	}
	return false
}

// TestNothingIsLost: whatever the runtime answers, and wherever the agent is
// killed, what was written is there, in order, but for the oldest of too much.
func TestNothingIsLost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first := &[]int{}
		d := &disk{files: map[string]*[]int{"": first}, writes: first}
		p := Policy{MaxSize: rapid.Int64Range(1, 5).Draw(t, "size"), MaxFiles: rapid.IntRange(2, 5).Draw(t, "files")}
		at := noon
		rounds := rapid.IntRange(1, 30).Draw(t, "rounds")
		for i := range rounds + 2 {
			quiet := i >= rounds // the last two are undisturbed
			if !quiet {
				at = at.Add(time.Duration(rapid.IntRange(-3, 10).Draw(t, "time")) * time.Second)
			}
			r := Round{Runs: d.writes != nil && (quiet || rapid.IntRange(0, 9).Draw(t, "known") > 0)}
			for range 50 {
				if d.writes != nil && !quiet {
					for range rapid.IntRange(0, 4).Draw(t, "writes") {
						d.written++
						*d.writes = append(*d.writes, d.written)
					}
					if rapid.IntRange(0, 40).Draw(t, "ends") == 0 {
						d.writes = nil
					}
				}
				s := PlanRotation(d.look(), r, p, at)
				if s == nil {
					break
				}
				parts := 99
				if !quiet {
					parts = rapid.IntRange(0, 12).Draw(t, "parts")
				}
				if d.do(t, s, &r, parts); parts < 3 {
					break // killed
				}
			}
		}
		d.check(t, p)
	})
}

func (d *disk) check(t *rapid.T, p Policy) {
	l := d.look()
	if n := len(d.files); n > p.MaxFiles {
		t.Errorf("%d files, %v", n, l.Beside)
	}
	if !l.Current || d.writes != nil && d.writes != d.files[""] {
		t.Errorf("the runtime does not write to the current file, of %v", l.Beside)
	}
	slices.Sort(l.Beside)
	var got []int
	for i, suffix := range l.Beside {
		if _, stamped := strings.CutSuffix(suffix, compressed); !stamped && i < len(l.Beside)-1 || strings.HasSuffix(suffix, Unfinished) {
			t.Errorf("left: %v", l.Beside)
		}
		got = append(got, *d.files[suffix]...)
	}
	if l.Current {
		got = append(got, *d.files[""]...)
	}
	var want []int
	for n := d.lost + 1; n <= d.written; n++ {
		want = append(want, n)
	}
	check.Same(t, got, want, "got")
}
