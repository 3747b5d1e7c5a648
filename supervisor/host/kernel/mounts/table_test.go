package mounts

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

// TestMountTable: what is mounted is read anew when it has changed, at once, and only then.
func TestMountTable(t *testing.T) {
	hosttest.NeedRoot(t)
	table := NewTable()
	defer table.Close()
	read := func() []Mount {
		t.Helper()
		return check.Value(table.Read())(t)
	}
	point := filepath.Join(t.TempDir(), "a b")
	check.Fatal(t, os.Mkdir(point, 0o755))
	there := func() int {
		n := 0
		for _, m := range read() {
			if m.Point == point {
				n++
			}
		}
		return n
	}
	for round := range 3 {
		for n := range 3 {
			if got := there(); got != n {
				t.Fatalf("round %d: %d mounts are seen of %d", round, got, n)
			}
			check.Fatal(t, unix.Mount("none", point, "tmpfs", 0, "size=4k"))
		}
		for n := range 3 {
			if got := there(); got != 3-n {
				t.Fatalf("round %d: %d mounts are seen of %d", round, got, 3-n)
			}
			check.Fatal(t, unix.Unmount(point, 0))
		}
	}
	reused := false
	for range 100 { // others may mount meanwhile
		before := read()
		after := read()
		fresh := check.Value(Now())(t)
		if reused = &before[0] == &after[0] && slices.Equal(after, fresh); reused {
			break
		}
	}
	if !reused {
		t.Error("it is read each time, though nothing has changed")
	}
	table.Close()
	if _, err := table.Read(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("after its end: %v", err)
	}
}
