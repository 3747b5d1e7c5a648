package podset

import (
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
)

// TestNext is all states × events. Where there is no row, the event is impossible and panics.
func TestNext(t *testing.T) {
	want := map[State]map[Event]State{
		Waiting:    {Begun: Running, Refused: Rejected, Removed: Collecting},
		Running:    {Ended: Finished},
		Finished:   {Removed: Collecting, Returned: Waiting},
		Collecting: {Returned: Waiting},
		Rejected:   {Changed: Waiting, Removed: Collecting},
	}
	for s := Waiting; s <= Rejected+1; s++ {
		for e := Begun; e <= Returned+1; e++ {
			to, possible := want[s][e]
			got, panicked := next(s, e)
			if panicked == possible || possible && got != to {
				t.Errorf("%v on %v: %v (panic: %v), want %v (possible: %v)", s, e, got, panicked, to, possible)
			}
		}
	}
}

func next(s State, e Event) (to State, panicked bool) {
	defer func() { panicked = recover() != nil }()
	return Next(s, e), false
}

func TestHasActor(t *testing.T) {
	for s, want := range map[State]bool{Waiting: false, Running: true, Finished: true, Collecting: true, Rejected: false} {
		check.Equal(t, s.HasActor(), want, "%v: %v", s, !want)
	}
}

func TestNames(t *testing.T) {
	for got, want := range map[string]string{
		Waiting.String(): "Waiting", Rejected.String(): "Rejected", State(9).String(): "State(9)",
		Begun.String(): "Begun", Returned.String(): "Returned", Event(9).String(): "Event(9)",
		Kept.String(): "Kept", Unsaved.String(): "Unsaved", Saved.String(): "Saved", Removal(9).String(): "Removal(9)",
		Stay.String(): "Stay", Discard.String(): "Discard", NextAction(9).String(): "NextAction(9)",
		Wait.String(): "Wait", Ask.String(): "Ask", Admission(9).String(): "Admission(9)",
	} {
		check.Equal(t, got, want, "it")
	}
}
