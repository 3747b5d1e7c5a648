package volume

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/mounts"
	"github.com/troupe-dev/troupe/supervisor/host/volume/blockmap"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

// ofDevice is a request for a volume with volumeMode Block.
func ofDevice(uid types.UID, source v1.PersistentVolumeSource) port.MountVolume {
	r := claimed(podOf(uid), source)
	r.Persistent.Spec.VolumeMode = new(v1.PersistentVolumeBlock)
	return r
}

// loopsOn are the loop devices that have a file.
func loopsOn(t *testing.T, file string) (out []string) {
	t.Helper()
	found := check.Value(filepath.Glob("/sys/block/loop*/loop/backing_file"))(t)
	for _, path := range found {
		if text, err := os.ReadFile(path); err == nil && strings.TrimSpace(string(text)) == file {
			out = append(out, filepath.Base(filepath.Dir(filepath.Dir(path))))
		}
	}
	return out
}

// cleared takes away what a test that failed has left.
func (l *lab) cleared() {
	all, err := mounts.Now()
	if err != nil {
		l.t.Error(err)
	}
	for _, m := range mounts.Below(all, filepath.Join(l.root, "kubelet/plugins")) {
		if strings.Contains(m.Point, "/volumeDevices/") {
			blockmap.Clear(all, m.Point) //nolint:errcheck // best effort
		}
	}
}

// wantMapped fails unless a pod has a device where a kubelet has it.
func wantMapped(t *testing.T, path, file, link, device string) {
	t.Helper()
	check.Equal(t, path, file, "is at")
	check.Equal(t, check.Value(os.Readlink(link))(t), device, "the link of the pod leads to")
	if !blockmap.Same(file, device) {
		t.Errorf("%s is not %s", file, device)
	}
	if n := loopsOn(t, file); len(n) != 1 {
		t.Errorf("loop devices on it: %v, want one", n)
	}
	if size, is := blockmap.Size(file); !is || size != 16<<20 {
		t.Errorf("its size is %d", size)
	}
}

// TestLocalBlock: a local volume with volumeMode Block is mapped into each pod where a kubelet maps it, once, also after
// the end of an agent at any step, and goes with its pod.
func TestLocalBlock(t *testing.T) {
	hosttest.NeedRoot(t)
	l, disk := newLab(t), hosttest.NewLoop(t, 16<<20)
	t.Cleanup(l.cleared)
	dir := filepath.Join(l.root, "kubelet/plugins/kubernetes.io~local-volume/volumeDevices/pv-1")
	link := func(uid string) string {
		return filepath.Join(l.root, "kubelet/pods", uid, "volumeDevices/kubernetes.io~local-volume/pv-1")
	}
	device := filepath.Join(t.TempDir(), "by-id")
	check.Fatal(t, os.Symlink(disk.Device, device))
	set := func(uid types.UID) {
		t.Helper()
		path := check.Value(l.mountRequest(ctx(t), ofDevice(uid, local(device))))(t)
		wantMapped(t, path, filepath.Join(dir, string(uid)), link(string(uid)), disk.Device)
	}
	end := func(uid types.UID) {
		t.Helper()
		check.Fatal(t, l.unmount(uid))
		hosttest.WantGone(t, filepath.Join(dir, string(uid)))
		hosttest.WantGone(t, filepath.Dir(filepath.Dir(link(string(uid)))))
		check.None(t, loopsOn(t, filepath.Join(dir, string(uid))), "loop devices are left")
	}
	set("u1")
	set("u1")
	set("u2")
	hosttest.WantError(t, l.remove(port.PodDirs{UID: "u1"}), port.StateConflict, "still has the device", "u1")
	end("u1")
	set("u2")
	// Whatever is there of a mapping, the next agent has it complete, or gone.
	file := filepath.Join(dir, "u2")
	for name, undo := range map[string]func() error{
		"no loop device": func() error {
			hosttest.Run(t, "losetup", "--detach", "/dev/"+loopsOn(t, file)[0])
			check.Until(t, "it is closed by all", func() bool { return len(loopsOn(t, file)) == 0 })
			return nil
		},
		"an empty file": func() error { return clearAnd(file, func() error { return os.WriteFile(file, nil, 0o600) }) },
		"no file":       func() error { return clearAnd(file, func() error { return nil }) },
		"no link":       func() error { return os.Remove(link("u2")) },
		"nothing": func() error {
			return errors.Join(clearAnd(file, func() error { return os.Remove(dir) }), os.Remove(link("u2")))
		},
	} {
		if err := undo(); err != nil {
			t.Fatal(name, err)
		}
		set("u2")
		if err := undo(); err != nil {
			t.Fatal(name, err)
		}
		end("u2")
		set("u2")
	}
	end("u2")
	hosttest.WantGone(t, dir)
}

func clearAnd(file string, then func() error) error {
	all, err := mounts.Now()
	if err != nil {
		return err
	}
	return errors.Join(blockmap.Clear(all, file), then())
}

// TestLocalBlockOfKubelet: what a kubelet has mapped is found, and goes with its pod.
func TestLocalBlockOfKubelet(t *testing.T) {
	hosttest.NeedRoot(t)
	l, disk := newLab(t), hosttest.NewLoop(t, 16<<20)
	t.Cleanup(l.cleared)
	file := filepath.Join(l.root, "kubelet/plugins/kubernetes.io~local-volume/volumeDevices/pv-1/u1")
	link := filepath.Join(l.root, "kubelet/pods/u1/volumeDevices/kubernetes.io~local-volume/pv-1")
	kubelet := func() {
		hosttest.Run(t, "sh", "-ec", `mkdir -p "$(dirname "$2")" "$(dirname "$3")"; touch "$2"; mount --bind "$1" "$2"
ln -s "$1" "$3"; losetup --find "$2"`, "sh", disk.Device, file, link)
	}
	kubelet()
	check.Fatal(t, l.unmount("u1"))
	hosttest.WantGone(t, filepath.Dir(file))
	kubelet()
	path := check.Value(l.mountRequest(ctx(t), ofDevice("u1", local(disk.Device))))(t)
	wantMapped(t, path, file, link, disk.Device)
	check.Fatal(t, l.unmount("u1"))
	check.None(t, loopsOn(t, file), "loop devices are left")
}

// TestBlockReplaced: a pod whose volume is another device now gets this one. What is no device is refused.
func TestBlockReplaced(t *testing.T) {
	hosttest.NeedRoot(t)
	l, one, two := newLab(t), hosttest.NewLoop(t, 16<<20), hosttest.NewLoop(t, 16<<20)
	t.Cleanup(l.cleared)
	for _, disk := range []*hosttest.Loop{one, two} {
		path := check.Value(l.mountRequest(ctx(t), ofDevice("u1", local(disk.Device))))(t)
		wantMapped(t, path, path, filepath.Join(l.root, "kubelet/pods/u1/volumeDevices/kubernetes.io~local-volume/pv-1"), disk.Device)
	}
	check.Fatal(t, l.unmount("u1"))
	_, err := l.mountRequest(ctx(t), ofDevice("u2", local(t.TempDir())))
	hosttest.WantError(t, err, port.InvalidConfig, "is not a block device")
	check.Fatal(t, l.unmount("u2"))
}

// TestISCSIBlock: a LUN is mapped into pods, and detached with the last of them, be it a device or a mount, ours or a
// kubelet's.
func TestISCSIBlock(t *testing.T) {
	l := newDiskLab(t)
	t.Cleanup(l.cleared)
	device, err := os.Readlink(filepath.Join(l.play, "dev/sda"))
	if err != nil {
		t.Fatal(err)
	}
	source := v1.PersistentVolumeSource{ISCSI: &v1.ISCSIPersistentVolumeSource{TargetPortal: "10.0.0.1", IQN: testIQN, Lun: 1}}
	dir := filepath.Join(l.root, strings.Replace(globalDir, "/iscsi/", "/iscsi/volumeDevices/", 1))
	set := func(uid types.UID) {
		t.Helper()
		path := check.Value(l.mountRequest(ctx(t), ofDevice(uid, source)))(t)
		wantMapped(t, path, filepath.Join(dir, string(uid)),
			filepath.Join(l.root, "kubelet/pods", string(uid), "volumeDevices/kubernetes.io~iscsi/pv-1"), device)
		if _, err := os.Stat(filepath.Join(dir, "iscsi.json")); err != nil {
			t.Error(err)
		}
	}
	end := func(l *diskLab, uid types.UID, last bool) {
		t.Helper()
		check.Fatal(t, l.unmount(uid))
		hosttest.WantGone(t, filepath.Join(dir, string(uid)))
		if l.loggedIn() == last {
			t.Errorf("after the end of %s: session %v", uid, l.loggedIn())
		}
	}
	kubelets := func(uid string) {
		t.Helper()
		check.Fatal(t, os.RemoveAll(filepath.Join(l.root, "kubelet/pods", uid, "plugins")))
	}
	set("u1")
	set("u2")
	end(l, "u1", false)
	end(l.next(), "u2", true)
	hosttest.WantGone(t, dir)

	set("u1")
	set("u2")
	kubelets("u1")
	kubelets("u2")
	end(l.next(), "u1", false)
	if err := os.Remove(filepath.Join(l.root, "kubelet/pods/u2/volumeDevices/kubernetes.io~iscsi/pv-1")); err != nil {
		t.Fatal(err) // a kubelet that was killed while it unmapped it
	}
	end(l.next(), "u2", true)
	hosttest.WantGone(t, dir)

	// One pod has it as a device, the other one mounted. It is not mounted after it was mapped: what is on it is the pod's.
	set("u1")
	_, err = l.mountRequest(ctx(t), claimed(podOf("u2"), source))
	hosttest.WantError(t, err, port.StateConflict, device, "mapped into a pod as a device", filepath.Join(dir, "u1"))
	end(l, "u1", false)
	check.Value(l.mountRequest(ctx(t), claimed(podOf("u2"), source)))(t)
	set("u1")
	end(l, "u1", false)
	set("u1")
	end(l, "u2", false)
	end(l, "u1", true)
	l.clean()
}

// TestBlockLeft: devices of pods that are gone are taken away when the next agent starts, and a disk is detached. Those of
// pods stay.
func TestBlockLeft(t *testing.T) {
	l, disk := newDiskLab(t), hosttest.NewLoop(t, 16<<20)
	t.Cleanup(l.cleared)
	source := v1.PersistentVolumeSource{ISCSI: &v1.ISCSIPersistentVolumeSource{TargetPortal: "10.0.0.1", IQN: testIQN, Lun: 1}}
	onDisk := check.Value(l.mountRequest(ctx(t), ofDevice("u1", source)))(t)
	onLocal := check.Value(l.mountRequest(ctx(t), ofDevice("u2", local(disk.Device))))(t)
	check.Fatal(t, l.next().ReleaseLeft(ctx(t)))
	for _, file := range []string{onDisk, onLocal} {
		if n := loopsOn(t, file); len(n) != 1 {
			t.Errorf("loop devices on %s of a pod: %v", file, n)
		}
	}
	for _, uid := range []string{"u1", "u2"} {
		check.Fatal(t, os.RemoveAll(filepath.Join(l.root, "kubelet/pods", uid)))
	}
	check.Fatal(t, l.next().ReleaseLeft(ctx(t)))
	hosttest.WantGone(t, filepath.Dir(onDisk))
	hosttest.WantGone(t, onLocal)
	check.None(t, loopsOn(t, onLocal), "loop devices are left")
	l.clean()
}

// TestBlockUse: of a device only its size is known.
func TestBlockUse(t *testing.T) {
	hosttest.NeedRoot(t)
	l, disk := newLab(t), hosttest.NewLoop(t, 16<<20)
	t.Cleanup(l.cleared)
	r := ofDevice("u1", local(disk.Device))
	r.Pod.Spec.Volumes = []v1.Volume{*r.Volume}
	r.Pod.Spec.Containers[0].VolumeDevices = []v1.VolumeDevice{{Name: r.Volume.Name, DevicePath: "/dev/x"}}
	check.Value(l.mountRequest(ctx(t), r))(t)
	use, err := l.VolumeUse(ctx(t), []*v1.Pod{r.Pod}, true)
	if err != nil || len(use[0]) != 1 || use[0][0].Disk.Capacity == nil || *use[0][0].Disk.Capacity != 16<<20 ||
		use[0][0].Disk.Used != nil || use[0][0].Plugin != "kubernetes.io/local-volume" {
		t.Errorf("%+v, %v", use, err)
	}
	check.Fatal(t, l.unmount("u1"))
}

// TestStrayFiles: a file, or a link to one, where directories of devices are, holds up no pod. A directory that can't be
// read does: devices of the pod may be there, and disks of others.
func TestStrayFiles(t *testing.T) {
	l := newLab(t)
	plugins := filepath.Join(l.root, "kubelet/plugins")
	for _, dir := range []string{"kubernetes.io~local-volume", "kubernetes.io/iscsi", "kubernetes.io/fc"} {
		hosttest.Write(t, filepath.Join(plugins, dir, "volumeDevices/stray"), "")
		hosttest.Write(t, filepath.Join(plugins, dir, "volumeDevices/iface-stray"), "")
	}
	for _, dir := range []string{"kubernetes.io~local-volume", "kubernetes.io/iscsi"} {
		check.Fatal(t, os.Symlink("stray", filepath.Join(plugins, dir, "volumeDevices/iface-link")))
	}
	check.None(t, check.Value(l.mapped("u1"))(t), "mapped")
	a := check.Value(l.disks.open())(t)
	check.None(t, check.Value(otherDirs(a, nil))(t), "other disks")
	check.Fatal(t, os.Symlink("iface-loop", filepath.Join(plugins, "kubernetes.io/iscsi/volumeDevices/iface-loop")))
	if files, err := l.mapped("u1"); !errors.Is(err, unix.ELOOP) {
		t.Errorf("mapped: %v, %v", files, err)
	}
	if disks, err := otherDirs(a, nil); !errors.Is(err, unix.ELOOP) {
		t.Errorf("other disks: %v, %v", disks, err)
	}
}

// unreadable has a directory that can't be read.
type unreadable struct {
	fs.FS
	dir string
}

func (u unreadable) ReadDir(name string) ([]fs.DirEntry, error) {
	if name == u.dir {
		return nil, &fs.PathError{Op: "open", Path: name, Err: unix.EMFILE}
	}
	return fs.ReadDir(u.FS, name)
}

func TestDirsOf(t *testing.T) {
	dir := t.TempDir()
	for _, file := range []string{"a/x-1/d/f", "a/x-2/e/f", "a/x-3", "a/y/d/f", "a/x-2/g"} {
		hosttest.Write(t, filepath.Join(dir, file), "")
	}
	root := os.DirFS(dir)
	for pattern, want := range map[string][]string{
		"a/x-*/*": {"a/x-1/d", "a/x-2/e"}, "a/*": {"a/x-1", "a/x-2", "a/y"}, "none/*": nil, "a/x-3/*": nil, "none/*/*": nil,
	} {
		check.Same(t, check.Value(dirsOf(root, pattern))(t), want, "%s", pattern)
	}
	for _, dir := range []string{"a", "a/x-2"} {
		if got, err := dirsOf(unreadable{root, dir}, "a/x-*/*"); !errors.Is(err, unix.EMFILE) {
			t.Errorf("%s can't be read: %v, %v", dir, got, err)
		}
	}
}
