// Package subpath mounts parts of volumes for containers (API VolumeMount.subPath).
package subpath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/disk/agentdir"
	"github.com/troupe-dev/troupe/supervisor/host/internal/hostcall"
	"github.com/troupe-dev/troupe/supervisor/host/volume/beneath"
	"github.com/troupe-dev/troupe/supervisor/host/volume/internal/unmount"
)

// fileMode is that of a file that a file is mounted on.
const fileMode = 0o644

// Part is one sub-path to be mounted.
type Part struct {
	// Volume is where the volume is mounted, Sub a path in it, and Target where it is mounted.
	Volume string `json:"volume"`
	Sub    string `json:"sub"`
	Target string `json:"target"`
}

// Mount mounts parts in their order, unless they are. It works in a child process.
func Mount(parts []Part) error {
	for _, p := range parts {
		if err := p.mount(); err != nil {
			return err
		}
	}
	return nil
}

// mount binds the file at Sub in the volume to Target. A container with the volume can create
// links anywhere, at any moment. So the source is an open file, which the kernel found without
// leaving the volume, and never a path that is resolved again.
func (p *Part) mount() error {
	volume, err := beneath.OpenVolume(p.Volume)
	if err != nil {
		return fmt.Errorf("volume %s: %w", p.Volume, err)
	}
	defer volume.Close() //nolint:errcheck // nothing was written
	place, err := beneath.OpenOrMake(volume, p.Sub)
	if err != nil {
		return p.explain(err)
	}
	defer place.Close() //nolint:errcheck // nothing was written
	info, err := place.Stat()
	if err != nil {
		return p.explain(err)
	}
	switch stands, err := p.stands(info); {
	case err != nil || stands:
		return err
	}
	if err := makeTarget(p.Target, info.IsDir()); err != nil {
		return err
	}
	source := "/proc/self/fd/" + strconv.Itoa(int(place.Fd()))
	if err := unix.Mount(source, p.Target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount subPath %q of %s: %w", p.Sub, p.Volume, err)
	}
	return nil
}

// explain adds to an error what the user can do.
func (p *Part) explain(err error) error {
	switch {
	case errors.Is(err, unix.EXDEV), errors.Is(err, unix.ELOOP):
		return hostcall.Failf(port.InvalidConfig,
			"subPath %q points outside its volume through a symbolic link, or nowhere: change the link", p.Sub)
	case errors.Is(err, unix.ENOTDIR):
		return hostcall.Failf(port.InvalidConfig, "subPath %q: an element of this path is a file, not a directory", p.Sub)
	case errors.Is(err, unix.EROFS):
		return hostcall.Failf(port.InvalidConfig,
			"subPath %q does not exist, and the volume is read-only: create it in the volume first", p.Sub)
	}
	return fmt.Errorf("failed to create subPath directory for volumeMount %q: %w", p.Sub, err)
}

// stands reports whether the very thing is mounted already. Something else that is
// mounted there, of an earlier incarnation of the container, is taken away.
func (p *Part) stands(want fs.FileInfo) (bool, error) {
	fd, err := unix.Open(p.Target, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	return p.same(fd, err, want)
}

// same is stands with what the target was opened with.
func (p *Part) same(fd int, err error, want fs.FileInfo) (bool, error) {
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	if err != nil {
		// What is mounted there has gone from its server (ESTALE of NFS), or the server has. Then it is not what the
		// volume has at this path now. If nothing is mounted, the error is another one.
		if unmount.Detach(p.Target) == nil {
			return false, nil
		}
		return false, err
	}
	target := os.NewFile(uintptr(fd), p.Target)
	defer target.Close() //nolint:errcheck // nothing was written
	dir, err := os.Open(filepath.Dir(p.Target))
	if err != nil {
		return false, err
	}
	defer dir.Close() //nolint:errcheck // nothing was written
	its, err := agentdir.MountID(target)
	if err != nil {
		return false, err
	}
	above, err := agentdir.MountID(dir)
	if err != nil || its == above {
		return false, err
	}
	if have, err := target.Stat(); err == nil && os.SameFile(have, want) {
		return true, nil
	}
	return false, unmount.Detach(p.Target)
}

// makeTarget makes what the thing can be bound to: a directory or a file.
func makeTarget(path string, dir bool) error {
	info, err := os.Lstat(path)
	if err == nil && info.IsDir() != dir {
		if err := os.Remove(path); err != nil {
			return err
		}
		err = fs.ErrNotExist
	}
	switch {
	case !errors.Is(err, fs.ErrNotExist):
		return err
	case dir:
		return os.Mkdir(path, agentdir.Mode)
	default:
		return os.WriteFile(path, nil, fileMode)
	}
}
