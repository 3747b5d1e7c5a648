package csidrivers

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/supervisor/host/mounts"
)

// inode is a file: a device and a number on it, as stat(2) and LOOP_GET_STATUS64 have them.
type inode struct{ device, number uint64 }

// releaseDevice takes away what a kubelet made of a device of a pod: a loop device on volumeDevices/<pv>/dev/<uid>, and
// the mount of the device at that file.
//
// A kubelet finds its loop devices by the path of their file. That path is not the one here if the kubelet ran in a
// mount namespace of its own, as one in a container does: once that is gone, the file is the root of a mount that is
// nowhere, and its path is "/". So such a loop device is known by the inode of its file, which is that of the device.
func (d *Drivers) releaseDevice(b block, uid string) error {
	path := filepath.Join(b.dev, uid)
	at := filepath.Join(d.staged.Real, path)
	all, err := d.Host.Mounts()
	if err != nil {
		return err
	}
	of := map[inode]bool{}
	for _, p := range []string{path, filepath.Join(b.publish, uid)} {
		if i, is := d.deviceAt(all, p); is {
			of[i] = true
		}
	}
	if err := clearLoops(at, of); err != nil {
		return err
	}
	for _, m := range mounts.Below(all, at) {
		if err := unix.Unmount(m.Point, unix.UMOUNT_NOFOLLOW); err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("unmount %s: %w", m.Point, err)
		}
	}
	return removeAll(d.staged, path)
}

// deviceAt is the device that is at a path below plugins/kubernetes.io/csi, if one is. A mount that needs a server is
// not looked at: a kubelet and most drivers mount a file of the machine's /dev.
func (d *Drivers) deviceAt(all []mounts.Mount, path string) (i inode, is bool) {
	for _, m := range all {
		if m.Point == filepath.Join(d.staged.Real, path) && !m.Local() {
			return i, false
		}
	}
	info, err := d.staged.Root.Lstat(path)
	if err != nil || info.Mode()&(fs.ModeDevice|fs.ModeCharDevice) != fs.ModeDevice {
		return i, false
	}
	s, is := info.Sys().(*syscall.Stat_t)
	if is {
		i = inode{s.Dev, s.Ino}
	}
	return i, is
}

// nowhere is the path of a file that a mount shows which is not in this mount namespace.
const nowhere = "/"

// clearLoops lets go the loop devices of a file: those with its path, and those whose path says nothing and whose file
// is one of these.
func clearLoops(path string, of map[inode]bool) error {
	files, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		return err
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			continue // it has gone meanwhile
		}
		backing := strings.TrimSuffix(strings.TrimSpace(string(text)), " (deleted)")
		if backing == path || backing == nowhere && len(of) > 0 {
			err = clearLoop("/dev/"+filepath.Base(filepath.Dir(filepath.Dir(f))), func(i inode) bool {
				return backing == path || of[i]
			})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// clearLoop lets a loop device go, if its file is the one.
func clearLoop(device string, is func(inode) bool) error {
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
