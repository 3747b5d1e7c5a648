package suite

import (
	"slices"
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
)

func TestMatcher(t *testing.T) {
	names := []string{"TestProbes", "TestHooks", "TestCSI", "TestCSIVolume"}
	for run, want := range map[string][]string{
		"":                     names,
		"Probe|Hook":           {"TestProbes", "TestHooks"},
		"^TestCSI$/block":      {"TestCSI"},
		"^(TestCSI|TestHo.*)$": {"TestCSI", "TestHooks"},
		"Probes/a|^TestCSI$/b": {"TestProbes", "TestCSI"},
		"Test[/|]x":            nil,
		"(":                    names,
	} {
		var got []string
		for _, name := range names {
			if matcher(run)(name) {
				got = append(got, name)
			}
		}
		slices.Sort(want)
		slices.Sort(got)
		check.Same(t, got, want, "-run %q", run)
	}
}
