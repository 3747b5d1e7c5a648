package containerplan

import (
	"runtime"
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

func expandIn(s string, value func(string) (string, bool)) string {
	r := Expansion{Left: MaxExpanded}
	out, err := r.Expand(s, value)
	if err != nil {
		panic(err)
	}
	return out
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
		check.Equal(t, expandIn(in, vars), want, "expand(%q)", in)
	}
}

// TestExpansionRoom: no more is made than fits, whatever it would become.
func TestExpansionRoom(t *testing.T) {
	vars := lookup(map[string]string{"A": strings.Repeat("a", 1<<20)})
	for _, c := range []struct {
		name, in string
		left     int
		err      error
	}{
		{"fits", strings.Repeat("$(A)", 6), MaxExpanded, nil},
		{"too long", strings.Repeat("$(A)", 6) + "b", MaxExpanded, ErrTooLong},
		{"much too long", strings.Repeat("$(A)", 100_000), 10 * MaxExpanded, ErrTooLong},
		{"literal", strings.Repeat("a", MaxExpanded+1), 10 * MaxExpanded, ErrTooLong},
		{"nothing is left", "$(A)", 1<<20 - 1, ErrTooLong},
	} {
		r := Expansion{Left: c.left}
		out, err := r.Expand(c.in, vars)
		if err != c.err || len(out) > MaxExpanded+1<<20 {
			t.Errorf("%s: %v, %d bytes", c.name, err, len(out))
		}
	}
	r := Expansion{Left: 3 << 20}
	if _, err := r.All([]string{"$(A)", "$(A)", "$(A)$(A)"}, vars); err != ErrTooLong {
		t.Errorf("together: %v", err)
	}
}

// TestMadeOnce: what is made takes as much as it is long, and what does not fit takes nothing.
func TestMadeOnce(t *testing.T) {
	vars := lookup(map[string]string{"A": strings.Repeat("a", 1<<10)})
	for _, c := range []struct {
		name      string
		in        string
		err       error
		atMostKiB uint64
	}{
		{"fits", strings.Repeat("$(A)", 5<<10), nil, 5<<10 + 64},
		{"too long", strings.Repeat("$(A)", 6<<10+1), ErrTooLong, 64},
	} {
		var before, after runtime.MemStats
		room := Expansion{Left: MaxExpanded}
		runtime.ReadMemStats(&before)
		_, err := room.Expand(c.in, vars)
		runtime.ReadMemStats(&after)
		check.Equal(t, err, c.err, "%s", c.name)
		check.AtMost(t, (after.TotalAlloc-before.TotalAlloc)>>10, c.atMostKiB, "%s: KiB that it took", c.name)
	}
}

// TestNeverClosed: what closes no reference is not looked for again at each.
func TestNeverClosed(t *testing.T) {
	asked := 0
	in := "$(A)" + strings.Repeat("$(", 1<<19)
	if out := expandIn(in, func(name string) (string, bool) { asked++; return "", name == "A" }); out != in[4:] || asked != 2*(1+1<<19) {
		t.Errorf("%d bytes, asked for %d names", len(out), asked)
	}
}

func TestExpandProperties(t *testing.T) {
	piece := rapid.SampledFrom([]string{"$", "$$", "(", ")", "$(", "$(A)", "$(NOPE)", "x", "ü", "\xff", " "})
	rapid.Check(t, func(t *rapid.T) {
		s := strings.Join(rapid.SliceOfN(piece, 0, 12).Draw(t, "pieces"), "")
		vars := lookup(map[string]string{"A": "value"})
		none := lookup(nil)

		expandIn(s, vars) // does not panic
		if !strings.Contains(s, "$") && expandIn(s, vars) != s {
			t.Fatalf("changed %q, in which there is nothing to expand", s)
		}
		if escaped := strings.ReplaceAll(s, "$", "$$"); expandIn(escaped, vars) != s {
			t.Fatalf("escaping %q does not protect it: %q", s, expandIn(escaped, vars))
		}
		if !strings.Contains(s, "$$") && expandIn(s, none) != s {
			t.Fatalf("without variables %q became %q", s, expandIn(s, none))
		}
	})
}

func FuzzExpand(f *testing.F) {
	for _, s := range []string{"", "$", "$(", "$(A)$$(A)$(", "$()", "a$(A)b"} {
		f.Add(s, "v$(A)")
	}
	f.Fuzz(func(t *testing.T, s, v string) {
		got := expandIn(s, lookup(map[string]string{"A": v}))
		if n := strings.Count(s, "$"); len(got) > len(s)+n*len(v) {
			t.Fatalf("expand(%q) grew to %d bytes", s, len(got))
		}
	})
}
