package host

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/actors/decide/blockfs"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

// TestMountDevice: a child formats and mounts it.
func TestMountDevice(t *testing.T) {
	hosttest.NeedRoot(t)
	l, disk, point := newLab(t), hosttest.NewLoop(t, 16<<20), filepath.Join(t.TempDir(), "point")
	if err := os.Mkdir(point, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := l.mountDevice(t.Context(), &blockfs.Want{Device: disk.Device}, point); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(point, "lost+found")); err != nil {
		t.Error(err)
	}
	if err := unix.Unmount(point, 0); err != nil {
		t.Error(err)
	}
}
