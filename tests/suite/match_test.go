package suite

import (
	"slices"
	"testing"
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
		if !slices.Equal(got, want) {
			t.Errorf("-run %q: %v, not %v", run, got, want)
		}
	}
}
