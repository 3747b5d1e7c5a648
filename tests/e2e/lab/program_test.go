package lab

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
)

// TestProgramsAreKept: a program stays where it is when another is built, and goes when nobody has used it for long.
//
//tier:unit
func TestProgramsAreKept(t *testing.T) {
	bin, linked := filepath.Join(t.TempDir(), "bin"), filepath.Join(t.TempDir(), "prog")
	keep := func(text string) string {
		t.Helper()
		check.Fatal(t, os.WriteFile(linked, []byte(text), 0o755))
		path := check.Value(ownProgram{name: "prog"}.keep(bin, linked))(t)
		got, err := os.ReadFile(path)
		if err != nil || string(got) != text {
			t.Fatalf("%s has %q, %v; want %q", path, got, err, text)
		}
		return path
	}
	one, two := keep("one"), keep("two")
	if one == two || keep("one") != one {
		t.Fatalf("kept are %s and %s", one, two)
	}
	// Another program, whose name begins as this one's does.
	other := filepath.Join(bin, "prog-race-0123456789abcdef")
	check.Fatal(t, os.Mkdir(other, 0o755))
	old := time.Now().Add(-2 * keptUnused)
	for _, dir := range []string{filepath.Dir(one), filepath.Dir(two), other} {
		check.Fatal(t, os.Chtimes(dir, old, old))
	}
	keep("two")   // it is used
	keep("three") // what is built anew makes room
	for path, want := range map[string]bool{one: false, two: true, other: true} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s: %v; want it there: %v", path, err, want)
		}
	}
}

//tier:unit
func TestRemember(t *testing.T) {
	builds := 0
	build := func(err error) func() (string, error) {
		return func() (string, error) {
			if builds++; err != nil {
				return "", err
			}
			return "path", nil
		}
	}
	check.Fails(t, check.Err(remember(t.Name(), build(os.ErrDeadlineExceeded))), "no error")
	for range 2 {
		if path, err := remember(t.Name(), build(nil)); path != "path" || err != nil {
			t.Errorf("remembered is %q, %v", path, err)
		}
	}
	check.Equal(t, builds, 2, "built %d times; want 2: a failure is not remembered", builds)
}
