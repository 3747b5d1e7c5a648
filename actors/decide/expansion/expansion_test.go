package expansion

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/tests/check"
)

func lookup(vars map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		v, ok := vars[name]
		return v, ok
	}
}

func TestExpand(t *testing.T) {
	vars := lookup(map[string]string{"A": "a", "B": "$(A)", "EMPTY": "", "": "nameless", "X Y": "spaced"})
	for in, want := range map[string]string{
		"":               "",
		"plain":          "plain",
		"$(A)":           "a",
		"x$(A)y$(A)z":    "xayaz",
		"$(EMPTY)":       "",
		"$(B)":           "$(A)", // values are not expanded again
		"$(NOPE)":        "$(NOPE)",
		"$$":             "$",
		"$$(A)":          "$(A)",
		"$$$(A)":         "$a",
		"$$$$(A)":        "$$(A)",
		"$":              "$",
		"cost 5$":        "cost 5$",
		"$A":             "$A",
		"${A}":           "${A}",
		"$(A":            "$(A",
		"$($$":           "$($",
		"$($(A)":         "$($(A)", // the name is "$(A"
		"$(A$(A))":       "$(A$(A))",
		"$()":            "nameless",
		"$(X Y)":         "spaced",
		"$ $(A)":         "$ a",
		"\xff$\xff$(A)$": "\xff$\xffa$",
	} {
		check.Equal(t, Expand(in, vars), want, "Expand(%q)", in)
	}
}

func TestExpandProperties(t *testing.T) {
	piece := rapid.SampledFrom([]string{"$", "$$", "(", ")", "$(", "$(A)", "$(NOPE)", "x", "ü", "\xff", " "})
	rapid.Check(t, func(t *rapid.T) {
		s := strings.Join(rapid.SliceOfN(piece, 0, 12).Draw(t, "pieces"), "")
		vars := lookup(map[string]string{"A": "value"})
		none := lookup(nil)

		Expand(s, vars) // does not panic
		if !strings.Contains(s, "$") && Expand(s, vars) != s {
			t.Fatalf("changed %q, in which there is nothing to expand", s)
		}
		if escaped := strings.ReplaceAll(s, "$", "$$"); Expand(escaped, vars) != s {
			t.Fatalf("escaping %q does not protect it: %q", s, Expand(escaped, vars))
		}
		if !strings.Contains(s, "$$") && Expand(s, none) != s {
			t.Fatalf("without variables %q became %q", s, Expand(s, none))
		}
	})
}

func FuzzExpand(f *testing.F) {
	for _, s := range []string{"", "$", "$(", "$(A)$$(A)$(", "$()", "a$(A)b"} {
		f.Add(s, "v$(A)")
	}
	f.Fuzz(func(t *testing.T, s, v string) {
		got := Expand(s, lookup(map[string]string{"A": v}))
		if n := strings.Count(s, "$"); len(got) > len(s)+n*len(v) {
			t.Fatalf("Expand(%q) grew to %d bytes", s, len(got))
		}
	})
}
