package podlife

import (
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
)

// TestNext is all states × events. "panic" is for what can't be.
func TestNext(t *testing.T) {
	for _, c := range []struct {
		from State
		on   Event
		want string
	}{
		{Syncing, StopWanted, "Terminating"},
		{Syncing, Completed, "Terminating"},
		{Syncing, AllDown, "panic"},
		{Terminating, StopWanted, "Terminating"},
		{Terminating, Completed, "Terminating"},
		{Terminating, AllDown, "Terminated"},
		{Terminated, StopWanted, "Terminated"},
		{Terminated, Completed, "Terminated"},
		{Terminated, AllDown, "Terminated"},
		{Syncing, AllDown + 1, "panic"},
		{Terminating, AllDown + 1, "panic"},
		{Terminated, AllDown + 1, "panic"},
	} {
		check.Equal(t, next(c.from, c.on), c.want, "%v on %v", c.from, c.on)
	}
}

func next(s State, e Event) (got string) {
	defer func() {
		if recover() != nil {
			got = "panic"
		}
	}()
	to := Next(s, e)
	if to < s {
		return "back to " + to.String()
	}
	return to.String()
}

func TestNames(t *testing.T) {
	for got, want := range map[string]string{
		Syncing.String(): "Syncing", Terminated.String(): "Terminated", State(9).String(): "State(9)",
		StopWanted.String(): "StopWanted", Completed.String(): "Completed", AllDown.String(): "AllDown", Event(9).String(): "Event(9)",
	} {
		check.Equal(t, got, want, "it")
	}
}
