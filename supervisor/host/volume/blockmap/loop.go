package blockmap

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/internal/hostcall"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/mounts"
)

// inode is a file: a device and a number on it, as stat(2) and LOOP_GET_STATUS64 have them.
type inode struct{ device, number uint64 }

// A loop device is found by the path of its file. That path is not the one here if a kubelet made it that ran in a
// mount namespace of its own, as one in a container does: once that is gone, the file is the root of a mount that is
// nowhere, and its path is "/". So such a loop device is known by the inode of its file, which is that of the device.
const nowhere = "/"

// inodeAt is the device that is at a path, if one is. A mount that needs a server is not looked at: a kubelet and most
// drivers mount a file of the machine's /dev.
func inodeAt(all []mounts.Mount, path string) (i inode, is bool) {
	for _, m := range all {
		if m.Point == path && !m.Local() {
			return i, false
		}
	}
	info, err := os.Lstat(path)
	if number, err := deviceOf(info, err); number == 0 || err != nil {
		return i, false
	}
	s := stat(info)
	return inode{s.Dev, s.Ino}, true
}

func stat(info fs.FileInfo) *syscall.Stat_t { return info.Sys().(*syscall.Stat_t) }

// loops calls f with the loop devices of this machine and the paths of their files.
func loops(f func(device, file string) error) error {
	found, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		return err
	}
	for _, path := range found {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has gone meanwhile
		}
		file := strings.TrimSuffix(strings.TrimSpace(string(text)), " (deleted)")
		if err := f("/dev/"+filepath.Base(filepath.Dir(filepath.Dir(path))), file); err != nil {
			return err
		}
	}
	return nil
}

// release lets go the loop devices of a file: those with its path, and those whose path says nothing and whose file is
// one of these.
func release(file string, of map[inode]bool) error {
	return loops(func(device, backing string) error {
		if backing != file && (backing != nowhere || len(of) == 0) {
			return nil
		}
		return releaseOne(device, func(i inode) bool { return backing == file || of[i] })
	})
}

// releaseOne lets a loop device go, if its file is the one.
func releaseOne(device string, is func(inode) bool) error {
	f, err := os.Open(device)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	status, err := unix.IoctlLoopGetStatus64(int(f.Fd()))
	if err == nil && is(inode{status.Device, status.Inode}) {
		err = unix.IoctlSetInt(int(f.Fd()), unix.LOOP_CLR_FD, 0)
	}
	if err != nil && !errors.Is(err, unix.ENXIO) { // it has gone meanwhile
		return fmt.Errorf("detach %s: %w", device, err)
	}
	return nil
}

// hold puts a loop device on a file, unless one is.
func hold(file string) error {
	held := false
	err := loops(func(_, backing string) error { held = held || backing == file; return nil })
	if err != nil || held {
		return err
	}
	f, err := os.OpenFile(file, os.O_RDWR|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.EROFS) || errors.Is(err, unix.EACCES) { // a device that can only be read
		f, err = os.OpenFile(file, os.O_RDONLY|unix.O_NONBLOCK, 0)
	}
	if err != nil {
		return fmt.Errorf("open the device: %w", err)
	}
	defer f.Close() //nolint:errcheck // the loop device has it
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return hostcall.Failf(port.InvalidConfig, "a device (volumeMode Block) is held by a loop device, and this machine "+
			"makes none: load the kernel module loop (modprobe loop): %v", err)
	}
	defer control.Close() //nolint:errcheck // nothing was written
	const tries = 20
	for i := 1; ; i++ {
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return fmt.Errorf("get a loop device: %w", err)
		}
		err = attach(fmt.Sprintf("/dev/loop%d", n), f, unix.LoopConfig{Info: infoOf(file)})
		if err == nil || !errors.Is(err, unix.EBUSY) || i == tries { // busy: another program was faster
			return err
		}
	}
}

// infoOf has the path of a file, which the loop device is found by.
func infoOf(file string) (i unix.LoopInfo64) {
	copy(i.File_name[:len(i.File_name)-1], file)
	return i
}

// attach gives a loop device its file. Kernels before Linux 5.8 do it in two steps.
func attach(device string, f *os.File, c unix.LoopConfig) error {
	l, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer l.Close()       //nolint:errcheck // nothing was written
	c.Fd = uint32(f.Fd()) //nolint:gosec // a file descriptor is small
	err = unix.IoctlLoopConfigure(int(l.Fd()), &c)
	if errors.Is(err, unix.EINVAL) {
		err = attachOld(l, f, &c.Info)
	}
	if err != nil {
		return fmt.Errorf("put %s on %s: %w", device, f.Name(), err)
	}
	return nil
}

// attachOld does so without LOOP_CONFIGURE. Without the path nobody would find the loop device, so it is let go.
func attachOld(l, f *os.File, i *unix.LoopInfo64) error {
	if err := unix.IoctlSetInt(int(l.Fd()), unix.LOOP_SET_FD, int(f.Fd())); err != nil {
		return err
	}
	if err := unix.IoctlLoopSetStatus64(int(l.Fd()), i); err != nil {
		return errors.Join(err, unix.IoctlSetInt(int(l.Fd()), unix.LOOP_CLR_FD, 0))
	}
	return nil
}
