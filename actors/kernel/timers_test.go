package kernel

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/tests/check"
)

// Timers are a list in order of time, and of setting at one time; those stopped
// are not in it, however many there are.
func TestTimersModel(t *testing.T) {
	type set struct {
		at   time.Duration
		n    int
		stop func() bool
	}
	rapid.Check(t, func(t *rapid.T) {
		var h timers
		var model []set
		var over []set // fired or stopped
		n, fired := 0, -1
		add := func(t *rapid.T) {
			s := set{at: time.Duration(rapid.IntRange(0, 20).Draw(t, "at")), n: n}
			n++
			s.stop = h.set(s.at, nil, func() { fired = s.n })
			model = append(model, s)
			slices.SortStableFunc(model, func(a, b set) int { return int(a.at - b.at) })
		}
		stop := func(t *rapid.T) {
			if len(model) == 0 {
				t.Skip("none")
			}
			i := rapid.IntRange(0, len(model)-1).Draw(t, "which")
			if !model[i].stop() {
				t.Fatal("a timer that is set can't be stopped")
			}
			over = append(over, model[i])
			model = slices.Delete(model, i, i+1)
		}
		t.Repeat(map[string]func(*rapid.T){
			"set": add,
			"setMany": func(t *rapid.T) {
				for range rapid.IntRange(50, 200).Draw(t, "n") {
					add(t)
				}
			},
			"stop": stop,
			"stopMany": func(t *rapid.T) {
				for len(model) > rapid.IntRange(0, 10).Draw(t, "left") {
					stop(t)
				}
			},
			"pop": func(t *rapid.T) {
				limit := time.Duration(rapid.IntRange(0, 25).Draw(t, "limit"))
				at, f := h.pop(limit)
				if len(model) == 0 || model[0].at > limit {
					if f != nil {
						t.Fatal("a timer fires that is not due")
					}
					return
				}
				if f == nil {
					t.Fatalf("the timer for %d does not fire by %d", model[0].at, limit)
				}
				if f(); fired != model[0].n || at != model[0].at {
					t.Fatalf("timer %d fires at %d, want %d at %d", fired, at, model[0].n, model[0].at)
				}
				over = append(over, model[0])
				model = model[1:]
			},
			"": func(t *rapid.T) {
				check.Fatal(t, check.Is(h.len(), len(model), "%d timers, want %d", h.len(), len(model)))
				if len(h.heap) > 2*len(model)+130 {
					t.Fatalf("the heap has %d entries for %d timers", len(h.heap), len(model))
				}
				if len(over) > 0 && over[len(over)-1].stop() {
					t.Fatal("one that is over was stopped")
				}
			},
		})
	})
}
