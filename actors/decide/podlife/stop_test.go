package podlife_test

import (
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestShortened: of a stop that is asked for while another is under way. Seconds count
// from the first one.
func TestShortened(t *testing.T) {
	began := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		first, after, later, want int // first and later are graces
		begins                    int // of a stop by force
	}{
		"deleted again with a shorter grace period":         {first: 30, after: 0, later: 5, want: 5},
		"a shorter grace period counts from the later stop": {first: 30, after: 10, later: 5, want: 15},
		"the same grace period later":                       {first: 30, after: 10, later: 30, want: 30},
		"a longer grace period":                             {first: 5, after: 0, later: 30, want: 5},
		"by force":                                          {first: 30, after: 10, later: 0, want: 0, begins: 10},
		"by force, after the grace period is over":          {first: 30, after: 60, later: 0, want: 0, begins: 28},
		"by force, just before it is over":                  {first: 30, after: 29, later: 0, want: 0, begins: 28},
		"by force, and little was left from the beginning":  {first: 1, after: 1, later: 0, want: 0, begins: 0},
		"by force, and the clock was set back meanwhile":    {first: 30, after: -3600, later: 0, want: 0, begins: 0},
		"not by force, after the grace period is over":      {first: 30, after: 60, later: 5, want: 30},
		"by force, and then with a grace period":            {first: 0, after: 1, later: 30, want: 0},
		"shorter, and the clock was set back meanwhile":     {first: 30, after: -3600, later: 5, want: 5},
		"longer, and the clock was set back meanwhile":      {first: 5, after: -3600, later: 30, want: 5},
		"for ever, and then with a grace period":            {first: 1<<31 - 1, after: 60, later: 30, want: 90},
		"with a grace period, and then for ever":            {first: 30, after: 60, later: 1<<31 - 1, want: 30},
	} {
		t.Run(name, func(t *testing.T) {
			first := podlife.Stop{At: began, Grace: time.Duration(c.first) * time.Second, Reason: "Evicted", Fail: true, Why: "first"}
			later := podlife.Stop{At: began.Add(time.Duration(c.after) * time.Second), Grace: time.Duration(c.later) * time.Second, Why: "later"}
			want := first
			want.At, want.Grace = began.Add(time.Duration(c.begins)*time.Second), time.Duration(c.want)*time.Second
			if c.begins > 0 {
				want.Decided = began // to end it for Reason
			}
			check.Equal(t, first.Shortened(later), want, "got")
			check.Equal(t, first.Shortened(later).Shortened(later), want, "told twice")
		})
	}
}

// TestMerged: what a pod has ended for that is asked to stop while another stop is under way.
func TestMerged(t *testing.T) {
	at := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	deleted := podlife.Stop{At: at, Grace: time.Minute, Why: "deleted"}
	evicted := podlife.Stop{
		At: at.Add(10 * time.Second), Grace: 5 * time.Second, Why: "low", Reason: "Evicted", Message: "low", Disruption: "low", Fail: true,
	}
	preempted := podlife.Stop{At: at.Add(12 * time.Second), Grace: time.Second, Reason: "Preempting", Disruption: "room", Fail: true, ByExit: true}
	rejected := podlife.Stop{At: at, Grace: time.Minute, Reason: "OutOfcpu", Fail: true}
	completed := podlife.Stop{At: at, Grace: time.Minute, Why: "finished", Ended: true}
	overdue := podlife.Stop{At: at, Grace: time.Minute, Reason: "DeadlineExceeded", Fail: true, Ended: true}
	shorter := func(s podlife.Stop, grace time.Duration) podlife.Stop {
		s.Grace = grace
		return s
	}
	both := podlife.Stop{
		At: at, Grace: 15 * time.Second, Why: "deleted", Reason: "Evicted", Message: "low", Disruption: "low", Fail: true,
		Decided: evicted.At,
	}
	for name, c := range map[string]struct {
		first podlife.Stop
		later []podlife.Stop
		want  podlife.Stop
	}{
		"evicted while it is being deleted": {deleted, []podlife.Stop{evicted}, both},
		"told twice":                        {deleted, []podlife.Stop{evicted, evicted}, both},
		"told of the whole":                 {deleted, []podlife.Stop{both}, both},
		"deleted while it is being evicted": {evicted, []podlife.Stop{deleted}, evicted},
		"the first decision of the node":    {deleted, []podlife.Stop{evicted, preempted}, shorter(both, 13*time.Second)},
		"preempted while it is being deleted": {deleted, []podlife.Stop{preempted}, podlife.Stop{
			At: at, Grace: 13 * time.Second, Why: "deleted", Reason: "Preempting", Disruption: "room", Fail: true, ByExit: true,
			Decided: preempted.At,
		}},
		"evicted after it was refused":       {rejected, []podlife.Stop{evicted}, shorter(rejected, 15*time.Second)},
		"evicted after it had completed":     {completed, []podlife.Stop{evicted}, shorter(completed, 15*time.Second)},
		"evicted after its deadline":         {overdue, []podlife.Stop{evicted}, shorter(overdue, 15*time.Second)},
		"deleted, and has ended by itself":   {deleted, []podlife.Stop{overdue}, deleted},
		"a longer grace period is no reason": {shorter(deleted, 2*time.Second), []podlife.Stop{evicted}, shorter(both, 2*time.Second)},
	} {
		got := c.first
		for _, later := range c.later {
			got = got.Merged(later)
		}
		check.Equal(t, got, c.want, "%s:\n got", name)
	}
	if !both.DecidedAt().Equal(evicted.At) || !evicted.DecidedAt().Equal(evicted.At) {
		t.Errorf("decided at %v, %v, want %v", both.DecidedAt(), evicted.DecidedAt(), evicted.At)
	}
}
