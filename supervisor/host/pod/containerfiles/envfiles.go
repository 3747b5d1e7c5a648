package containerfiles

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/actors/decide/containerplan"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/internal/hostcall"
	"github.com/troupe-dev/troupe/supervisor/host/volume/beneath"
)

// ReadEnvFiles implements port.ContainerFiles.
func (c *Files) ReadEnvFiles(
	ctx context.Context, r port.ReadEnvFiles, done func([]*containerplan.EnvFileValues, error),
) {
	object := hostcall.Pod(r.Pod) + "/" + r.Container
	hostcall.Get(ctx, "ReadEnvFiles", object, func(ctx context.Context) ([]*containerplan.EnvFileValues, error) {
		read, err := containerplan.ReadEnvFiles(r.Files, func(f containerplan.EnvFile) ([]byte, error) {
			if ctx.Err() != nil { // of thousands, nobody may wait for the rest
				return nil, ctx.Err()
			}
			data, err := readInVolume(f.Root, f.Path)
			switch {
			case errors.Is(err, unix.ENOENT):
				return nil, nil
			case errors.Is(err, unix.EXDEV), errors.Is(err, unix.ELOOP):
				return nil, hostcall.Failf(port.InvalidConfig,
					"env file %s of volume %q points outside the volume through a symbolic link", f.Path, f.Volume)
			case err != nil:
				return nil, hostcall.Failf(port.InvalidConfig, "env file %s of volume %q: %v", f.Path, f.Volume, err)
			}
			return data, nil
		})
		if errors.Is(err, containerplan.ErrTooLong) {
			err = hostcall.Failf(port.InvalidConfig, "%v", err)
		}
		return read, err
	}, done)
}

// readInVolume reads a file that a container wrote: it may be anything by now, so
// it is found without leaving the volume, and only a regular one is opened.
func readInVolume(root, path string) ([]byte, error) {
	volume, err := beneath.OpenVolume(root)
	if err != nil {
		return nil, err
	}
	defer volume.Close() //nolint:errcheck // nothing was written
	place, err := beneath.Open(volume, path)
	if err != nil {
		return nil, err
	}
	defer place.Close() //nolint:errcheck // nothing was written
	info, err := place.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	f, err := os.OpenFile("/proc/self/fd/"+strconv.Itoa(int(place.Fd())), os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, errors.New("it can't be opened")
	}
	defer f.Close() //nolint:errcheck // it was only read
	data, err := io.ReadAll(io.LimitReader(f, containerplan.MaxEnvFile+1))
	if err != nil {
		return nil, err
	}
	if len(data) > containerplan.MaxEnvFile {
		return nil, fmt.Errorf("it is longer than %d bytes", containerplan.MaxEnvFile)
	}
	if data == nil {
		data = []byte{}
	}
	return data, nil
}
