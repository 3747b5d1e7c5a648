package volume

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/child"
	"github.com/troupe-dev/troupe/supervisor/host/internal/hostcall"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/mounts"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

// deadServer is a mounted file system whose server takes requests and answers
// none: what touches it is stuck in the kernel, and SIGKILL does not help, as on
// a dead NFS server.
type deadServer struct {
	t     *testing.T
	fd    int
	point string
	gone  bool
	// serves: it takes requests.
	serves bool
	asked  chan struct{} // closed when a request was taken
	ended  chan struct{}
}

// mountDead mounts one at point that does not even take requests: who waits
// there can still be killed.
func mountDead(t *testing.T, point string) *deadServer {
	t.Helper()
	hosttest.NeedFUSE(t)
	fd := check.Value(unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0))(t)
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fd)
	check.Fatal(t, unix.Mount("dead", point, "fuse", 0, options))
	s := &deadServer{t: t, fd: fd, point: point, asked: make(chan struct{}), ended: make(chan struct{})}
	t.Cleanup(s.end)
	return s
}

// newDeadServer mounts one that takes requests.
func newDeadServer(t *testing.T, point string) *deadServer {
	s := mountDead(t, point)
	s.serves = true
	go s.serve()
	return s
}

// serve speaks as much of the FUSE protocol (linux/fuse.h) as it takes to be
// asked.
func (s *deadServer) serve() {
	defer close(s.ended)
	const initOp = 26
	request := make([]byte, 1<<20)
	told := false
	for {
		n, err := unix.Read(s.fd, request)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n < 40 { // aborted: unmounted
			return
		}
		if binary.NativeEndian.Uint32(request[4:]) != initOp {
			if !told {
				told = true
				close(s.asked)
			}
			continue
		}
		// fuse_out_header and fuse_init_out of version 7.31
		reply := make([]byte, 16+64)
		binary.NativeEndian.PutUint32(reply[0:], uint32(len(reply)))
		copy(reply[8:16], request[8:16]) // unique
		binary.NativeEndian.PutUint32(reply[16:], 7)
		binary.NativeEndian.PutUint32(reply[20:], 31)
		binary.NativeEndian.PutUint32(reply[36:], 4096) // max_write
		// ENOENT: it was unmounted before it was answered.
		if _, err := unix.Write(s.fd, reply); err != nil && err != unix.ENOENT {
			s.t.Errorf("init: %v", err)
		}
	}
}

// end aborts it: who hangs in it gets an error.
func (s *deadServer) end() {
	if s.gone {
		return
	}
	s.gone = true
	check.Error(s.t, unix.Unmount(s.point, unix.MNT_FORCE|unix.MNT_DETACH))
	if s.serves {
		<-s.ended
	}
	check.Fatal(s.t, unix.Close(s.fd))
}

// TestClosedWhileLogsHang: an agent ends, although the directory of logs does not answer.
func TestClosedWhileLogsHang(t *testing.T) {
	root := t.TempDir()
	h := open(t, filepath.Join(root, "kubelet"), filepath.Join(root, "logs"))
	s := newDeadServer(t, filepath.Join(root, "logs"))
	prepared := make(chan error, 1)
	h.PreparePod(ctx(t), newPod(), func(err error) { prepared <- err })
	<-s.asked
	closed := make(chan error, 1)
	go func() { closed <- h.closeAll() }()
	check.Error(t, check.Receive(t, closed))
	s.end()
	check.Fails(t, <-prepared, "a pod was prepared after the end")
}

func TestAHungFileSystemHangsNobody(t *testing.T) {
	l := newLab(t)
	point := t.TempDir()
	s := newDeadServer(t, point)
	x := hostPath(filepath.Join(point, "x"), v1.HostPathDirectory)
	canceled, cancel := context.WithCancel(ctx(t))
	first := make(chan error, 1)
	l.MountVolume(canceled, port.MountVolume{Pod: newPod(), Volume: x}, func(_ string, err error) { first <- err })
	<-s.asked
	// Others are not kept from theirs, more of them than there are slots. /proc is not local.
	for range 10 {
		if _, err := l.mount(ctx(t), newPod(), hostPath("/proc", v1.HostPathDirectory)); err != nil {
			t.Error(err)
		}
	}
	cancel()
	hosttest.WantError(t, <-first, port.Canceled, "MountVolume default/web/v")
	for range 3 {
		_, err := l.mount(ctx(t), newPod(), x)
		hosttest.WantError(t, err, port.Unavailable, "an earlier check of "+point+"/x, started at ", "hangs in the kernel", "pid ")
	}
	s.end()
	l.idle(x.HostPath.Path)
	_, err := l.mount(ctx(t), newPod(), x)
	hosttest.WantError(t, err, port.Other, "is not a directory", "does not exist")
}

// idle waits until no child hangs at a path.
func (l *lab) idle(path string) {
	l.t.Helper()
	check.Until(l.t, "no child hangs at "+path, func() bool {
		return hostcall.KindOf(l.children.call(ctx(l.t), request{Op: opHostPath, Path: path})) != port.Unavailable
	})
}

// What a container mounted below its volume may be dead, too. It is not looked at, and unmounted with its pod.
func TestRemovalDoesNotTouchADeadMount(t *testing.T) {
	l := newLab(t)
	point := filepath.Join(l.mustMount(newPod(), emptyDir("data", v1.EmptyDirVolumeSource{})), "nfs")
	check.Fatal(t, os.Mkdir(point, 0o755))
	s := newDeadServer(t, point)
	hosttest.WantError(t, l.remove(port.PodDirs{UID: "u1"}), port.StateConflict, "still mounted", point, "fuse")
	read := l.mounts
	l.mounts = func() ([]mounts.Mount, error) { return nil, nil }
	hosttest.WantError(t, l.unmount("u1"), port.StateConflict, point+" is mounted")
	select {
	case <-s.asked:
		t.Error("its server was asked for something")
	default:
	}
	l.mounts = read
	check.Fatal(t, l.unmount("u1"))
	<-s.ended
	s.gone = true
	check.Fatal(t, unix.Close(s.fd))
	check.Fatal(t, l.unmount("u1"))
}

// A child of an agent that is gone exits: the next agent does the same again.
func TestAChildEndsWithItsAgent(t *testing.T) {
	point := t.TempDir()
	mountDead(t, point)
	cmd := child.Command(childArg)
	in, out := check.Value(cmd.StdinPipe())(t), check.Value(cmd.StdoutPipe())(t)
	check.Fatal(t, cmd.Start())
	check.Value(fmt.Fprintf(in, `{"op":%q,"path":%q,"type":"Directory"}`+"\n", opHostPath, point+"/x"))(t)
	check.Fatal(t, in.Close())
	if b, err := io.ReadAll(out); err != nil || len(b) > 0 {
		t.Errorf("answers %s %v", b, err)
	}
	// It ends itself, with all that it has started.
	if err := cmd.Wait(); err == nil || cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("ended with %v", err)
	}
}
