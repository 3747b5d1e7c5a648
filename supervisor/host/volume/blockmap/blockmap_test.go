package blockmap

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/troupe-dev/troupe/supervisor/host/kernel/mounts"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

// newMap maps a device until the test ends.
func newMap(t *testing.T, device string) Map {
	t.Helper()
	dir := t.TempDir()
	m := Map{File: filepath.Join(dir, "plugins/x/volumeDevices/pv-1/u1"), Link: filepath.Join(dir, "pods/u1/volumeDevices/x/pv-1")}
	check.Fatal(t, m.Set(device))
	t.Cleanup(func() { check.Error(t, Clear(now(t), m.File)) })
	return m
}

func now(t *testing.T) []mounts.Mount {
	t.Helper()
	return check.Value(mounts.Now())(t)
}

// wantMapped fails unless a device is mapped at a place, or nowhere.
func wantMapped(t *testing.T, device, want string) {
	t.Helper()
	check.Equal(t, check.Value(MappedAt(device))(t), want, "%s is mapped at", device)
}

// TestMapped: a device is found by its number, whatever its name is, and so is a disk by a partition, and a partition by
// its disk, but not by another one.
func TestMapped(t *testing.T) {
	hosttest.NeedRoot(t)
	disk, other := hosttest.NewLoop(t, 16<<20), hosttest.NewLoop(t, 16<<20)
	wantMapped(t, disk.Device, "")
	link := filepath.Join(t.TempDir(), "by-id")
	check.Fatal(t, os.Symlink(disk.Device, link))
	m := newMap(t, disk.Device)
	wantMapped(t, link, m.File)
	wantMapped(t, other.Device, "")
	wantMapped(t, other.Device+"-gone", "")
	wantMapped(t, t.TempDir(), "")

	var parts []string
	for i, start := range []string{"2048", "10240"} {
		n := string(rune('1' + i))
		hosttest.Run(t, "addpart", other.Device, n, start, "4096")
		t.Cleanup(func() { hosttest.Run(t, "delpart", other.Device, n) })
		parts = append(parts, other.Device+"p"+n)
	}
	wantMapped(t, parts[0], "")
	one := newMap(t, parts[0])
	wantMapped(t, other.Device, one.File)
	wantMapped(t, parts[0], one.File)
	wantMapped(t, parts[1], "")
	check.Fatal(t, Clear(now(t), one.File))
	wantMapped(t, parts[1], "")
	whole := newMap(t, other.Device)
	wantMapped(t, parts[1], whole.File)
}
