package suite

import (
	"slices"
	"sync"
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
)

var source = sync.OnceValues(func() (*Source, error) { return Load("../..") })

func load(t *testing.T) *Source {
	t.Helper()
	s := check.Value(source())(t)
	return s
}

// TestTiers: each test of tests/e2e names its tier, and why it is not run for each change if it is not.
func TestTiers(t *testing.T) {
	tiers := map[string]string{}
	for _, test := range load(t).Tests() {
		name := test.fullName()
		if !slices.Contains(Tiers, test.Tier) {
			t.Errorf("%s: %q is no tier: the line above it is to be //tier: and one of %v", name, test.Tier, Tiers)
		}
		if (test.Reason != "") != (test.Tier == All) {
			t.Errorf("%s: a test has a reason if it is of tier all, and no other", name)
		}
		if other, ok := tiers[test.Name]; ok && other != test.Tier {
			t.Errorf("%s is of tier %s, and another test of that name of tier %s: go test takes one list of names for all packages",
				name, test.Tier, other)
		}
		tiers[test.Name] = test.Tier
	}
	if len(tiers) == 0 {
		t.Error("there are no tests in tests/e2e")
	}
}
