package subpath

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/supervisor/host/kernel/mounts"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

// TestStale: what can't be opened, because its directory was replaced on its server, is mounted anew.
func TestStale(t *testing.T) {
	hosttest.NeedRoot(t)
	root := t.TempDir()
	dir := filepath.Join(root, "dir")
	check.Fatal(t, os.Mkdir(dir, 0o755))
	p := Part{Volume: root, Sub: "dir", Target: filepath.Join(t.TempDir(), "0")}
	mount := func(want int, what string) {
		t.Helper()
		check.Fatal(t, Mount([]Part{p}))
		check.Count(t, len(mounts.Below(check.Value(mounts.Now())(t), p.Target)), want, what+": %d mounts")
	}
	mount(1, "at first")
	mount(1, "again")
	info := check.Value(os.Stat(dir))(t)
	if stands, err := p.same(-1, unix.ESTALE, info); stands || err != nil {
		t.Errorf("a stale mount stands: %v, %v", stands, err)
	}
	if stands, err := p.same(-1, unix.ELOOP, info); stands || !errors.Is(err, unix.ELOOP) {
		t.Errorf("what is not mounted and can't be opened: %v, %v", stands, err)
	}
	mount(1, "after it was stale")
	check.Fatal(t, unix.Unmount(p.Target, 0))
}
