package checkpoint

import (
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
)

// TestCheck breaks the invariant of a Progress.
func TestCheck(t *testing.T) {
	const words = "saved <= tried <= writing <= newest; if Clean, saved == newest; if Dirty or WriteLater, saved < newest"
	for name, p := range map[string]Progress{
		"saved and not tried":     {state: Dirty, newest: 3, writing: 3, tried: 1, saved: 2},
		"tried and not written":   {state: Dirty, newest: 3, writing: 1, tried: 2},
		"written before it was":   {state: Saving, newest: 1, writing: 2},
		"clean and not saved":     {state: Clean, newest: 1},
		"dirty and saved":         {state: Dirty, newest: 1, writing: 1, tried: 1, saved: 1},
		"to be written and saved": {state: WriteLater, newest: 1, writing: 1, tried: 1, saved: 1},
	} {
		check.Says(t, p.Check(), words, "%s", name)
	}
	p := Progress{}
	for _, step := range []func(){
		func() { p.Begin(1) }, func() { p.Changed() }, func() { p.End(true) }, func() { p.Begin(2) }, func() { p.Changed() },
		func() { p.End(false) }, func() { p.Postpone() }, func() { p.TimeIsUp() }, func() { p.Begin(3) }, func() { p.End(true) },
	} {
		step()
		check.Error(t, p.Check())
	}
}
