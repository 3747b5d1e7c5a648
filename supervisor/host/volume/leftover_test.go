package volume

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/containerplan"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/mounts"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

// mounted makes a directory, and mounts a file system in memory there. It is not taken down by the test.
func mounted(t *testing.T, point string) {
	t.Helper()
	check.Fatal(t, os.MkdirAll(point, 0o755))
	check.Fatal(t, unix.Mount("left", point, "tmpfs", 0, "size=1m"))
}

// detach takes down what a test that has failed leaves mounted.
func (l *lab) detach() {
	for _, m := range slices.Backward(mounts.Below(check.Value(mounts.Now())(l.t), l.root)) {
		check.Error(l.t, unix.Unmount(m.Point, unix.MNT_DETACH))
	}
}

// TestLeftInEmptyDir: what a pod has mounted in its emptyDirs, and left, is unmounted with them, and nothing of it is
// removed.
func TestLeftInEmptyDir(t *testing.T) {
	hosttest.NeedRoot(t)
	l := newLab(t)
	t.Cleanup(l.detach)
	precious := t.TempDir()
	hosttest.Write(t, filepath.Join(precious, "file"), "precious")
	disk := l.mustMount(newPod(), emptyDir("disk", v1.EmptyDirVolumeSource{}))
	memory := l.mustMount(newPod(), emptyDir("memory", v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}))
	point := filepath.Join(disk, "in here", "deep")
	check.Fatal(t, os.MkdirAll(point, 0o755))
	check.Fatal(t, unix.Mount(precious, point, "", unix.MS_BIND, ""))
	mounted(t, filepath.Join(memory, "a"))
	mounted(t, filepath.Join(memory, "a/b"))
	// The older one lies in the newer one.
	check.Fatal(t, unix.Mount("", memory, "", unix.MS_PRIVATE, ""))
	mounted(t, filepath.Join(memory, "older"))
	mounted(t, filepath.Join(memory, "newer"))
	check.Fatal(t, unix.Mount("", filepath.Join(memory, "newer"), "", unix.MS_PRIVATE, ""))
	check.Fatal(t, os.Mkdir(filepath.Join(memory, "newer/in"), 0o755))
	check.Fatal(t, unix.Mount(filepath.Join(memory, "older"), filepath.Join(memory, "newer/in"), "", unix.MS_MOVE, ""))
	// By subPath, and in a file.
	paths := check.Value(l.subPaths(containerplan.SubPath{Volume: "disk", Root: disk, SubPath: "part"}))(t)
	mounted(t, filepath.Join(paths[0], "x"))
	hosttest.Write(t, filepath.Join(disk, "bound"), "")
	check.Fatal(t, unix.Mount(filepath.Join(precious, "file"), filepath.Join(disk, "bound"), "", unix.MS_BIND, ""))

	hosttest.WantError(t, l.remove(port.PodDirs{UID: "u1"}), port.StateConflict, "nothing was removed")
	check.Fatal(t, l.unmount("u1"))
	for _, m := range mounts.Below(check.Value(mounts.Now())(t), l.root) {
		t.Errorf("still mounted: %v", m)
	}
	if text := string(check.Value(os.ReadFile(filepath.Join(precious, "file")))(t)); text != "precious" {
		t.Errorf("the mount was emptied: %q", text)
	}
	check.Fatal(t, l.remove(port.PodDirs{UID: "u1"}))
	hosttest.WantGone(t, filepath.Join(l.root, "kubelet/pods/u1"))
}

// TestLeftInSubPath: what a pod has mounted within a part of a volume of a CSI driver is unmounted before the driver is
// asked for the volume.
func TestLeftInSubPath(t *testing.T) {
	hosttest.NeedRoot(t)
	l := newLab(t)
	t.Cleanup(l.detach)
	volume := filepath.Join(l.root, "kubelet/pods/u1/volumes/kubernetes.io~csi/disk/mount")
	check.Fatal(t, os.MkdirAll(volume, 0o755))
	paths := check.Value(l.subPaths(containerplan.SubPath{Volume: "disk", Root: volume, SubPath: "part"}))(t)
	mounted(t, filepath.Join(paths[0], "x"))
	mounted(t, filepath.Join(paths[0], "x/y"))
	check.Fatal(t, l.UnmountSubPaths(t.Context(), "u1"))
	for _, m := range mounts.Below(check.Value(mounts.Now())(t), paths[0]) {
		t.Errorf("still mounted: %v", m)
	}
}

// TestLeftInSubPathOfAnother: what another pod has mounted within a volume of a CSI driver that both have stays.
func TestLeftInSubPathOfAnother(t *testing.T) {
	hosttest.NeedRoot(t)
	l := newLab(t)
	t.Cleanup(l.detach)
	dir := filepath.Join(l.root, "staged")
	check.Fatal(t, os.MkdirAll(dir, 0o755))
	hosttest.Bind(t, dir, dir)
	check.Fatal(t, unix.Mount("", dir, "", unix.MS_SHARED, ""))
	var volumes []string
	for _, uid := range []string{"u1", "u2"} {
		volume := filepath.Join(l.root, "kubelet/pods", uid, "volumes/kubernetes.io~csi/disk/mount")
		check.Fatal(t, os.MkdirAll(volume, 0o755))
		check.Fatal(t, unix.Mount(dir, volume, "", unix.MS_BIND, ""))
		volumes = append(volumes, volume)
	}
	part := check.Value(l.subPaths(containerplan.SubPath{Volume: "disk", Root: volumes[0], SubPath: "part"}))(t)[0]
	mounted(t, filepath.Join(volumes[1], "part/x"))
	check.Count(t, l.countMounts(filepath.Join(part, "x")), 1, "the pod that ends sees it %d times")
	check.Fatal(t, l.UnmountSubPaths(t.Context(), "u1"))
	check.Count(t, l.countMounts(part), 0, "its part is mounted %d times")
	check.Count(t, l.countMounts(filepath.Join(volumes[1], "part/x")), 1, "the other pod has it %d times")
}

// TestMountedWithinAVolume: what the machine has mounted in a directory since it is a volume of a pod is seen in the
// volume too. It stays when the volume is unmounted, or another directory takes the place of a part of it.
func TestMountedWithinAVolume(t *testing.T) {
	hosttest.NeedRoot(t)
	l := newLab(t)
	t.Cleanup(l.detach)
	dir := filepath.Join(l.root, "srv")
	check.Fatal(t, os.MkdirAll(filepath.Join(dir, "part"), 0o755))
	hosttest.Bind(t, dir, dir)
	check.Fatal(t, unix.Mount("", dir, "", unix.MS_SHARED, ""))
	volume := filepath.Join(l.root, "kubelet/pods/u1/volumes/kubernetes.io~local-volume/data")
	check.Fatal(t, os.MkdirAll(volume, 0o755))
	check.Fatal(t, unix.Mount(dir, volume, "", unix.MS_BIND, ""))
	stays := func(points ...string) {
		t.Helper()
		for _, p := range points {
			if n := l.countMounts(p); n != 1 {
				t.Errorf("%s is mounted %d times", p, n)
			}
		}
	}

	sub := containerplan.SubPath{Volume: "v", Root: dir, SubPath: "part"}
	part := check.Value(l.subPaths(sub))(t)[0]
	mounted(t, filepath.Join(dir, "part/x"))
	mounted(t, filepath.Join(dir, "part/x/y"))
	stays(filepath.Join(part, "x/y"), filepath.Join(volume, "part/x/y"))
	check.Fatal(t, os.Rename(filepath.Join(dir, "part"), filepath.Join(dir, "old")))
	check.Value(l.subPaths(sub))(t)
	stays(part, filepath.Join(dir, "old/x"), filepath.Join(dir, "old/x/y"))

	mounted(t, filepath.Join(dir, "part/z"))
	stays(filepath.Join(part, "z"), filepath.Join(volume, "part/z"))
	check.Fatal(t, l.UnmountSubPaths(t.Context(), "u1"))
	check.Fatal(t, l.unmount("u1"))
	for _, m := range mounts.Below(check.Value(mounts.Now())(t), filepath.Join(l.root, "kubelet")) {
		t.Errorf("still mounted: %v", m)
	}
	stays(filepath.Join(dir, "old/x"), filepath.Join(dir, "old/x/y"), filepath.Join(dir, "part/z"))
}

// TestLeftInUse: what a process still uses is named, and nothing is removed.
func TestLeftInUse(t *testing.T) {
	hosttest.NeedRoot(t)
	l := newLab(t)
	t.Cleanup(l.detach)
	point := filepath.Join(l.mustMount(newPod(), emptyDir("disk", v1.EmptyDirVolumeSource{})), "x")
	mounted(t, point)
	hosttest.Write(t, filepath.Join(point, "file"), "")
	f := check.Value(os.Open(filepath.Join(point, "file")))(t)
	hosttest.WantError(t, l.unmount("u1"), port.StateConflict, "unmount "+point+": it is in use by a process")
	hosttest.WantMode(t, filepath.Join(point, "file"), 0o600)
	check.Fatal(t, f.Close())
	check.Fatal(t, l.unmount("u1"))
}

// TestLeftBehindALink: a directory on the way was replaced by a link after the mounts were read. What is mounted where it
// leads stays.
func TestLeftBehindALink(t *testing.T) {
	hosttest.NeedRoot(t)
	l := newLab(t)
	path := l.mustMount(newPod(), emptyDir("disk", v1.EmptyDirVolumeSource{}))
	elsewhere := t.TempDir()
	check.Fatal(t, os.Mkdir(filepath.Join(elsewhere, "x"), 0o755))
	unmount := hosttest.Bind(t, t.TempDir(), filepath.Join(elsewhere, "x"))
	check.Fatal(t, os.Symlink(elsewhere, filepath.Join(path, "dir")))
	read := l.mounts
	l.mounts = func() ([]mounts.Mount, error) {
		return []mounts.Mount{{Point: filepath.Join(path, "dir/x"), Type: "ext4"}}, nil
	}
	if err := l.unmount("u1"); err == nil || l.countMounts(filepath.Join(elsewhere, "x")) != 1 {
		t.Errorf("%v; mounted %d times", err, l.countMounts(filepath.Join(elsewhere, "x")))
	}
	l.mounts = read
	unmount()
	check.Fatal(t, l.unmount("u1"))
}

// TestWrittenBelowAMountPoint: what a container wrote while its volume was not mounted stays, and is named. All else goes.
func TestWrittenBelowAMountPoint(t *testing.T) {
	l := newLab(t)
	check.Fatal(t, l.prepare(newPod()))
	pod := filepath.Join(l.root, "kubelet/pods/u1")
	at := func(name string) string { return filepath.Join(pod, name) }
	for _, name := range []string{"empty", "dirs/more"} {
		check.Fatal(t, os.MkdirAll(at("volumes/kubernetes.io~iscsi/"+name), 0o755))
	}
	part := at("volume-subpaths/disk/app/1/file")
	for _, name := range []string{
		"volumes/kubernetes.io~nfs/data/db/file", "volumes/kubernetes.io~secret/s/..data/x", "volumes/kubernetes.io~empty-dir/e/f",
		"volume-subpaths/disk/app/0", "volume-subpaths/disk/app/1/file", "plugins/kubernetes.io~empty-dir/e/ready",
	} {
		hosttest.Write(t, at(name), "x")
	}
	const words = "was written when no volume was mounted there, and is not removed"
	for _, written := range []string{part, at("volumes/kubernetes.io~nfs/data/db/file")} {
		for range 2 {
			hosttest.WantError(t, l.unmount("u1"), port.StateConflict, written+" "+words)
			hosttest.WantError(t, l.remove(port.PodDirs{UID: "u1"}), port.StateConflict, written+" "+words)
		}
		hosttest.WantMode(t, written, 0o600)
		check.Fatal(t, os.Remove(written))
	}
	for _, name := range []string{"volumes/kubernetes.io~iscsi", "volumes/kubernetes.io~secret", "volumes/kubernetes.io~empty-dir", "volume-subpaths"} {
		hosttest.WantGone(t, at(name))
	}
	check.Fatal(t, l.unmount("u1"))
	check.Fatal(t, l.remove(port.PodDirs{UID: "u1"}))
	hosttest.WantGone(t, pod)
}
