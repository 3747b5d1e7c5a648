// Package blockmount mounts block devices of this machine, formats them if they are empty, and grows their file
// systems, with the programs of the machine: blkid, mkfs, fsck, mount, resize2fs, xfs_growfs. What is done is decided
// by decide/blockdevice.
//
// All of it may hang with the device: it is for a child process of the agent, which is killed at a deadline. Programs
// that write on the device are not killed with it, because half a file system is worse than none: each is in a session
// of its own, and keeps the device locked (flock(2)) as long as it lives. So a later call, also of the next agent,
// does not begin before it has ended, and finds what it made.
package blockmount

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
	mountutils "k8s.io/mount-utils"

	"github.com/troupe-dev/troupe/actors/decide/blockdevice"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/internal/hostcall"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/mounts"
	"github.com/troupe-dev/troupe/supervisor/host/volume/blockmap"
)

// Mount mounts w.Device at point, a directory that is there. It is idempotent: after a call that was killed at any
// moment it goes on. Something else that is mounted at point is an error, port.StateConflict, as is a device that
// another program works on.
func Mount(w *blockdevice.MountWant, point string) error {
	d, err := open(w.Device)
	if err != nil {
		return err
	}
	defer d.Close() //nolint:errcheck // nothing was written
	if done, err := d.isAt(point); done || err != nil {
		return err
	}
	if err := d.lock(); err != nil {
		return err
	}
	found, err := d.probe()
	if err != nil {
		return err
	}
	resolved := *w
	resolved.Device = d.path
	steps, err := blockdevice.PlanMount(&resolved, found)
	if err != nil {
		return hostcall.Failf(port.InvalidConfig, "%v", err)
	}
	if steps.Format != nil || steps.Check != nil {
		if err := d.unmapped(); err != nil {
			return err
		}
	}
	if steps.Format != nil {
		if err := d.format(steps.Format); err != nil {
			return err
		}
	}
	if steps.Check != nil {
		status, output, err := d.detached(steps.Check)
		if err == nil {
			err = blockdevice.Checked(d.path, status, output)
		}
		if err != nil {
			return err
		}
	}
	if err := mountutils.New("").Mount(d.path, point, steps.Type, steps.Options); err != nil {
		err = fmt.Errorf("mount %s at %s: %w", d.path, point, err)
		if steps.Doubt != "" {
			err = fmt.Errorf("%s: %w", steps.Doubt, err)
		}
		return err
	}
	return nil
}

// Grow grows the file system of a device, which is mounted at point, to the size of the device. It is idempotent. A
// device that is not mounted there, or that another program works on, is an error, port.StateConflict.
func Grow(path, point string) error {
	d, err := open(path)
	if err != nil {
		return err
	}
	defer d.Close() //nolint:errcheck // nothing was written
	if is, err := d.isAt(point); err != nil || !is {
		return cmp.Or(err, hostcall.Failf(port.StateConflict, "device %s is not mounted at %s, and its file system was not "+
			"grown", d.path, point))
	}
	if err := d.lock(); err != nil {
		return err
	}
	found, err := d.probe()
	if err != nil {
		return err
	}
	command, err := blockdevice.Growth(d.path, found, point)
	if err != nil {
		return hostcall.Failf(port.InvalidConfig, "%v", err)
	}
	return d.write(command)
}

// device is an open block device.
type device struct {
	*os.File
	// path has no symbolic links.
	path string
	// number is what the device is, size how many bytes it has.
	number uint64
	size   int64
}

func open(path string) (*device, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, fmt.Errorf("device %s: %w", path, err)
	}
	f, err := os.OpenFile(real, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	d := &device{File: f, path: real}
	var s unix.Stat_t
	if err = unix.Fstat(int(f.Fd()), &s); err == nil && s.Mode&unix.S_IFMT != unix.S_IFBLK {
		err = hostcall.Failf(port.InvalidConfig, "%s is not a block device", path)
	}
	if err == nil {
		d.number = s.Rdev
		d.size, err = f.Seek(0, 2)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return d, nil
}

// isAt reports whether the device is what is mounted at a place.
func (d *device) isAt(point string) (bool, error) {
	all, err := mounts.Now()
	if err != nil {
		return false, err
	}
	last := mounts.At(all, point)
	if last == nil {
		return false, nil
	}
	var s unix.Stat_t
	if filepath.IsAbs(last.Source) && unix.Stat(last.Source, &s) == nil && s.Mode&unix.S_IFMT == unix.S_IFBLK &&
		s.Rdev == d.number {
		return true, nil
	}
	return false, hostcall.Failf(port.StateConflict, "device %s can't be mounted, something else is mounted already: %s: "+
		"unmount it", d.path, last)
}

// lock keeps the device for this process and those that it starts on it.
func (d *device) lock() error {
	err := unix.Flock(int(d.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return hostcall.Failf(port.StateConflict, "device %s is locked by another program, which may be formatting, "+
			"checking or growing it: lsof %s says which one", d.path, d.path)
	}
	if err != nil {
		return fmt.Errorf("lock device %s: %w", d.path, err)
	}
	return nil
}

func (d *device) probe() (blockdevice.Found, error) {
	status, output, err := run(blockdevice.ProbeCommand(d.path))
	if err != nil {
		return blockdevice.Found{}, err
	}
	return blockdevice.Probed(d.path, status, output)
}

// unmapped fails if a pod has the device as it is (volumeMode Block): it writes there what it wants, blkid may know
// nothing of it, and the pod does not have the device open exclusively.
func (d *device) unmapped() error {
	point, err := blockmap.MappedAt(d.path)
	if err == nil && point != "" {
		err = hostcall.Failf(port.StateConflict, "device %s was neither formatted nor checked, and is not mounted: it is "+
			"mapped into a pod as a device (volumeMode Block) at %s: wait until that pod has ended, or name another device",
			d.path, point)
	}
	return err
}

// format makes a file system on the device, which blkid has found empty.
func (d *device) format(command []string) error {
	if err := d.readable(); err != nil {
		return err
	}
	// Who has a device open exclusively has mounted it, or made it a part of something else.
	f, err := os.OpenFile(d.path, unix.O_RDONLY|unix.O_EXCL|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.EBUSY) {
		return hostcall.Failf(port.StateConflict, "device %s is empty, but was not formatted: something else uses it", d.path)
	}
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	// The device may have come back only after blkid looked: then it was called empty, and can be read now.
	if found, err := d.probe(); err != nil || !found.Empty() {
		return cmp.Or(err, hostcall.Failf(port.StateConflict,
			"device %s was empty a moment ago, and has %s now: it was not formatted", d.path, found))
	}
	return d.write(command)
}

// ends is how much is read at either end of a device.
const ends = 2 << 20

// readable fails if what blkid looks at can't be read: it calls such a device empty.
func (d *device) readable() error {
	b := make([]byte, min(ends, d.size))
	for _, at := range []int64{0, d.size - int64(len(b))} {
		if _, err := d.ReadAt(b, at); err != nil {
			return fmt.Errorf("device %s can't be read, and was not formatted: %w", d.path, err)
		}
	}
	if d.size == 0 {
		return fmt.Errorf("device %s has no size, and was not formatted", d.path)
	}
	return nil
}
