package volume

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/mounts"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

// TestLocalDevice: a local volume on a device is formatted once, mounted for all pods where a kubelet has it, and unmounted
// with the last of them.
func TestLocalDevice(t *testing.T) {
	hosttest.NeedRoot(t)
	for fsType, size := range map[string]int64{"": 16 << 20, "xfs": 320 << 20} {
		t.Run(fsType, func(t *testing.T) {
			l, disk := newLab(t), hosttest.NewLoop(t, size)
			global := filepath.Join(l.root, "kubelet/plugins/kubernetes.io/local-volume/mounts/pv-1")
			source := local(disk.Device)
			if fsType != "" {
				source.Local.FSType = &fsType
			}
			mount := func(uid types.UID) string {
				t.Helper()
				p := newPod(withFSGroup)
				p.UID = uid
				return check.Value(l.mountRequest(ctx(t), claimed(p, source)))(t)
			}
			one := mount("u1")
			hosttest.Write(t, filepath.Join(one, "file"), "kept")
			two := mount("u2")
			check.Count(t, l.countMounts(global)+l.countMounts(one)+l.countMounts(two), 3, "%d mounts")
			if gid, mode := groupAndMode(t, two); gid != 2000 || mode != 0o775|os.ModeDir|os.ModeSetgid {
				t.Errorf("group %d, mode %s", gid, mode)
			}
			check.Fatal(t, l.unmount("u1"))
			check.Count(t, l.countMounts(global), 1, "after the end of the first pod the device is mounted %d times")
			if text, err := os.ReadFile(filepath.Join(two, "file")); string(text) != "kept" {
				t.Errorf("the other pod has %q, %v", text, err)
			}
			check.Fatal(t, l.unmount("u2"))
			hosttest.WantGone(t, global)

			// As a kubelet leaves it: only the device is mounted.
			check.Fatal(t, os.MkdirAll(global, 0o750))
			check.Until(t, "it is mounted", func() bool { return exec.Command("mount", disk.Device, global).Run() == nil })
			three := mount("u3")
			if text, err := os.ReadFile(filepath.Join(three, "file")); string(text) != "kept" {
				t.Errorf("the next pod has %q, %v", text, err)
			}
			check.Fatal(t, l.unmount("u3"))
			hosttest.WantGone(t, global)
		})
	}
}

// TestLocalDeviceLeft: a device that no pod has any more, as a kubelet leaves it that is killed when a pod has just ended, is
// unmounted. One that a pod has stays, and so does a directory at which nothing is mounted yet.
func TestLocalDeviceLeft(t *testing.T) {
	hosttest.NeedRoot(t)
	l, disk := newLab(t), hosttest.NewLoop(t, 16<<20)
	all := filepath.Join(l.root, "kubelet/plugins/kubernetes.io/local-volume/mounts")
	check.Error(t, l.ReleaseLeft(ctx(t)))
	used := claimed(podOf("u2"), local(hosttest.NewLoop(t, 16<<20).Device))
	used.Persistent.Name = "pv-2"
	check.Value(l.mountRequest(ctx(t), used))(t)
	hosttest.Run(t, "mkfs.ext4", "-q", disk.Device)
	for _, name := range []string{"pv-1", "pv-3"} {
		check.Fatal(t, os.Mkdir(filepath.Join(all, name), 0o750))
	}
	left := filepath.Join(all, "pv-1")
	check.Until(t, "it is mounted", func() bool { return exec.Command("mount", disk.Device, left).Run() == nil })

	next := newLabAt(t, l.root)
	f := check.Value(os.Open(left))(t)
	check.Says(t, next.ReleaseLeft(ctx(t)), "in use by a process", "one that something else uses")
	check.Fatal(t, f.Close())
	check.Fatal(t, next.ReleaseLeft(ctx(t)))
	hosttest.WantGone(t, left)
	check.Count(t, l.countMounts(filepath.Join(all, "pv-2")), 1, "that of a pod is mounted %d times")
	check.Error(t, check.Err(os.Stat(filepath.Join(all, "pv-3"))))
	check.Fatal(t, l.unmount("u2"))
}

// TestLocalDeviceBusy: a device that something else uses where it is mounted keeps its pod, until it is free.
func TestLocalDeviceBusy(t *testing.T) {
	hosttest.NeedRoot(t)
	l, disk := newLab(t), hosttest.NewLoop(t, 16<<20)
	global := filepath.Join(l.root, "kubelet/plugins/kubernetes.io/local-volume/mounts/pv-1")
	check.Value(l.mountRequest(ctx(t), claimed(newPod(), local(disk.Device))))(t)
	f := check.Value(os.Open(global))(t)
	hosttest.WantError(t, l.unmount("u1"), port.StateConflict, global, "in use by a process")
	check.Fatal(t, f.Close())
	check.Fatal(t, l.unmount("u1"))
	hosttest.WantGone(t, global)
}

// TestLocalDeviceGrown: the file system of a device that has become bigger grows under the pods that have it. One that is not
// mounted is not touched, and directories and devices of pods are as big as they are.
func TestLocalDeviceGrown(t *testing.T) {
	hosttest.NeedRoot(t)
	const size = 320 << 20
	l, disk := newLab(t), hosttest.NewLoop(t, size)
	source := local(disk.Device)
	source.Local.FSType = new("xfs")
	r := claimed(newPod(), source)
	grow := func(pv *v1.PersistentVolume) error {
		return hosttest.Wait(func(done func(error)) {
			l.GrowVolume(ctx(t), port.GrowVolume{Pod: r.Pod.UID, Persistent: pv}, done)
		})
	}
	hosttest.WantError(t, grow(r.Persistent), port.StateConflict, "is not mounted")
	path := check.Value(l.mountRequest(ctx(t), r))(t)
	disk.Grow(2 * size)
	check.Fatal(t, grow(r.Persistent))
	var fs unix.Statfs_t
	check.Fatal(t, unix.Statfs(path, &fs))
	if n := int64(fs.Blocks) * fs.Bsize; n < 3*size/2 {
		t.Errorf("the pod sees %d bytes", n)
	}
	block := r.Persistent.DeepCopy()
	block.Spec.VolumeMode = new(v1.PersistentVolumeBlock)
	for _, pv := range []*v1.PersistentVolume{block, claimed(newPod(), local(t.TempDir())).Persistent} {
		check.Error(t, grow(pv))
	}
	missing := claimed(newPod(), local(filepath.Join(t.TempDir(), "gone")))
	hosttest.WantError(t, grow(missing.Persistent), port.NotFound, "gone")
	check.Fatal(t, l.unmount("u1"))
}

// TestLocalDeviceRefused: a device is not formatted for a read-only mount. Nothing is mounted then.
func TestLocalDeviceRefused(t *testing.T) {
	hosttest.NeedRoot(t)
	l, disk := newLab(t), hosttest.NewLoop(t, 16<<20)
	r := claimed(newPod(), local(disk.Device))
	r.ReadOnly = true
	_, err := l.mountRequest(ctx(t), r)
	hosttest.WantError(t, err, port.InvalidConfig, "is not formatted for a read-only mount")
	check.Fatal(t, l.unmount("u1"))
	hosttest.WantGone(t, filepath.Join(l.root, "kubelet/plugins/kubernetes.io/local-volume/mounts/pv-1"))
}

// TestMountedWithinADevice: what a container has mounted within a volume is seen where the agent has the device as well,
// and goes with the last pod that has it.
func TestMountedWithinADevice(t *testing.T) {
	hosttest.NeedRoot(t)
	l, disk := newLab(t), hosttest.NewLoop(t, 16<<20)
	t.Cleanup(l.detach)
	hosttest.Bind(t, l.root, l.root)
	check.Fatal(t, unix.Mount("", l.root, "", unix.MS_SHARED, ""))
	global := filepath.Join(l.root, "kubelet/plugins/kubernetes.io/local-volume/mounts/pv-1")
	mount := func(uid types.UID) string {
		return check.Value(l.mountRequest(ctx(t), claimed(podOf(uid), local(disk.Device))))(t)
	}
	one, two := mount("u1"), mount("u2")
	mounted(t, filepath.Join(one, "left"))
	check.Count(t, l.countMounts(filepath.Join(two, "left"))+l.countMounts(filepath.Join(global, "left")), 2, "it is seen at %d places")
	check.Fatal(t, l.unmount("u1"))
	check.Count(t, l.countMounts(filepath.Join(two, "left")), 1, "the other pod has it %d times")

	// Somebody looks at the directories of all pods, and is told of mounts and unmounts.
	copied := filepath.Join(t.TempDir(), "copy")
	check.Fatal(t, os.Mkdir(copied, 0o755))
	check.Fatal(t, unix.Mount(l.root, copied, "", unix.MS_BIND|unix.MS_REC, ""))
	t.Cleanup(func() { check.Error(t, unix.Unmount(copied, unix.MNT_DETACH)) })
	check.Fatal(t, unix.Mount("", copied, "", unix.MS_REC|unix.MS_SLAVE, ""))
	check.Fatal(t, l.unmount("u2"))
	hosttest.WantGone(t, global)
	for _, m := range check.Value(mounts.Now())(t) {
		if m.Source == disk.Device {
			t.Errorf("still mounted: %v", m)
		}
	}
}
