// Package blockmap maps block devices into pods (volumeMode Block), in the layout of a kubelet, so that each finds what
// the other has left.
//
//	<root>/plugins/<plugin>/volumeDevices/<disk>/<uid>    the device once more, as a bind mount, held by a loop device
//	<root>/pods/<uid>/volumeDevices/<plugin>/<volume>     a link to the device
//
// The loop device has the device open, as long as the pod has it. Otherwise a device that goes away might be replaced
// silently by another one of the same number, before a container starts with it. Containers do not use it.
//
//	nothing ──► link ──► file ──► bind mount ──► loop device      Set
//	nothing ◄──────────  file ◄── bind mount ◄── loop device      Clear; the link goes with the directory of the pod
//
// Each step can be done again, and the next agent goes on from any of them: while a link is there, its pod may have a
// device, and the files of a pod are found by its UID.
//
// Set and Clear may hang with the device: they are for a child process of the agent.
package blockmap

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/disk/agentdir"
	"github.com/troupe-dev/troupe/supervisor/host/internal/hostcall"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/mounts"
)

// Map is where a pod has a device. The paths are absolute and have no symbolic links.
type Map struct {
	// File is the one that the device is mounted at, Link the link of the pod.
	File string `json:"file"`
	Link string `json:"link"`
}

const fileMode = 0o600

// Set maps a device. A pod that has another device there gets this one: its device may have another name after a
// restart of the machine, or of the session with a target.
func (m Map) Set(path string) error {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return fmt.Errorf("device: %w", err)
	}
	// O_PATH: the device itself is not opened, and what is checked is what is mounted.
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: path, Err: err}
	}
	device := os.NewFile(uintptr(fd), path)
	defer device.Close() //nolint:errcheck // nothing was written
	number, err := deviceOf(device.Stat())
	if err != nil {
		return err
	}
	if number == 0 {
		return hostcall.Failf(port.InvalidConfig, "%s is not a block device, which volumeMode Block needs", path)
	}
	if err := m.link(path); err != nil {
		return err
	}
	if err := m.bind(fd, number); err != nil {
		return err
	}
	return hold(m.File)
}

// link makes the link of the pod, first of all: by it a pod is known to have a device.
func (m Map) link(device string) error {
	if err := os.MkdirAll(filepath.Dir(m.Link), agentdir.Mode); err != nil {
		return err
	}
	if to, err := os.Readlink(m.Link); err == nil && to == device {
		return nil
	}
	if err := os.Remove(m.Link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Symlink(device, m.Link)
}

// bind mounts a device at the file, unless it is.
func (m Map) bind(fd int, number uint64) error {
	all, err := mounts.Now()
	if err != nil {
		return err
	}
	if len(mounts.Below(all, m.File)) > 0 {
		if is, err := deviceOf(os.Lstat(m.File)); is == number || err != nil {
			return err
		}
		if err := Clear(all, m.File); err != nil {
			return err
		}
	}
	if err := m.makeFile(); err != nil {
		return err
	}
	if err := unix.Mount(fmt.Sprintf("/proc/self/fd/%d", fd), m.File, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount the device at %s: %w", m.File, err)
	}
	return nil
}

// makeFile makes the file. Its directory goes with the last pod, so it may go at this moment.
func (m Map) makeFile() error {
	const tries = 5
	for i := 1; ; i++ {
		if err := os.MkdirAll(filepath.Dir(m.File), agentdir.Mode); err != nil {
			return err
		}
		f, err := os.OpenFile(m.File, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, fileMode)
		if err == nil {
			return f.Close()
		}
		if !errors.Is(err, fs.ErrNotExist) || i == tries {
			return err
		}
	}
}

// Clear takes a device away from a pod: the loop devices that hold it, what is mounted at the file, and the file. all
// is the mount table; same are files that may be the same device, which loop devices may hold as well.
func Clear(all []mounts.Mount, file string, same ...string) error {
	of := map[inode]bool{}
	for _, p := range append([]string{file}, same...) {
		if i, is := inodeAt(all, p); is {
			of[i] = true
		}
	}
	if err := release(file, of); err != nil {
		return err
	}
	for _, m := range mounts.Below(all, file) {
		if err := unmount(m.Point); err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("unmount %s: %w", m.Point, err)
		}
	}
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// unmount takes away a mount that a loop device had open. The loop device goes when the last program has closed it, and
// udev looks at each for a moment.
func unmount(point string) error {
	const tries, pause = 100, 10 * time.Millisecond
	for i := 1; ; i++ {
		err := unix.Unmount(point, unix.UMOUNT_NOFOLLOW)
		if !errors.Is(err, unix.EBUSY) || i == tries {
			return err
		}
		time.Sleep(pause)
	}
}

// deviceOf is the number of a block device, 0 if it is none.
func deviceOf(info fs.FileInfo, err error) (uint64, error) {
	if err != nil || info.Mode()&(fs.ModeDevice|fs.ModeCharDevice) != fs.ModeDevice {
		return 0, err
	}
	return stat(info).Rdev, nil
}

// Same reports whether two paths lead to the same device.
func Same(one, other string) bool {
	a, err := deviceOf(os.Stat(one))
	b, err2 := deviceOf(os.Stat(other))
	return errors.Join(err, err2) == nil && a != 0 && a == b
}

// Name is a name for the device at a file that no volume has: it is not one that the API allows.
func Name(file string) string {
	h := fnv.New64a()
	h.Write([]byte(filepath.Dir(file))) //nolint:errcheck // a hash takes all
	return fmt.Sprintf("_%016x", h.Sum64())
}

// Size is that of the device at a path, in bytes; false if none is there. It opens the device.
func Size(path string) (size uint64, is bool) {
	if number, err := deviceOf(os.Stat(path)); number == 0 || err != nil {
		return 0, false
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return 0, false
	}
	defer f.Close() //nolint:errcheck // nothing was written
	n, err := f.Seek(0, io.SeekEnd)
	return uint64(max(n, 0)), err == nil && n > 0
}
