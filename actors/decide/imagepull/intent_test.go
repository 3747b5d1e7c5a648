package imagepull

import (
	"testing"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
)

// TestIntent: what becomes of an image whose pull did not work, by what the runtime had before and has now.
func TestIntent(t *testing.T) {
	begin := func(had string) *Intent {
		in := &Intent{}
		if !in.Begin() {
			t.Error("the runtime is not asked")
		}
		in.Had(had)
		return in
	}
	for name, c := range map[string]struct {
		in    *Intent
		open  bool
		has   string
		after time.Duration
		want  IntentEnd
	}{
		"nothing came":                             {begin(""), false, "", 0, IntentGoes},
		"it came before the pull failed":           {begin(""), false, "1", 0, IntentRecords},
		"the tag was moved before the pull failed": {begin("1"), false, "2", 0, IntentRecords},
		"what was there before stays as it was":    {begin("1"), false, "1", 0, IntentGoes},
		"it was removed meanwhile":                 {begin("1"), false, "", 0, IntentGoes},
		"nobody knows what was there":              {&Intent{}, false, "1", 0, IntentRecords},
		"no answer, nothing came":                  {begin(""), true, "", 0, IntentStays},
		"no answer, and it came":                   {begin(""), true, "1", 0, IntentRecords},
		"no answer, the same is there":             {begin("1"), true, "1", 0, IntentStays},
		"no answer for long":                       {begin("1"), true, "1", LateFor, IntentGoes},
		"an earlier agent's, nothing came":         {LeftIntent(now), false, "", 0, IntentStays},
		"an earlier agent's, and it came":          {LeftIntent(now), false, "1", 0, IntentRecords},
		"an earlier agent's, long ago":             {LeftIntent(now), false, "", LateFor, IntentGoes},
	} {
		if c.in.Stage == IntentNoting {
			c.in.Ask()
		}
		if c.in.Fail(c.open, now) {
			t.Errorf("%s: it is over", name)
		}
		got := c.in.Settle(c.has, now.Add(c.after))
		if got != c.want || (got == IntentStays) != (c.in.Stage == IntentLate) {
			t.Errorf("%s: %v, and it is %v", name, got, c.in.Stage)
		}
	}
}

// TestIntentOfTwoPulls: what was there before the first pull counts for the second, too.
func TestIntentOfTwoPulls(t *testing.T) {
	in := &Intent{}
	in.Begin()
	in.Had("1")
	in.Ask()
	in.Fail(true, now)
	if in.Settle("1", now) != IntentStays || in.Brought("1") || !in.Brought("2") {
		t.Error("after the first")
	}
	if in.Begin() {
		t.Error("the runtime is asked again")
	}
	in.Had("2") // the first has come meanwhile
	in.Ask()
	in.Fail(false, now)
	check.Equal(t, in.Settle("2", now), IntentRecords, "it")
}

// TestIntentWithoutAPull: an intent whose pull was never asked for ends at once, unless an earlier agent has pulled.
func TestIntentWithoutAPull(t *testing.T) {
	in := &Intent{}
	in.Begin()
	in.Had("1")
	if !in.Fail(false, now) {
		t.Error("it goes on")
	}
	in = &Intent{}
	in.Begin()
	in.Had("1")
	in.Forgotten(now)
	if in.Fail(false, now) || in.Settle("1", now) != IntentRecords {
		t.Error("the pull of the earlier agent counts")
	}
}
