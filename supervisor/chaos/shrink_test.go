package chaos

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/supervisor/chaos/plan"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestShrink: what is not needed goes, and what is left violates the same rule for the same pod.
func TestShrink(t *testing.T) {
	c := parse(t, `seed 5
no-events
create b main=app init=setup
create a main=app volume=data ready=app
at 1.3s: delete b
kill-agent for=2s
at 17.3s: create c main=app
on a Ready +1.2s: lose-task a/app
delete a
at 40s: step-clock by=1h
fault call CreateContainer a/app #1 = slow 700ms
fault api Patch-Pod-status b #2 = fail
`)
	r := Run(c)
	check.Fatal(t, check.Is(r.Verdict(), Violated, "it"))
	small := Shrink(t.Context(), r, time.Minute)
	if got := small.Case.Line(); got != "seed 5; create a main=app; on a Ready: lose-task a/app; delete a" || victim(small) != "a" {
		t.Errorf("shrunk to %s, which violates %v", got, small.Violations)
	}
	ended, stop := context.WithCancel(t.Context())
	stop()
	if same := Shrink(ended, r, time.Minute); same != r {
		t.Errorf("without time it is %s", same.Case.Line())
	}
}

// TestEachInOrder: results come in the order of their cases, and none after the one that stops.
func TestEachInOrder(t *testing.T) {
	var got []uint64
	seeds := func(yield func(uint64) bool) {
		for s := uint64(0); s < 1000 && yield(s); s++ {
		}
	}
	// The first of each eight takes longest.
	run := func(s uint64) *Result {
		for range (7 - s%8) * 50 {
			runtime.Gosched()
		}
		return &Result{Case: &plan.Case{Seed: s}}
	}
	each(t.Context(), seeds, 8, run, func(r *Result) bool { got = append(got, r.Case.Seed); return r.Case.Seed != 100 })
	check.Fatal(t, check.Is(len(got), 101, "%d results were told", len(got)))
	for i, s := range got {
		check.Fatal(t, check.Is(s, uint64(i), "result %d is that of", i))
	}
}
