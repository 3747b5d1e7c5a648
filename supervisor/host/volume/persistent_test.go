package volume

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/volumeplan"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/internal/hostcall"
	"github.com/troupe-dev/troupe/supervisor/host/volume/internal/fsgroup"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

// claimed is a request for a volume whose claim is bound to source.
func claimed(p *v1.Pod, source v1.PersistentVolumeSource) port.MountVolume {
	pv := &v1.PersistentVolume{Spec: v1.PersistentVolumeSpec{PersistentVolumeSource: source}}
	pv.Name = "pv-1"
	return port.MountVolume{Pod: p, Persistent: pv, Volume: &v1.Volume{Name: "data", VolumeSource: v1.VolumeSource{
		PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
	}}}
}

func local(path string) v1.PersistentVolumeSource {
	return v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: path}}
}

func groupAndMode(t *testing.T, path string) (uint32, os.FileMode) {
	t.Helper()
	info := check.Value(os.Lstat(path))(t)
	return info.Sys().(*syscall.Stat_t).Gid, info.Mode()
}

// TestOnePodAtATime: a volume of access mode ReadWriteOncePod that a pod has is given to no other one, also by an agent
// that knows nothing of that pod yet.
func TestOnePodAtATime(t *testing.T) {
	hosttest.NeedRoot(t)
	for name, device := range map[string]bool{"a directory": false, "a device": true} {
		t.Run(name, func(t *testing.T) {
			l, disk := newLab(t), t.TempDir()
			if device {
				disk = hosttest.NewLoop(t, 16<<20).Device
			}
			asks := func(uid types.UID) port.MountVolume {
				r := claimed(podOf(uid), local(disk))
				r.Persistent.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
				if device {
					r.Persistent.Spec.VolumeMode = new(v1.PersistentVolumeBlock)
				}
				return r
			}
			check.Value(l.mountRequest(ctx(t), asks("u1")))(t)
			next := &lab{Volumes: newLabAt(t, l.root), t: t, root: l.root}
			_, err := next.mountRequest(ctx(t), asks("u2"))
			hosttest.WantError(t, err, port.StateConflict, volumeplan.ErrTaken.Error())
			check.Value(next.mountRequest(ctx(t), asks("u1")))(t)
			check.Fatal(t, next.unmount("u1"))
			check.Value(next.mountRequest(ctx(t), asks("u2")))(t)
			check.Fatal(t, next.unmount("u2"))
		})
	}
}

// A local volume is bound, given to the pod's group, and survives the pod.
func TestLocalVolume(t *testing.T) {
	hosttest.NeedRoot(t)
	l := newLab(t)
	disk := t.TempDir()
	hosttest.Write(t, filepath.Join(disk, "sub/file"), "kept")
	check.Fatal(t, os.Symlink("/etc/passwd", filepath.Join(disk, "link")))
	passwd, _ := groupAndMode(t, "/etc/passwd")
	r := claimed(newPod(withFSGroup), local(disk))
	for range 2 {
		path := check.Value(l.mountRequest(ctx(t), r))(t)
		check.Equal(t, path, filepath.Join(l.root, "kubelet/pods/u1/volumes/kubernetes.io~local-volume/pv-1"), "is at")
		check.Count(t, l.countMounts(path), 1, "is mounted %d times")
	}
	for file, want := range map[string]os.FileMode{
		".": 0o775 | os.ModeDir | os.ModeSetgid, "sub": 0o775 | os.ModeDir | os.ModeSetgid, "sub/file": 0o660,
	} {
		if gid, mode := groupAndMode(t, filepath.Join(disk, file)); gid != 2000 || mode != want {
			t.Errorf("%s: group %d, mode %s; want %s", file, gid, mode, want)
		}
	}
	if gid, _ := groupAndMode(t, "/etc/passwd"); gid != passwd {
		t.Error("a link was followed")
	}
	check.Fatal(t, l.unmount("u1"))
	check.Fatal(t, l.remove(port.PodDirs{UID: "u1"}))
	hosttest.WantMode(t, filepath.Join(disk, "sub/file"), 0o660)
}

// TestLocalOptions: the mount options of a PersistentVolume count for the bind mount of a directory, beside those of the
// mount that it is in. Those of a file system do not.
func TestLocalOptions(t *testing.T) {
	hosttest.NeedRoot(t)
	l := newLab(t)
	disk := t.TempDir()
	check.Fatal(t, unix.Mount("none", disk, "tmpfs", unix.MS_NODEV|unix.MS_NOEXEC, ""))
	t.Cleanup(func() { unix.Unmount(disk, unix.MNT_DETACH) }) //nolint:errcheck // it is there
	for _, c := range []struct {
		options []string
		want    int64
	}{
		{nil, unix.MS_NODEV | unix.MS_NOEXEC},
		{[]string{"nosuid", "discard"}, unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_NOSUID},
		{[]string{"ro", "exec"}, unix.MS_NODEV | unix.MS_RDONLY},
		{[]string{"ro", "rw"}, unix.MS_NODEV | unix.MS_NOEXEC},
	} {
		r := claimed(newPod(withFSGroup), local(disk))
		r.Persistent.Spec.MountOptions = c.options
		path := check.Value(l.mountRequest(ctx(t), r))(t)
		var is unix.Statfs_t
		check.Fatal(t, unix.Statfs(path, &is))
		const flags = unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
		check.Equal(t, int64(is.Flags)&flags, c.want, "%v: flags", c.options)
		check.Fatal(t, l.unmount("u1"))
	}
}

const manyFiles = 10_000

// writeFiles writes many, which takes a child longer than a report.
func writeFiles(t *testing.T, dir string) {
	t.Helper()
	for i := range manyFiles {
		hosttest.Write(t, filepath.Join(dir, strconv.Itoa(i%100), strconv.Itoa(i)), "")
	}
}

// TestSlowGroup: while the files of a volume are given to a group, a child says how many have it. What the mount may take
// does not bound that.
func TestSlowGroup(t *testing.T) {
	hosttest.NeedRoot(t)
	l := newLab(t)
	l.children.report = [2]time.Duration{time.Millisecond, time.Millisecond}
	disk := t.TempDir()
	writeFiles(t, disk)
	r := claimed(newPod(withFSGroup), local(disk))
	var said []int64
	r.Walked = func(files int64) { said = append(said, files) }
	r.Patience = time.Minute
	check.Value(l.mountRequest(ctx(t), r))(t)
	if len(said) < 2 || !slices.IsSorted(said) || said[0] == said[len(said)-1] || said[len(said)-1] > manyFiles+101 {
		t.Errorf("it was told of %v", said)
	}
	if gid, _ := groupAndMode(t, filepath.Join(disk, "99/9999")); gid != 2000 {
		t.Errorf("the last file has group %d", gid)
	}
	check.Fatal(t, l.unmount("u1"))
}

// TestGroupGivenUp: a change of the group that was ended, as when its pod goes or the agent does, is not done: the next one
// begins anew.
func TestGroupGivenUp(t *testing.T) {
	hosttest.NeedRoot(t)
	l := newLab(t)
	l.children.report = [2]time.Duration{time.Millisecond, time.Millisecond}
	disk := t.TempDir()
	writeFiles(t, disk)
	r := claimed(newPod(withFSGroup), local(disk))
	within, giveUp := context.WithCancel(ctx(t))
	r.Walked = func(int64) { giveUp() }
	if _, err := l.mountRequest(within, r); err == nil {
		t.Fatal("it was done, although it was given up")
	}
	r.Walked = nil
	for again := ctx(t); ; { // it is refused until the child that was killed has gone
		_, err := l.mountRequest(again, r)
		if err == nil {
			break
		}
		if again.Err() != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{".", "99/9999"} {
		if gid, _ := groupAndMode(t, filepath.Join(disk, name)); gid != 2000 {
			t.Errorf("%s has group %d", name, gid)
		}
	}
	check.Fatal(t, l.unmount("u1"))
}

// TestGroupOfSharedVolume: a local volume that another pod has stays with its group, whatever it is called, and who asks
// for another group is told.
func TestGroupOfSharedVolume(t *testing.T) {
	hosttest.NeedRoot(t)
	l := newLab(t)
	var told []int64
	disk := t.TempDir()
	hosttest.Write(t, filepath.Join(disk, "file"), "")
	of := func(uid types.UID, group int64) port.MountVolume {
		p := newPod(withFSGroup)
		p.UID, p.Spec.SecurityContext.FSGroup = uid, &group
		r := claimed(p, local(disk))
		r.Taken = func(group int64) { told = append(told, group) }
		return r
	}
	mount := func(r port.MountVolume, want uint32, groups ...int64) {
		t.Helper()
		check.Fatal(t, l.prepare(r.Pod))
		check.Value(l.mountRequest(ctx(t), r))(t)
		if gid, _ := groupAndMode(t, filepath.Join(disk, "file")); gid != want || !slices.Equal(told, groups) {
			t.Errorf("for pod %s it is of group %d, want %d; told of groups %d", r.Pod.UID, gid, want, told)
		}
		told = nil
	}
	mount(of("u1", 2000), 2000)
	mount(of("u2", 2000), 2000)
	mount(of("u3", 3000), 2000, 2000)
	mount(of("u3", 3000), 2000) // it has it: nothing new is asked for
	read := of("u4", 3000)
	read.ReadOnly = true
	mount(read, 2000, 2000)
	renamed := of("u5", 3000)
	renamed.Persistent.Name = "another"
	mount(renamed, 2000, 2000)
	for _, uid := range []types.UID{"u1", "u2", "u3", "u4", "u5"} {
		check.Fatal(t, l.unmount(uid))
	}
	read.Pod.UID = "u6"
	mount(read, 2000)
	check.Fatal(t, l.unmount("u6"))
	mount(of("u7", 3000), 3000)
	check.Fatal(t, l.unmount("u7"))
}

// TestFileKeepsGroup: a file that can't be given to a group does not keep the pod from starting, and the log says so.
func TestFileKeepsGroup(t *testing.T) {
	hosttest.NeedRoot(t)
	disk := t.TempDir()
	for _, name := range []string{"a", "fixed/b", "c"} {
		hosttest.Write(t, filepath.Join(disk, name), "")
	}
	fixed := filepath.Join(disk, "fixed")
	check.Fatal(t, unix.Mount(fixed, fixed, "", unix.MS_BIND, ""))
	t.Cleanup(func() { unix.Unmount(fixed, unix.MNT_DETACH) }) //nolint:errcheck // it is there
	check.Fatal(t, unix.Mount("", fixed, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""))
	var g fsgroup.Change
	check.Fatal(t, g.Give(disk, 2000, false, false))
	if g.Refused != 2 || !strings.Contains(g.Why, "fixed") || g.Files.Load() != 5 {
		t.Errorf("%d of %d files could not be given: %s", g.Refused, g.Files.Load(), g.Why)
	}
	for name, want := range map[string]uint32{"a": 2000, "fixed/b": 0, "c": 2000} {
		if gid, _ := groupAndMode(t, filepath.Join(disk, name)); gid != want {
			t.Errorf("%s is of group %d", name, gid)
		}
	}
}

// TestModeWithoutGroup: where the group is refused, the mode is set all the same. setuid and setgid of a file stay.
func TestModeWithoutGroup(t *testing.T) {
	hosttest.NeedRoot(t)
	disk := t.TempDir()
	su := filepath.Join(disk, "dir/su")
	hosttest.Write(t, su, "")
	const special = os.ModeSetuid | os.ModeSetgid
	check.Fatal(t, os.Chmod(su, 0o711|special))
	check.Fatal(t, os.Chmod(filepath.Join(disk, "dir"), 0o700))
	var g fsgroup.Change
	check.Fatal(t, hosttest.WithoutChown(func() error { return g.Give(disk, 2000, false, false) }))
	if gid, _ := groupAndMode(t, su); gid != 0 || g.Refused != 3 {
		t.Errorf("the file is of group %d; %d were refused: %s", gid, g.Refused, g.Why)
	}
	hosttest.WantMode(t, su, 0o771|special)
	hosttest.WantMode(t, filepath.Join(disk, "dir"), 0o770|os.ModeDir|os.ModeSetgid)
	check.Fatal(t, g.Give(disk, 2000, false, false))
	if gid, _ := groupAndMode(t, su); gid != 2000 {
		t.Errorf("the file is of group %d", gid)
	}
	hosttest.WantMode(t, su, 0o771|special)
}

// TestMountTakesLong: what may take so long is bounded, with what the caller may take above it.
func TestMountTakesLong(t *testing.T) {
	hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	if err := bounded(ctx(t), time.Millisecond, hang); hostcall.KindOf(err) != port.Deadline || err.Error() != "no answer within 1ms" {
		t.Errorf("error %v", err)
	}
	ended, cancel := context.WithCancel(ctx(t))
	cancel()
	for _, patience := range []time.Duration{0, time.Hour} {
		if err := bounded(ended, patience, hang); !errors.Is(err, context.Canceled) {
			t.Errorf("patience %v: %v", patience, err)
		}
	}
}

func TestGroupOnMismatchOnly(t *testing.T) {
	hosttest.NeedRoot(t)
	policy := v1.FSGroupChangeOnRootMismatch
	for name, c := range map[string]struct {
		top  func(string) error
		want uint32
	}{
		"the top matches": {func(p string) error {
			if err := os.Chown(p, -1, 2000); err != nil {
				return err
			}
			return os.Chmod(p, 0o775|os.ModeSetgid)
		}, 0},
		"it does not": {func(string) error { return nil }, 2000},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			disk := t.TempDir()
			hosttest.Write(t, filepath.Join(disk, "file"), "x")
			check.Fatal(t, c.top(disk))
			p := newPod(withFSGroup)
			p.Spec.SecurityContext.FSGroupChangePolicy = &policy
			check.Value(l.mountRequest(ctx(t), claimed(p, local(disk))))(t)
			if gid, _ := groupAndMode(t, filepath.Join(disk, "file")); gid != c.want {
				t.Errorf("the file is of group %d, want %d", gid, c.want)
			}
			check.Fatal(t, l.unmount("u1"))
		})
	}
}

func TestClaimsThatCannotBe(t *testing.T) {
	hosttest.NeedRoot(t)
	l := newLab(t)
	file := filepath.Join(t.TempDir(), "f")
	hosttest.Write(t, file, "")
	for _, c := range []struct {
		source v1.PersistentVolumeSource
		want   string
	}{
		{local("/nowhere/at/all"), `path "/nowhere/at/all" does not exist`},
		{local("relative"), "must be an absolute path"},
		{local(file), "is not a directory or a block device"},
		{v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{}}, `volume "data" is of type csi (of PersistentVolume pv-1), which this node does not support`},
	} {
		_, err := l.mountRequest(ctx(t), claimed(newPod(), c.source))
		hosttest.WantError(t, err, port.InvalidConfig, c.want)
	}
	check.Fatal(t, l.unmount("u1"))
}

// fakeMount puts a mount program in the way that notes what it was asked for and
// mounts a tmpfs instead, or hangs.
func fakeMount(t *testing.T, script string) (asked string) {
	t.Helper()
	dir := t.TempDir()
	asked = filepath.Join(dir, "asked")
	text := "#!/bin/sh\necho \"$@\" >> " + asked + "\nfor last; do :; done\n" + script + "\n"
	check.Fatal(t, os.WriteFile(filepath.Join(dir, "mount"), []byte(text), 0o755))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return asked
}

func TestNFS(t *testing.T) {
	hosttest.NeedRoot(t)
	asked := fakeMount(t, `exec /bin/mount -t tmpfs nfs "$last"`)
	l := newLab(t)
	r := claimed(newPod(), v1.PersistentVolumeSource{NFS: &v1.NFSVolumeSource{Server: "fd00::1", Path: "/export", ReadOnly: true}})
	r.Persistent.Spec.MountOptions, r.ReadOnly = []string{"nfsvers=4.2"}, true
	var path string
	for range 2 {
		path = check.Value(l.mountRequest(ctx(t), r))(t)
	}
	text := check.Value(os.ReadFile(asked))(t)
	if want := "-t nfs -o ro,nfsvers=4.2 [fd00::1]:/export " + path; strings.TrimSpace(string(text)) != want {
		t.Errorf("asked for %q, want %q", text, want)
	}
	check.Fatal(t, l.unmount("u1"))
	// What the PersistentVolume says of readOnly does not count.
	r.Persistent.Annotations, r.ReadOnly = map[string]string{v1.MountOptionAnnotation: "nfsvers=3,,soft"}, false
	path = check.Value(l.mountRequest(ctx(t), r))(t)
	check.Has(t, string(check.Value(os.ReadFile(asked))(t)), "-o nfsvers=3,soft [fd00::1]:/export "+path, "asked for")
	check.Fatal(t, l.unmount("u1"))
}

// A claim that two volumes of a pod have is mounted once, though both are brought at once.
func TestNFSOfTwoVolumes(t *testing.T) {
	hosttest.NeedRoot(t)
	gate := filepath.Join(t.TempDir(), "gate")
	check.Fatal(t, unix.Mkfifo(gate, 0o600))
	asked := fakeMount(t, `read go < `+gate+`; exec /bin/mount -t tmpfs nfs "$last"`)
	l := newLab(t)
	r := claimed(newPod(), v1.PersistentVolumeSource{NFS: &v1.NFSVolumeSource{Server: "files.test", Path: "/x"}})
	type result struct {
		path string
		err  error
	}
	mounted := make(chan result, 2)
	for range 2 {
		l.MountVolume(ctx(t), r, func(path string, err error) { mounted <- result{path, err} })
	}
	asks := func() int {
		text, _ := os.ReadFile(asked)
		return strings.Count(string(text), "files.test")
	}
	check.Until(t, "one is mounted, and the other one is looked at", func() bool {
		l.disks.held.mu.Lock()
		defer l.disks.held.mu.Unlock()
		held := 0
		for _, c := range l.disks.held.of { // order-free: a sum
			held += c.users
		}
		return asks() == 2 || asks() == 1 && held == 2
	})
	opened := check.Value(os.OpenFile(gate, os.O_WRONLY, 0))(t)
	check.Fatal(t, opened.Close())
	for range 2 {
		got := check.Receive(t, mounted)
		check.Error(t, got.err)
		check.Count(t, l.countMounts(got.path), 1, "is mounted %d times")
	}
	check.Equal(t, asks(), 1, "calls of the mount program")
	check.Fatal(t, l.unmount("u1"))
}

// What the mount program says is what the user reads; one that hangs is ended
// with the call.
func TestNFSFails(t *testing.T) {
	hosttest.NeedRoot(t)
	l := newLab(t)
	v := &v1.Volume{Name: "data", VolumeSource: v1.VolumeSource{NFS: &v1.NFSVolumeSource{Server: "files.test", Path: "/x"}}}
	asked := fakeMount(t, `echo "mount.nfs: access denied by server" >&2; exit 32`)
	scopes := filepath.Join(t.TempDir(), "scopes")
	check.Fatal(t, os.WriteFile(filepath.Join(filepath.Dir(asked), "systemd-run"), []byte("#!/bin/sh\necho run-$$.scope >>"+scopes+"\n"), 0o755))
	_, err := l.mount(ctx(t), newPod(), v)
	if _, err := os.Stat(scopes); err == nil {
		t.Error("the mount runs in a scope of systemd's, of which each has another name")
	}
	hosttest.WantError(t, err, port.Other, "mount files.test:/x", "access denied by server")
	check.Fatal(t, l.unmount("u1"))
}
