package volume

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/mounts"
	"github.com/troupe-dev/troupe/supervisor/host/volume/tmpfs"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

func withFSGroup(p *v1.Pod) {
	group := int64(2000)
	p.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: &group}
}

func TestEmptyDir(t *testing.T) {
	l := newLab(t)
	p := newPod()
	// Also without PreparePod, and for a volume of which only the name is given.
	for _, v := range []*v1.Volume{emptyDir("data", v1.EmptyDirVolumeSource{}), {Name: "plain"}} {
		path := l.mustMount(p, v)
		check.Equal(t, path, filepath.Join(l.root, "kubelet/pods/u1/volumes/kubernetes.io~empty-dir", v.Name), "is at")
		hosttest.WantMode(t, path, 0o777|os.ModeDir)
	}
	path := l.mustMount(p, emptyDir("data", v1.EmptyDirVolumeSource{}))
	// What a container made of it stays, as a database that closes its directory.
	check.Fatal(t, os.Chmod(path, 0o700))
	hosttest.Write(t, filepath.Join(path, "file"), "kept")
	l.mustMount(p, emptyDir("data", v1.EmptyDirVolumeSource{}))
	hosttest.WantMode(t, path, 0o700|os.ModeDir)
	hosttest.WantMode(t, filepath.Join(path, "file"), 0o600)

	for range 2 {
		check.Fatal(t, l.unmount("u1"))
	}
	hosttest.WantGone(t, path)
	hosttest.WantMode(t, filepath.Join(l.root, "kubelet/pods/u1"), 0o750|os.ModeDir)
	hosttest.WantMode(t, l.mustMount(p, emptyDir("data", v1.EmptyDirVolumeSource{})), 0o777|os.ModeDir)
}

func TestEmptyDirOfAGroup(t *testing.T) {
	hosttest.NeedRoot(t)
	l := newLab(t)
	for _, medium := range []v1.StorageMedium{v1.StorageMediumDefault, v1.StorageMediumMemory} {
		path := l.mustMount(newPod(withFSGroup), emptyDir("v"+strings.ToLower(string(medium)), v1.EmptyDirVolumeSource{Medium: medium}))
		info := check.Value(os.Stat(path))(t)
		if gid := info.Sys().(*syscall.Stat_t).Gid; gid != 2000 || info.Mode()&os.ModeSetgid == 0 {
			t.Errorf("medium %q: group %d, mode %s", medium, gid, info.Mode())
		}
	}
	check.Fatal(t, l.unmount("u1"))
}

// optionsOf is how a file system is mounted, as the kernel says it.
func optionsOf(t *testing.T, path string) string {
	t.Helper()
	table := check.Value(os.ReadFile("/proc/self/mountinfo"))(t)
	for line := range strings.Lines(string(table)) {
		if fields := strings.Fields(line); fields[4] == path {
			return fields[len(fields)-1]
		}
	}
	t.Fatalf("nothing is mounted at %s", path)
	return ""
}

// knowsNoswap: the kernel is 6.4 or newer.
func knowsNoswap(t *testing.T) bool {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "noswap"); err != nil {
		return false
	}
	check.Fatal(t, syscall.Unmount(dir, 0))
	return true
}

// TestKeepsMemory: it is found out without a mount.
func TestKeepsMemory(t *testing.T) {
	hosttest.NeedRoot(t)
	check.Equal(t, tmpfs.KeepsMemory(), knowsNoswap(t), "the kernel keeps a tmpfs out of swap")
}

func TestEmptyDirInMemory(t *testing.T) {
	hosttest.NeedRoot(t)
	l := newLab(t)
	p := newPod()
	size := resource.MustParse("8Mi")
	v := emptyDir("cache", v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory, SizeLimit: &size})
	path := l.mustMount(p, v)
	t.Cleanup(func() { syscall.Unmount(path, syscall.MNT_DETACH) }) //nolint:errcheck // the test took it down
	hosttest.Write(t, filepath.Join(path, "file"), "kept")
	check.Count(t, l.mustMount(p, v), path, "is at %s, then at %s", path)
	hosttest.WantMode(t, filepath.Join(path, "file"), 0o600)
	hosttest.WantMode(t, path, 0o777|os.ModeDir|os.ModeSticky)
	var fs syscall.Statfs_t
	check.Fatal(t, syscall.Statfs(path, &fs))
	if got := int64(fs.Blocks) * fs.Bsize; got != size.Value() {
		t.Errorf("has %d bytes, want %d", got, size.Value())
	}
	check.Count(t, l.countMounts(path), 1, "is mounted %d times")
	if options := optionsOf(t, path); strings.Contains(options, "noswap") != knowsNoswap(t) {
		t.Errorf("is mounted with %s: what is in memory must not go to swap, where the kernel can hold it", options)
	}
	hosttest.WantError(t, l.remove(port.PodDirs{UID: "u1"}), port.StateConflict, "nothing was removed", path, "tmpfs")
	hosttest.WantMode(t, filepath.Join(path, "file"), 0o600)

	f := check.Value(os.Open(filepath.Join(path, "file")))(t)
	hosttest.WantError(t, l.unmount("u1"), port.StateConflict, path, "in use")
	check.Fatal(t, f.Close())
	for range 2 {
		check.Fatal(t, l.unmount("u1"))
	}
	hosttest.WantGone(t, path)
}

func (l *lab) countMounts(point string) int {
	all := check.Value(mounts.Now())(l.t)
	n := 0
	for _, m := range all {
		if m.Point == point {
			n++
		}
	}
	return n
}

// After the machine was started anew the marker is there and the mount is not.
func TestTmpfsIsMountedAgain(t *testing.T) {
	hosttest.NeedRoot(t)
	l := newLab(t)
	v := emptyDir("cache", v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory})
	path := l.mustMount(newPod(), v)
	check.Fatal(t, syscall.Unmount(path, 0))
	l.mustMount(newPod(), v)
	check.Count(t, l.countMounts(path), 1, "is mounted %d times")
	check.Fatal(t, l.unmount("u1"))
}

func TestVolumesThatCannotBe(t *testing.T) {
	l := newLab(t)
	named := func(s v1.VolumeSource) *v1.Volume { return &v1.Volume{Name: "v", VolumeSource: s} }
	for _, c := range []struct {
		volume *v1.Volume
		want   []string
	}{
		{emptyDir("v", v1.EmptyDirVolumeSource{Medium: v1.StorageMediumHugePages}), []string{"medium HugePages: hugePages storage requested, but there is no resource request"}},
		{emptyDir("v", v1.EmptyDirVolumeSource{Medium: "HugePages-2Mi"}), []string{"medium HugePages-2Mi"}},
		{emptyDir("v", v1.EmptyDirVolumeSource{Medium: "SSD"}), []string{`unknown emptyDir medium "SSD"`}},
		{named(v1.VolumeSource{Secret: &v1.SecretVolumeSource{}}), []string{`volume "v" is of type secret`, "which this node does not support: it supports emptyDir"}},
		{named(v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{}}), []string{"type configMap"}},
		{named(v1.VolumeSource{NFS: &v1.NFSVolumeSource{}}), []string{"nfs needs a server"}},
		{named(v1.VolumeSource{CSI: &v1.CSIVolumeSource{Driver: "d.example"}}), []string{"driver name d.example not found in the list of registered CSI drivers", "does not support CSI"}},
		{hostPath("relative", ""), []string{"must be an absolute path"}},
		{hostPath("/", "Pipe"), []string{`"Pipe" is not a valid type`}},
	} {
		_, err := l.mount(ctx(t), newPod(), c.volume)
		hosttest.WantError(t, err, port.InvalidConfig, append(c.want, "MountVolume default/web/v")...)
	}
}

func TestHostPath(t *testing.T) {
	l := newLab(t)
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	hosttest.Write(t, at("file"), "")
	for link, target := range map[string]string{"link": ".", "broken": "nowhere"} {
		check.Fatal(t, os.Symlink(target, at(link)))
	}
	socket := check.Value(net.Listen("unix", at("socket")))(t)
	defer socket.Close() //nolint:errcheck // of the test
	check.Fatal(t, syscall.Mkfifo(at("pipe"), 0o600))
	for _, c := range []struct {
		path string
		kind v1.HostPathType
		want string // the error, empty for none
	}{
		{at("nowhere"), v1.HostPathUnset, ""},
		{dir, v1.HostPathDirectory, ""},
		{at("link"), v1.HostPathDirectory, ""},
		{at("file"), v1.HostPathDirectory, "is not a directory, it's a File"},
		{at("nowhere"), v1.HostPathDirectory, "is not a directory, unable to determine its type: path \"" + at("nowhere") + "\" does not exist"},
		{at("file/x"), v1.HostPathDirectory, "is not a directory, unable to determine its type: "},
		{at("made/deep"), v1.HostPathDirectoryOrCreate, ""},
		{at("made/deep"), v1.HostPathDirectoryOrCreate, ""},
		{at("file"), v1.HostPathDirectoryOrCreate, "is not a directory"},
		{at("file"), v1.HostPathFile, ""},
		{dir, v1.HostPathFile, "is not a file, it's a Directory"},
		{at("socket"), v1.HostPathFile, "is not a file, it's a Socket"},
		{"/dev/null", v1.HostPathFile, "is not a file, it's a CharDevice"},
		{at("pipe"), v1.HostPathFile, "is not a file, unable to determine its type: only recognise file, directory"},
		{at("broken"), v1.HostPathFile, "is not a file, unable to determine its type: path \"" + at("broken") + "\" does not exist"},
		{at("madefile"), v1.HostPathFileOrCreate, ""},
		{at("madefile"), v1.HostPathFileOrCreate, ""},
		{dir, v1.HostPathFileOrCreate, "is not a file"},
		{at("socket"), v1.HostPathSocket, ""},
		{at("file"), v1.HostPathSocket, "is not a socket"},
		{"/dev/null", v1.HostPathCharDev, ""},
		{at("file"), v1.HostPathCharDev, "is not a character device"},
		{"/dev/null", v1.HostPathBlockDev, "is not a block device"},
	} {
		path, err := l.mount(ctx(t), newPod(), hostPath(c.path, c.kind))
		if c.want != "" {
			hosttest.WantError(t, err, port.Other, "MountVolume default/web/v: hostPath type check failed: "+c.path+" "+c.want)
		} else if err != nil || path != c.path {
			t.Errorf("%s as %q: %s %v", c.path, c.kind, path, err)
		}
	}
	hosttest.WantMode(t, at("made/deep"), 0o755|os.ModeDir)
	hosttest.WantMode(t, at("madefile"), 0o644)
	hosttest.WantGone(t, at("nowhere"))
}
