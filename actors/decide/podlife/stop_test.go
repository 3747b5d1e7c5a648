package podlife_test

import (
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/podlife"
)

// TestShortened: of a stop that is asked for while another is under way. Seconds count
// from the first one.
func TestShortened(t *testing.T) {
	began := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		first, after, later, want int // first and later are graces
	}{
		"deleted again with a shorter grace period":         {first: 30, after: 0, later: 5, want: 5},
		"a shorter grace period counts from the later stop": {first: 30, after: 10, later: 5, want: 15},
		"the same grace period later":                       {first: 30, after: 10, later: 30, want: 30},
		"a longer grace period":                             {first: 5, after: 0, later: 30, want: 5},
		"by force":                                          {first: 30, after: 10, later: 0, want: 0},
		"by force, after the grace period is over":          {first: 30, after: 60, later: 0, want: 0},
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
			want.Grace = time.Duration(c.want) * time.Second
			if got := first.Shortened(later); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
			if got := first.Shortened(later).Shortened(later); got != want {
				t.Errorf("told twice: %+v, want %+v", got, want)
			}
		})
	}
}
