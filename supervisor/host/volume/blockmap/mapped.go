package blockmap

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/supervisor/host/kernel/mounts"
)

// DevicesDir has the devices of pods: in the directory of a plugin, which may be that of a CSI driver, or of a pod.
const DevicesDir = "volumeDevices"

// Mapped is where a pod has a block device, by its number, or has it in part or with more: a disk overlaps its
// partitions. It is empty if no pod has it. A pod does not have the device open exclusively (O_EXCL), as a mount has:
// who is to remove or format a device has to ask here too. all is the mount table.
func Mapped(all []mounts.Mount, number uint64) (point string, err error) {
	disk := diskOf(number)
	for _, m := range all {
		// A mount that needs a server is not looked at: see inodeAt.
		if !strings.Contains(m.Point, "/"+DevicesDir+"/") || !m.Local() {
			continue
		}
		switch other, err := deviceOf(os.Lstat(m.Point)); {
		case errors.Is(err, fs.ErrNotExist): // it has gone meanwhile
		case err != nil:
			return "", err
		case other == number || other != 0 && disk == diskOf(other) && (disk == number || disk == other):
			return m.Point, nil
		}
	}
	return "", nil
}

// diskOf is the disk that a partition is on; what is no partition is its own.
func diskOf(number uint64) uint64 {
	dir := fmt.Sprintf("/sys/dev/block/%d:%d", unix.Major(number), unix.Minor(number))
	if _, err := os.Stat(filepath.Join(dir, "partition")); err != nil {
		return number
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return number
	}
	text, err := os.ReadFile(filepath.Join(filepath.Dir(real), "dev"))
	if err != nil {
		return number
	}
	var major, minor uint32
	if n, _ := fmt.Sscanf(string(text), "%d:%d", &major, &minor); n != 2 { //nolint:errcheck,mnd // n says it
		return number
	}
	return unix.Mkdev(major, minor)
}

// MappedAt is Mapped of the device at a path, which is not opened.
func MappedAt(path string) (point string, err error) {
	number, err := deviceOf(os.Stat(path))
	if number == 0 || err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return "", err
	}
	all, err := mounts.Now()
	if err != nil {
		return "", err
	}
	return Mapped(all, number)
}
