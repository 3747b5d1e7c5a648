package checkpoint

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestTransitions: each method in each state, as the diagram has it. All others are bugs, and panic.
func TestTransitions(t *testing.T) {
	in := map[State]func() *Progress{
		Unread:    func() *Progress { return &Progress{} },
		Loading:   func() *Progress { return after((*Progress).begin) },
		ReadLater: func() *Progress { return after((*Progress).begin, (*Progress).fail) },
		Clean:     func() *Progress { return after((*Progress).begin, (*Progress).end) },
		Dirty:     func() *Progress { return after((*Progress).begin, (*Progress).end, (*Progress).change) },
		Saving: func() *Progress {
			return after((*Progress).begin, (*Progress).end, (*Progress).change, (*Progress).begin)
		},
		WriteLater: func() *Progress {
			return after((*Progress).begin, (*Progress).end, (*Progress).change, (*Progress).Postpone)
		},
	}
	methods := map[string]struct {
		call func(*Progress)
		to   map[State]State
		any  bool // in other states nothing happens
	}{
		"Begin":     {(*Progress).begin, map[State]State{Unread: Loading, Dirty: Saving}, false},
		"End, well": {(*Progress).end, map[State]State{Loading: Clean, Saving: Clean}, false},
		"End, not":  {(*Progress).fail, map[State]State{Loading: ReadLater, Saving: Dirty}, false},
		"Changed":   {(*Progress).change, map[State]State{Clean: Dirty}, true},
		"Postpone":  {(*Progress).Postpone, map[State]State{Dirty: WriteLater}, false},
		"TimeIsUp":  {(*Progress).TimeIsUp, map[State]State{ReadLater: Unread, WriteLater: Dirty}, true},
	}
	check.Equal(t, len(in), len(states), "states")
	for name, m := range methods {
		for from, make := range in {
			p := make()
			check.Fatal(t, check.Is(p.State(), from, "the state of the row"))
			got, want := outcome(p, m.call), "panic"
			if to, is := m.to[from]; is {
				want = to.String()
			} else if m.any {
				want = from.String()
			}
			check.Equal(t, got, want, "%s in %v", name, from)
		}
	}
	check.Equal(t, State(9).String(), "State(9)", "a state that there is not")
}

func (p *Progress) begin()  { p.Begin(1) }
func (p *Progress) end()    { p.End(true) }
func (p *Progress) fail()   { p.End(false) }
func (p *Progress) change() { p.Changed() }

func after(calls ...func(*Progress)) *Progress {
	p := &Progress{}
	for _, call := range calls {
		call(p)
	}
	return p
}

// outcome is the state after a call.
func outcome(p *Progress, call func(*Progress)) (state string) {
	defer func() {
		if recover() != nil {
			state = "panic"
		}
	}()
	call(p)
	return p.State().String()
}

// disk is a disk that fails, and that may write something later than it said that it failed. Like the host's, it begins
// a write when the one before is over.
type disk struct {
	// has is the version on it, late one that may replace it before the next write.
	has, late Version
	// id is the write under way, of the version writes, 0 for none. ids counts them.
	id, ids kernel.EffectID
	writes  Version
}

// TestProgress draws changes, writes and failures.
//
//   - What Has says is on the disk, and stays there.
//   - At most one write is under way, and one that is not under way is nobody's.
//   - When the disk works again, the last version is written, and then nothing more.
func TestProgress(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, d := &Progress{}, &disk{ids: 1}
		newest := Version(0)
		begin := func() {
			if d.id != 0 {
				t.Fatalf("a write began while %d is under way", d.id)
			}
			d.has, d.late = max(d.has, d.late), 0
			d.ids++
			d.id, d.writes = d.ids, newest
			p.Begin(d.id)
		}
		end := func(works bool) {
			if !p.IsUnderWay(d.id) || p.IsUnderWay(d.id-1) || p.IsUnderWay(0) {
				t.Fatal("the write is not the one under way")
			}
			d.id = 0
			if works {
				d.has, d.late = d.writes, 0
				p.End(true)
				return
			}
			switch rapid.IntRange(0, 2).Draw(t, "failed write") {
			case 0: // nothing was written
			case 1:
				d.has = d.writes
			case 2:
				d.late = d.writes
			}
			p.End(false)
			if rapid.Bool().Draw(t, "timer") {
				p.Postpone()
			}
		}
		step := func(op string) {
			switch s := p.State(); {
			case op == "change":
				newest++
				check.Equal(t, p.Changed(), newest, "the version")
			case op == "timer":
				p.TimeIsUp()
			case s == Unread:
				p.Begin(1)
			case s == Loading && op == "fail":
				p.End(false)
			case s == Loading:
				p.End(true)
			case s == Dirty && op == "wait":
				p.Postpone()
			case s == Dirty:
				begin()
			case s == Saving:
				end(op == "go on")
			}
			if p.Known() != (p.State() != Unread && p.State() != Loading && p.State() != ReadLater) {
				t.Fatalf("%v is taken for known, or not", p.State())
			}
			if (p.State() == Clean) != (p.Known() && p.Has(newest)) {
				t.Fatalf("%v, and the newest version is saved: %v", p.State(), p.Has(newest))
			}
			for v := range newest + 1 {
				if p.Has(v) && d.has < v || p.Has(v) && !p.Tried(v) {
					t.Fatalf("version %d was reported, and the disk has %d", v, d.has)
				}
			}
		}
		ops := rapid.SampledFrom([]string{"change", "go on", "fail", "timer", "wait"})
		for _, op := range rapid.SliceOf(ops).Draw(t, "ops") {
			step(op)
		}
		for range 8 {
			step("timer")
			step("go on")
		}
		if p.State() != Clean || d.has != newest {
			t.Fatalf("in the end it is %v, and the disk has version %d of %d", p.State(), d.has, newest)
		}
	})
}

// TestWaiting: values are known when their version is, in the order in which they came.
func TestWaiting(t *testing.T) {
	p := after((*Progress).begin, (*Progress).end)
	var w Waiting[string]
	w.Put("a", p.Changed())
	p.Begin(2)
	w.Put("b", p.Changed())
	w.Put("c", 1)
	check.Equal(t, fmt.Sprint(w.Take(p)), "[]", "before the write has ended")
	p.End(false)
	check.Equal(t, fmt.Sprint(w.Take(p)), "[]", "after a write that failed")
	check.Equal(t, p.Tried(1), true, "it was tried")
	check.Equal(t, p.Tried(2), false, "this was tried")
	p.Begin(3)
	w.Put("d", p.Changed())
	p.End(true)
	check.Equal(t, fmt.Sprint(w.Take(p), p.State()), "[a b c] Dirty", "after the write")
	p.Begin(4)
	p.End(true)
	check.Equal(t, fmt.Sprint(w.Take(p), w.Take(p)), "[d] []", "after the next")
}
