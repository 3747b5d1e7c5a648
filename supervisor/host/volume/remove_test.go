package volume

import (
	"os"
	"path/filepath"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/mounts"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

// A mount of the same file system that somebody else made: nothing but
// mountinfo and the kernel's own refusal tells it from a directory.
func TestRemovalRefusesMounts(t *testing.T) {
	hosttest.NeedRoot(t)
	l := newLab(t)
	precious := t.TempDir()
	hosttest.Write(t, filepath.Join(precious, "file"), "precious")
	path := l.mustMount(newPod(), emptyDir("data", v1.EmptyDirVolumeSource{}))
	hosttest.Write(t, filepath.Join(path, "other"), "x")
	point := filepath.Join(l.root, "kubelet/pods/u1/volumes/kubernetes.io~configmap/m/in here/deep")
	check.Fatal(t, os.MkdirAll(point, 0o755))
	unmount := hosttest.Bind(t, precious, point)

	hosttest.WantError(t, l.unmount("u1"), port.StateConflict, "UnmountPod u1", "still mounted, nothing was removed", point)
	hosttest.WantError(t, l.remove(port.PodDirs{UID: "u1"}), port.StateConflict, point)
	hosttest.WantMode(t, filepath.Join(path, "other"), 0o600)

	// Mounted after mountinfo was read: the kernel refuses.
	read := l.mounts
	l.mounts = func() ([]mounts.Mount, error) { return nil, nil }
	for range 2 {
		hosttest.WantError(t, l.unmount("u1"), port.StateConflict, point+" is mounted")
	}
	if b, err := os.ReadFile(filepath.Join(precious, "file")); string(b) != "precious" {
		t.Fatalf("the mount was emptied: %v", err)
	}
	l.mounts = read
	unmount()
	check.Fatal(t, l.unmount("u1"))
	hosttest.WantMode(t, filepath.Join(precious, "file"), 0o600)
}

// Of a pod that has no volumes of its own nobody asks what is mounted.
func TestNothingToUnmount(t *testing.T) {
	hosttest.NeedRoot(t)
	l := newLab(t)
	p := newPod()
	check.Fatal(t, l.prepare(p))
	l.mustMount(p, hostPath(t.TempDir(), v1.HostPathDirectory))
	read := l.mounts
	l.mounts = func() ([]mounts.Mount, error) {
		t.Error("all that is mounted was read")
		return read()
	}
	for range 2 {
		check.Fatal(t, l.unmount("u1"))
	}
	// One that is mounted on the very directory is not nothing.
	l.mounts = read
	check.Fatal(t, l.prepare(p))
	point := filepath.Join(l.pods.Real, "u1", volumesDir)
	unmount := hosttest.Bind(t, t.TempDir(), point)
	hosttest.WantError(t, l.unmount("u1"), port.StateConflict, "UnmountPod u1", point)
	unmount()
	check.Fatal(t, l.unmount("u1"))
}

func TestRemovalRefusesAMountedFile(t *testing.T) {
	hosttest.NeedRoot(t)
	l := newLab(t)
	source := filepath.Join(t.TempDir(), "file")
	hosttest.Write(t, source, "precious")
	point := filepath.Join(l.mustMount(newPod(), emptyDir("data", v1.EmptyDirVolumeSource{})), "f")
	hosttest.Write(t, point, "")
	hosttest.Bind(t, source, point)
	l.mounts = func() ([]mounts.Mount, error) { return nil, nil }
	hosttest.WantError(t, l.unmount("u1"), port.StateConflict, point+" is mounted")
	hosttest.WantMode(t, source, 0o600)
}
