package volume

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/actors/decide/containerplan"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

// automount mounts a file system in memory with a file, when somebody of another process group wants to have what is at
// point (autofs(5)).
func automount(t *testing.T, point string) {
	t.Helper()
	const packet, ready = 304, 0x9360 // struct autofs_v5_packet, AUTOFS_IOC_READY
	asked, kernel := check.Values(os.Pipe())(t)
	defer kernel.Close() //nolint:errcheck // the kernel has its own
	err := unix.Mount("test", point, "autofs", 0,
		fmt.Sprintf("fd=%d,pgrp=%d,minproto=5,maxproto=5,direct", kernel.Fd(), unix.Getpgrp()))
	hosttest.Need(t, "autofs", err)
	top := check.Value(unix.Open(point, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0))(t)
	ended := make(chan error, 1)
	t.Cleanup(func() {
		check.Error(t, unix.Close(top))
		check.Error(t, unix.Unmount(point, unix.MNT_DETACH)) // the file system in memory
		check.Error(t, unix.Unmount(point, unix.MNT_DETACH))
		check.Error(t, <-ended)
		check.Error(t, asked.Close())
	})
	go func() {
		text := make([]byte, packet)
		if _, err := asked.Read(text); err != nil {
			ended <- err
			return
		}
		err := unix.Mount("there", point, "tmpfs", 0, "size=1m")
		if err == nil {
			err = os.WriteFile(filepath.Join(point, "file"), []byte("x"), 0o600)
		}
		const token = 8 // its offset
		if e := unix.IoctlSetInt(top, ready, int(binary.NativeEndian.Uint32(text[token:]))); err == nil {
			err = e
		}
		ended <- err
	}()
}

// TestSubPathThatIsMountedWhenAskedFor: a directory of an automounter is mounted first, and bound then.
func TestSubPathThatIsMountedWhenAskedFor(t *testing.T) {
	hosttest.NeedRoot(t)
	l := newLab(t)
	root := t.TempDir()
	point := filepath.Join(root, "home")
	check.Fatal(t, os.Mkdir(point, 0o755))
	automount(t, point)
	paths := check.Value(l.subPaths(containerplan.SubPath{Volume: "v", Root: root, SubPath: "home"}))(t)
	text, err := os.ReadFile(filepath.Join(paths[0], "file"))
	check.Error(t, l.unmount("u1"))
	if string(text) != "x" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
}
