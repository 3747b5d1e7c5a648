package volume

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/containerplan"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/internal/hostcall"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/mounts"
	"github.com/troupe-dev/troupe/supervisor/host/volume/internal/subpath"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

func (l *lab) subPaths(parts ...containerplan.SubPath) ([]string, error) {
	type result struct {
		paths []string
		err   error
	}
	c := make(chan result, 1)
	l.MountSubPaths(context.Background(), port.MountSubPaths{Pod: newPod(), Container: "app", Parts: parts},
		func(paths []string, err error) { c <- result{paths, err} })
	r := <-c
	return r.paths, r.err
}

func TestSubPaths(t *testing.T) {
	hosttest.NeedRoot(t)
	l := newLab(t)
	root := l.mustMount(newPod(withFSGroup), emptyDir("data", v1.EmptyDirVolumeSource{}))
	t.Cleanup(func() { l.unmount("u1") }) //nolint:errcheck // the test took it down
	hosttest.Write(t, filepath.Join(root, "dir/file"), "x")
	for link, to := range map[string]string{"link": "dir", "filelink": "dir/file"} {
		check.Fatal(t, os.Symlink(to, filepath.Join(root, link)))
	}
	part := func(i int, sub string) containerplan.SubPath {
		return containerplan.SubPath{Index: i, Volume: "data", Root: root, SubPath: sub}
	}
	for round := range 2 { // the second finds all standing
		paths, err := l.subPaths(part(0, "dir"), part(1, "filelink"), part(3, "new/deep"), part(4, "link/file"), part(5, "."))
		if err != nil {
			t.Fatal(round, err)
		}
		if want := filepath.Join(l.root, "kubelet/pods/u1/volume-subpaths/data/app/3"); paths[2] != want {
			t.Errorf("is at %s, want %s", paths[2], want)
		}
		for _, file := range []string{paths[0] + "/file", paths[1], paths[3], paths[4] + "/dir/file"} {
			if text, err := os.ReadFile(file); string(text) != "x" || err != nil {
				t.Errorf("%s: %q, %v", file, text, err)
			}
		}
		for _, p := range paths {
			if n := l.countMounts(p); n != 1 {
				t.Errorf("%s is mounted %d times", p, n)
			}
		}
	}
	// What was made is as its volume: of its mode and group.
	info := check.Value(os.Stat(filepath.Join(root, "new/deep")))(t)
	if gid := info.Sys().(*syscall.Stat_t).Gid; gid != 2000 || info.Mode() != 0o777|os.ModeDir|os.ModeSetgid {
		t.Errorf("group %d, mode %s", gid, info.Mode())
	}
	// A next incarnation gets what is there then, be it of another kind.
	check.Fatal(t, os.Remove(filepath.Join(root, "filelink")))
	hosttest.Write(t, filepath.Join(root, "filelink/y"), "y")
	paths := check.Value(l.subPaths(part(1, "filelink")))(t)
	hosttest.WantMode(t, filepath.Join(paths[0], "y"), 0o600)
	if n := l.countMounts(paths[0]); n != 1 {
		t.Errorf("is mounted %d times", n)
	}

	hosttest.WantError(t, l.remove(port.PodDirs{UID: "u1"}), port.StateConflict, "nothing was removed", "volume-subpaths")
	// Another agent, which was told nothing, takes them down.
	next := &lab{Volumes: newLabAt(t, l.root), t: t, root: l.root}
	for range 2 {
		check.Fatal(t, next.unmount("u1"))
	}
	check.Fatal(t, next.remove(port.PodDirs{UID: "u1"}))
	hosttest.WantGone(t, filepath.Join(l.root, "kubelet/pods/u1"))
}

// TestSubPathInMemory has a directory made in a tmpfs, which has the sticky bit as its volume has.
func TestSubPathInMemory(t *testing.T) {
	hosttest.NeedRoot(t)
	l := newLab(t)
	root := l.mustMount(newPod(withFSGroup), emptyDir("data", v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}))
	check.Value(l.subPaths(containerplan.SubPath{Volume: "data", Root: root, SubPath: "new"}))(t)
	hosttest.WantMode(t, filepath.Join(root, "new"), 0o777|os.ModeDir|os.ModeSetgid|os.ModeSticky)
	check.Fatal(t, l.unmount("u1"))
}

// The volume of a container is what it wants it to be; nothing outside of it is
// mounted, or made.
func TestSubPathsStayInTheVolume(t *testing.T) {
	hosttest.NeedRoot(t)
	l := newLab(t)
	root := l.mustMount(newPod(), emptyDir("data", v1.EmptyDirVolumeSource{}))
	outside := t.TempDir()
	hosttest.Write(t, filepath.Join(outside, "secret"), "x")
	for link, to := range map[string]string{"abs": outside, "up": "../../../../../../../../etc", "chain": "abs", "dangling": filepath.Join(outside, "made"), "self": "self"} {
		check.Fatal(t, os.Symlink(to, filepath.Join(root, link)))
	}
	hosttest.Write(t, filepath.Join(root, "file"), "x")
	for _, sub := range []string{"abs", "abs/secret", "up", "up/passwd", "chain/secret", "dangling", "dangling/x", "self", "abs/new", "proc"} {
		if sub == "proc" {
			check.Fatal(t, os.Symlink("/proc/self/root", filepath.Join(root, sub)))
		}
		_, err := l.subPaths(containerplan.SubPath{Volume: "data", Root: root, SubPath: sub})
		hosttest.WantError(t, err, port.InvalidConfig, "points outside its volume", sub)
	}
	_, err := l.subPaths(containerplan.SubPath{Volume: "data", Root: root, SubPath: "file/x"})
	hosttest.WantError(t, err, port.InvalidConfig, "is a file, not a directory")
	for _, p := range []string{"made", "new"} {
		hosttest.WantGone(t, filepath.Join(outside, p))
	}
	all := check.Value(mounts.Now())(t)
	if m := mounts.Below(all, filepath.Join(l.root, "kubelet")); len(m) > 0 {
		t.Errorf("mounted: %v", m)
	}
	check.Fatal(t, l.unmount("u1"))
	hosttest.WantMode(t, filepath.Join(outside, "secret"), 0o600)
}

// TestSubPathsByAbsoluteLinks: a link with an absolute path leads to what is there on the node. In the volume it is taken,
// and what is missing behind it is made.
func TestSubPathsByAbsoluteLinks(t *testing.T) {
	hosttest.NeedRoot(t)
	l := newLab(t)
	srv := t.TempDir()
	root, alias := filepath.Join(srv, "app"), filepath.Join(srv, "alias")
	hosttest.Write(t, filepath.Join(root, "releases/5/file"), "x")
	hosttest.Write(t, filepath.Join(srv, "secret"), "y")
	check.Fatal(t, os.Symlink(root, alias))
	for link, to := range map[string]string{
		"current": filepath.Join(root, "releases/5"), "by-alias": filepath.Join(alias, "releases"), "again": "current",
		"file": filepath.Join(root, "current/file"), "around": "../app/releases/5", "top": root,
		"out": filepath.Join(root, "../secret"), "beside": filepath.Join(srv, "application"),
	} {
		check.Fatal(t, os.Symlink(to, filepath.Join(root, link)))
	}
	hosttest.Write(t, filepath.Join(srv, "application/file"), "z")
	for _, volume := range []string{root, alias} { // a hostPath is what its path leads to
		for sub, file := range map[string]string{
			"current": "file", "by-alias/5": "file", "again": "file", "file": "", "around": "file", "top/current": "file",
		} {
			paths := check.Value(l.subPaths(containerplan.SubPath{Volume: "v", Root: volume, SubPath: sub}))(t)
			if text, err := os.ReadFile(filepath.Join(paths[0], file)); string(text) != "x" || err != nil {
				t.Errorf("%s in %s: %q, %v", sub, volume, text, err)
			}
		}
		for _, sub := range []string{"out", "beside", "beside/file", "beside/new"} {
			_, err := l.subPaths(containerplan.SubPath{Volume: "v", Root: volume, SubPath: sub})
			hosttest.WantError(t, err, port.InvalidConfig, "points outside its volume", sub)
		}
	}
	check.Value(l.subPaths(containerplan.SubPath{Volume: "v", Root: root, SubPath: "current/new/deep"}))(t)
	hosttest.WantMode(t, filepath.Join(root, "releases/5/new/deep"), 0o755|os.ModeDir)
	hosttest.WantGone(t, filepath.Join(srv, "application/new"))
	check.Fatal(t, l.unmount("u1"))
}

// A container that swaps a directory for a link, as fast as it can, while it is
// being mounted again and again.
func TestSubPathsUnderAttack(t *testing.T) {
	hosttest.NeedRoot(t)
	for name, swapped := range map[string]func(t *testing.T, root, dir string){
		"a directory": func(t *testing.T, _, dir string) { hosttest.Write(t, filepath.Join(dir, "sub/mine"), "x") },
		"an absolute link": func(t *testing.T, root, dir string) {
			hosttest.Write(t, filepath.Join(root, "inside/sub/mine"), "x")
			check.Fatal(t, os.Symlink(filepath.Join(root, "inside"), dir))
		},
	} {
		t.Run(name, func(t *testing.T) { underAttack(t, swapped) })
	}
}

func underAttack(t *testing.T, swapped func(t *testing.T, root, dir string)) {
	l := newLab(t)
	root := l.mustMount(newPod(), emptyDir("data", v1.EmptyDirVolumeSource{}))
	outside := t.TempDir()
	hosttest.Write(t, filepath.Join(outside, "sub/secret"), "x")
	dir, link := filepath.Join(root, "dir"), filepath.Join(root, "link")
	swapped(t, root, dir)
	check.Fatal(t, os.Symlink(outside, link))
	stop, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				ended <- nil
				return
			default:
			}
			if err := unix.Renameat2(unix.AT_FDCWD, dir, unix.AT_FDCWD, link, unix.RENAME_EXCHANGE); err != nil {
				ended <- err
				return
			}
		}
	}()
	mounted, refused := 0, 0
	// At least 400 times, and until the machine has let both of them run.
	for i, begin := 0, time.Now(); i < 400 || (mounted == 0 || refused == 0) && time.Since(begin) < time.Minute; i++ {
		p := subpath.Part{Volume: root, Sub: "dir/sub", Target: filepath.Join(l.root, "t")}
		if i%2 == 1 {
			p.Sub = "dir/new" // is made, in the volume or not at all
		}
		err := subpath.Mount([]subpath.Part{p})
		switch f, is := errors.AsType[*hostcall.Failure](err); {
		case err == nil:
			mounted++
			if _, err := os.Lstat(filepath.Join(p.Target, "secret")); err == nil {
				t.Error("what is outside of the volume was mounted")
			}
			check.Fatal(t, unix.Unmount(p.Target, unix.MNT_DETACH))
		case is && strings.Contains(f.Detail, "points outside its volume"):
			refused++
		default:
			t.Error(err)
		}
	}
	close(stop)
	check.Fatal(t, <-ended)
	t.Logf("mounted %d times, refused %d times", mounted, refused)
	hosttest.WantGone(t, filepath.Join(outside, "new"))
	if mounted == 0 || refused == 0 {
		t.Error("the race was not met")
	}
	check.Fatal(t, l.unmount("u1"))
}
