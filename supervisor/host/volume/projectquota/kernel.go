package projectquota

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Kernel is what is asked of the kernel. [Linux] is the real one.
type Kernel interface {
	// Attributes of a directory (FS_IOC_FSGETXATTR).
	Attributes(dir *os.File) (Attributes, error)
	// SetAttributes sets them (FS_IOC_FSSETXATTR).
	SetAttributes(dir *os.File, a Attributes) error
	// Quota is what a project has on the file system of dir (Q_GETQUOTA of PRJQUOTA).
	Quota(dir *os.File, project uint32) (Quota, error)
}

// Attributes is struct fsxattr of linux/fs.h.
type Attributes struct {
	Flags, ExtentSize, Extents, Project, CopySize uint32
	_                                             [8]byte
}

// Inherit is the flag of a directory by which what is made in it gets its project (FS_XFLAG_PROJINHERIT).
const Inherit = 0x200

// Quota is struct if_dqblk of linux/quota.h.
type Quota struct {
	_, _ uint64 // limits
	// Bytes are in use. They include what is written and has no place on the disk yet.
	Bytes uint64
	_, _  uint64 // limits
	// Inodes are files, directories and so on, also those that are deleted and still open.
	Inodes uint64
	_, _   uint64 // grace periods
	_      uint32 // which of all this is valid: what Q_GETQUOTA returns always is
}

// Commands. The numbers of the ioctls are those of all architectures but MIPS, PowerPC and SPARC, where a file
// system answers that it does not know them.
const (
	getAttributes = 0x801c581f // FS_IOC_FSGETXATTR: _IOR('X', 31, struct fsxattr)
	setAttributes = 0x401c5820 // FS_IOC_FSSETXATTR: _IOW('X', 32, struct fsxattr)
	// QCMD(Q_GETQUOTA, PRJQUOTA) of linux/quota.h. XFS answers it too.
	getQuota = 0x800007<<8 | 2
)

// Linux is this machine's kernel.
type Linux struct {
	// ByDevice has it name the device of a file system, as a kernel before Linux 5.14 needs it anyway.
	ByDevice bool
}

// Attributes implements [Kernel].
func (Linux) Attributes(dir *os.File) (a Attributes, err error) {
	return a, ioctl(dir, getAttributes, &a)
}

// SetAttributes implements [Kernel].
func (Linux) SetAttributes(dir *os.File, a Attributes) error { return ioctl(dir, setAttributes, &a) }

func ioctl(dir *os.File, command uintptr, a *Attributes) error {
	_, _, e := unix.Syscall(unix.SYS_IOCTL, dir.Fd(), command, uintptr(unsafe.Pointer(a)))
	if e != 0 {
		return &os.PathError{Op: "project of", Path: dir.Name(), Err: e}
	}
	return nil
}

// Quota implements [Kernel]. Before Linux 5.14 there is no quotactl_fd.
func (l Linux) Quota(dir *os.File, project uint32) (q Quota, err error) {
	e := unix.ENOSYS
	if !l.ByDevice {
		_, _, e = unix.Syscall6(unix.SYS_QUOTACTL_FD, dir.Fd(), getQuota, uintptr(project), uintptr(unsafe.Pointer(&q)), 0, 0)
	}
	if errors.Is(e, unix.ENOSYS) {
		device, err := deviceOf(dir)
		if err != nil {
			return Quota{}, err
		}
		name, err := unix.BytePtrFromString(device)
		if err != nil {
			return Quota{}, err
		}
		_, _, e = unix.Syscall6(unix.SYS_QUOTACTL, getQuota, uintptr(unsafe.Pointer(name)), uintptr(project),
			uintptr(unsafe.Pointer(&q)), 0, 0)
	}
	switch {
	case errors.Is(e, unix.ENOENT): // XFS has no record of the project
		return Quota{}, nil
	case e != 0:
		return Quota{}, &os.PathError{Op: "quotactl of the file system of", Path: dir.Name(), Err: e}
	}
	return q, nil
}

// deviceOf is the device file of the file system of dir, as the kernel names it.
func deviceOf(dir *os.File) (string, error) {
	var s unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &s); err != nil {
		return "", err
	}
	about := fmt.Sprintf("/sys/dev/block/%d:%d/uevent", unix.Major(s.Dev), unix.Minor(s.Dev))
	text, err := os.ReadFile(about)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "DEVNAME="); ok {
			return filepath.Join("/dev", name), nil
		}
	}
	return "", fmt.Errorf("%s names no device", about)
}
