package reread_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/apiclient/reread"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestLook: files are read when one of them has changed, and what was read stays while they can't be.
func TestLook(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	reads, broken := 0, error(nil)
	f := reread.Of(func() (string, error) {
		reads++
		text, err := os.ReadFile(a)
		return string(text), errors.Join(err, broken)
	}, a, b)
	at := time.Now().Add(-time.Hour)
	write := func(path, text string) {
		t.Helper()
		at = at.Add(time.Second)
		check.Fatal(t, os.WriteFile(path, []byte(text), 0o600))
		check.Fatal(t, os.Chtimes(path, at, at))
	}
	want := func(what string, changed bool, value string, times int) {
		t.Helper()
		got, err := f.Look()
		check.Error(t, err)
		check.Equal(t, got, changed, "%s: it has changed", what)
		check.Equal(t, f.Value, value, "%s: the value", what)
		check.Equal(t, reads, times, "%s: readings", what)
	}
	write(a, "1")
	if _, err := f.Look(); !errors.Is(err, fs.ErrNotExist) || reads > 0 {
		t.Errorf("without one of them: %v, %d readings", err, reads)
	}
	write(b, "")
	want("both are there", true, "1", 1)
	want("as before", false, "1", 1)
	write(b, "x")
	want("the other has changed", true, "1", 2)
	write(a, "2")
	broken = errors.New("they do not match")
	if _, err := f.Look(); !errors.Is(err, broken) || f.Value != "1" {
		t.Errorf("they can't be read: %v, %s", err, f.Value)
	}
	broken = nil
	want("they can be read again", true, "2", 4)
}
