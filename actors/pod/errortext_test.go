package pod

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestSteady(t *testing.T) {
	id, other := strings.Repeat("0a", 32), strings.Repeat("f1", 32)
	for in, want := range map[string]string{
		"":                                 "",
		"no such file":                     "no such file",
		"task/" + id + "/rootfs":           "task/app/rootfs",
		`sandbox "` + other + `": no`:      `sandbox "...": no`,
		other:                              "...",
		"web@sha256:" + other + " is gone": "web@sha256:" + other + " is gone",
		other + "0":                        other + "0",
	} {
		if got := steady(in, id, "app"); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}

// TestSteadyIsSteady: what has no ID stays, and once is enough.
func TestSteadyIsSteady(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringMatching(`([0-9a-f]{60,66}|[ -~]{0,5}){0,4}`).Draw(t, "s")
		once := steady(s, "", "")
		if steady(once, "", "") != once {
			t.Errorf("%q became %q and then %q", s, once, steady(once, "", ""))
		}
		if len(s) < idLength && once != s {
			t.Errorf("%q became %q", s, once)
		}
	})
}
