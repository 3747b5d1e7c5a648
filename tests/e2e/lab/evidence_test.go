package lab

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
)

// failing is a test that has failed.
type failing struct {
	*testing.T
	said []string
}

func (f *failing) Failed() bool { return true }

func (f *failing) Logf(format string, args ...any) {
	for _, a := range args {
		f.said = append(f.said, a.(string))
	}
}

// TestEvidence: what is kept of a failed test replaces what was kept before, is where the test says, and is not too much.
//
//tier:unit
func TestEvidence(t *testing.T) {
	t.Setenv(keepVariable, "")
	Collect(t, "", func(context.Context, Evidence) { t.Error("it has not failed") })
	f := &failing{T: t}
	for _, name := range []string{"first", "second"} {
		Collect(f, "", func(_ context.Context, e Evidence) {
			large := filepath.Join(t.TempDir(), "large")
			check.Fatal(t, os.WriteFile(large, []byte(strings.Repeat("x", mostEvidence)+"end"), 0o644))
			e.File(name+".log", large)
			e.File("missing.log", large+"r")
			e.Stacks("stack", os.Getpid())
		})
	}
	dir := f.said[len(f.said)-1]
	t.Cleanup(func() { check.Error(t, os.RemoveAll(dir)) })
	check.Fails(t, check.Err(os.Stat(filepath.Join(dir, "first.log"))), "there is what was kept before")
	for name, want := range map[string]string{
		"second.log": "xend", "missing.log": "no such file or directory\n", "stack": "wchan of thread",
	} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || len(text) > mostEvidence || !strings.Contains(string(text), want) {
			t.Errorf("%s has %d bytes, without %q; %v", name, len(text), want, err)
		}
	}
}

// TestKeep: with KEEP=1, what failed goes on until the file that says how to reach it is removed.
//
//tier:unit
func TestKeep(t *testing.T) {
	t.Setenv(keepVariable, "1")
	t.Setenv("CI", "")
	f := &failing{T: t}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		Collect(f, "here it is", func(context.Context, Evidence) {})
	}()
	repository := check.Value(Repository())(t)
	dir := filepath.Join(repository, ".run/failed/lab", t.Name())
	t.Cleanup(func() { check.Error(t, os.RemoveAll(dir)) })
	file := filepath.Join(dir, "running")
	check.Fatal(t, poll(t.Context(), func() (bool, error) {
		text, err := os.ReadFile(file)
		return err == nil && string(text) == "here it is", nil
	}))
	select {
	case <-ended:
		t.Fatal("it does not wait")
	default:
	}
	check.Fatal(t, os.Remove(file))
	<-ended
}
