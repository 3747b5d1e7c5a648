package containerplan

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestValue(t *testing.T) {
	for _, c := range []struct {
		name, file, want string
		found            bool
		err              string
	}{
		{"one", "K='v'", "v", true, ""},
		{"among others", "A='1'\n\n  # K='no'\n\tK='v' # yes\nB='2'\n", "v", true, ""},
		{"the first", "K='1'\nK='2'", "1", true, ""},
		{"literally", `K='a"b\n$X#'`, `a"b\n$X#`, true, ""},
		{"over lines", "K='a\n b\n\nc' # x", "a\n b\n\nc", true, ""},
		{"another over lines", "A='\nK=x\n'\nK='v'", "v", true, ""},
		{"empty", "K=''", "", true, ""},
		{"nothing, as in a shell", "K= # x", "", true, ""},
		{"a space before the value", "A='1'\nK= 'v'", "", false, "line 2: there must be no space behind the ="},
		{"not there", "A='1'", "", false, ""},
		{"empty file", "", "", false, ""},
		{"lines of another system", "A='1'\r\nK='v'\r\n", "v", true, ""},
		{"what comes later does not count", "K='v'\nbad", "v", true, ""},
		{"no equals sign", "A='1'\nK", "", false, "line 2: there is no ="},
		{"no name", "='v'", "", false, "line 1: there is no name before the ="},
		{"space before it", "K ='v'", "", false, "line 1: there must be no space before the ="},
		{"exported", "export K='v'", "", false, ""},
		{"after one that is exported", "export A='1'\nK='v'", "v", true, ""},
		{"lines of another system in a value", "K='a\r\nb\r\nc'\r\n", "a\nb\nc", true, ""},
		{"no quotes", "K=v", "", false, "line 1: the value must be in single quotes"},
		{"nothing at all", "K=", "", false, "line 1: the value must be in single quotes"},
		{"not closed", "A='1'\nK='v\n\n", "", false, "line 2: the quote is not closed"},
		{"more behind it", "K='v'x", "", false, "line 1: unexpected text after the closing quote"},
	} {
		value, found, err := ParseEnvFile([]byte(c.file), "K").Value("K")
		text := ""
		if err != nil {
			text = err.Error()
		}
		if value != c.want || found != c.found || text != c.err {
			t.Errorf("%s: %q, %v, %q", c.name, value, found, text)
		}
	}
}

// TestWritten: whatever has no quote in it comes back as it was written.
func TestWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.MapOf(rapid.StringMatching(`[A-Z_]{1,3}`), rapid.StringMatching(`[^'\r]{0,20}`)).Draw(t, "values")
		var file strings.Builder
		for k, v := range values {
			file.WriteString(rapid.SampledFrom([]string{"", "\n", "# x\n", "  "}).Draw(t, "before") + k + "='" + v + "'\n")
		}
		parsed := ParseEnvFile([]byte(file.String()), slices.Collect(maps.Keys(values))...)
		for k, v := range values {
			if got, found, err := parsed.Value(k); err != nil || !found || got != v {
				t.Fatalf("%s in %q: %q, %v, %v", k, file.String(), got, found, err)
			}
		}
	})
}

// TestLinear has the longest value that a file can have, of as many lines: nothing is copied for a line.
func TestLinear(t *testing.T) {
	file := []byte("K='" + strings.Repeat("\n", MaxEnvFile-4) + "'")
	if n := testing.AllocsPerRun(1, func() { ParseEnvFile(file, "K") }); n > 10 {
		t.Errorf("%v allocations; want a few", n)
	}
}

// TestKeepsWhatIsWanted: of a file with tens of thousands of variables those stay that somebody asks for.
func TestKeepsWhatIsWanted(t *testing.T) {
	file := strings.Repeat("OTHER='"+strings.Repeat("x", 100)+"'\n", 10_000) + "K='v'\nL='w'\nK='again'"
	f := ParseEnvFile([]byte(file), "K", "NONE", "K")
	if f.Bytes() != len("Kv") || len(f.values) != 1 {
		t.Errorf("%d bytes and %d variables are kept", f.Bytes(), len(f.values))
	}
}

func FuzzValue(f *testing.F) {
	f.Add("K='v'\nA='\n'", "K")
	f.Fuzz(func(t *testing.T, file, key string) {
		if v, found, err := ParseEnvFile([]byte(file), key).Value(key); len(v) > len(file) || err != nil && found {
			t.Errorf("%q, %v, %v", v, found, err)
		}
	})
}
