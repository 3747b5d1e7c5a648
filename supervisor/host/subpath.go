package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/disk/agentdir"
	"github.com/troupe-dev/troupe/supervisor/host/hostcall"
)

// MountSubPaths implements port.Host. It works in a child process: a volume may
// be of a file system that does not answer.
func (h *Host) MountSubPaths(ctx context.Context, r port.MountSubPaths, done func(paths []string, err error)) {
	hostcall.Get(ctx, "MountSubPaths", objectOf(r.Pod)+"/"+r.Container, func(ctx context.Context) ([]string, error) {
		return h.mountSubPaths(ctx, &r)
	}, done)
}

func (h *Host) mountSubPaths(ctx context.Context, r *port.MountSubPaths) ([]string, error) {
	uid, err := agentdir.PodDir(string(r.Pod.UID))
	if err != nil {
		return nil, err
	}
	if err := agentdir.Element("container name", r.Container); err != nil {
		return nil, err
	}
	ask := request{Op: opSubPaths, Path: filepath.Join(h.pods.Real, uid, subPathsDir)}
	paths := make([]string, 0, len(r.Parts))
	for i := range r.Parts {
		p := &r.Parts[i]
		if err := agentdir.Element("volume name", p.Volume); err != nil {
			return nil, err
		}
		dir := filepath.Join(uid, subPathsDir, p.Volume, r.Container)
		if err := h.pods.Root.MkdirAll(dir, agentdir.Mode); err != nil {
			return nil, err
		}
		name := strconv.Itoa(p.Index)
		ask.Parts = append(ask.Parts, part{Volume: p.Root, Sub: p.SubPath, Target: filepath.Join(h.pods.Real, dir, name)})
		paths = append(paths, filepath.Join(h.pods.Path, dir, name))
	}
	// Two containers with a hanging part of a volume need separate requests.
	ask.Path = filepath.Join(ask.Path, r.Container)
	defer h.binding.begin(uid)()
	return paths, h.children.call(ctx, ask)
}

// part is one sub-path to be mounted.
type part struct {
	Volume string `json:"volume"`
	Sub    string `json:"sub"`
	Target string `json:"target"`
}

func mountParts(parts []part) error {
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
func (p *part) mount() error {
	volume, err := openVolume(p.Volume)
	if err != nil {
		return fmt.Errorf("volume %s: %w", p.Volume, err)
	}
	defer volume.Close() //nolint:errcheck // nothing was written
	place, err := openOrMake(volume, p.Sub)
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

// openVolume opens the volume itself, which a hostPath may reach through links
// of its own: they are the node's.
func openVolume(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), path), nil
}

// explain adds to an error what the user can do.
func (p *part) explain(err error) error {
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
func (p *part) stands(want fs.FileInfo) (bool, error) {
	fd, err := unix.Open(p.Target, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	return p.same(fd, err, want)
}

// same is stands with what the target was opened with.
func (p *part) same(fd int, err error, want fs.FileInfo) (bool, error) {
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	if err != nil {
		// What is mounted there has gone from its server (ESTALE of NFS), or the server has. Then it is not what the
		// volume has at this path now. If nothing is mounted, the error is another one.
		if detach(p.Target) == nil {
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
	return false, detach(p.Target)
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
		return os.WriteFile(path, nil, hostFileMode)
	}
}

// openOrMake opens sub in the volume. It makes missing directories with the mode and, if it
// has one, the group of the volume's own directory.
func openOrMake(volume *os.File, sub string) (*os.File, error) {
	info, err := volume.Stat()
	if err != nil {
		return nil, err
	}
	at, made := ".", volume
	for name := range strings.SplitSeq(filepath.Clean(sub), "/") {
		at = filepath.Join(at, name)
		// With a slash, what an automounter has there is mounted (openat(2), O_PATH). What it says counts for nothing.
		_ = unix.Fstatat(int(made.Fd()), name+"/", &unix.Stat_t{}, unix.AT_SYMLINK_NOFOLLOW)
		next, where, err := openInVolume(volume, at)
		if errors.Is(err, unix.ENOENT) {
			if err = makeIn(made, name, info); err == nil || errors.Is(err, unix.EEXIST) {
				next, where, err = openInVolume(volume, at)
			}
		}
		if made != volume {
			made.Close() //nolint:errcheck // nothing was written
		}
		if err != nil {
			return nil, err
		}
		made, at = next, where
	}
	return made, nil
}

// openBeneath opens a path below dir. Links are followed as long as they stay
// below dir; where the kernel can't see to that (before 5.6), none is.
func openBeneath(dir *os.File, path string) (*os.File, error) {
	fd, err := unix.Openat2(int(dir.Fd()), path, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS,
	})
	if errors.Is(err, unix.EAGAIN) { // something was renamed meanwhile: the kernel could not be sure
		err = unix.ELOOP
	}
	if errors.Is(err, unix.ENOSYS) {
		fd, err = openWithoutLinks(dir, path)
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), filepath.Join(dir.Name(), path)), nil
}

// openInVolume is openBeneath, and follows also links that come back: those with a path on the node that leads to what
// is in the volume. It says where that is. This asks what such a path leads through, so a child does it.
func openInVolume(volume *os.File, path string) (f *os.File, where string, err error) {
	f, err = openBeneath(volume, path)
	if !errors.Is(err, unix.EXDEV) && !errors.Is(err, unix.ELOOP) {
		return f, path, err
	}
	where, inside := resolved(volume.Name(), path)
	if !inside {
		return nil, "", err
	}
	fd, err := openWithoutLinks(volume, where)
	if err != nil {
		return nil, "", err
	}
	return os.NewFile(uintptr(fd), filepath.Join(volume.Name(), where)), where, nil
}

// resolved is where a path in a volume leads on the node, if that is in the volume: relative to it, and without links.
// A container may change any of it at once, so it must be opened without links.
func resolved(volume, path string) (string, bool) {
	root, err := filepath.EvalSymlinks(volume)
	if err != nil {
		return "", false
	}
	to, err := filepath.EvalSymlinks(filepath.Join(root, path))
	if err != nil {
		return "", false // nor is it said whether there is something outside
	}
	inside, err := filepath.Rel(root, to)
	return inside, err == nil && filepath.IsLocal(inside)
}

func openWithoutLinks(dir *os.File, path string) (int, error) {
	at := int(dir.Fd())
	for name := range strings.SplitSeq(path, "/") {
		if name == ".." { // no link, and it leads out all the same
			if at != int(dir.Fd()) {
				_ = unix.Close(at)
			}
			return -1, unix.EXDEV
		}
		fd, err := unix.Openat(at, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if at != int(dir.Fd()) {
			_ = unix.Close(at)
		}
		if err != nil {
			return -1, err
		}
		var stat unix.Stat_t
		if err := unix.Fstat(fd, &stat); err != nil || stat.Mode&unix.S_IFMT == unix.S_IFLNK {
			_ = unix.Close(fd)
			return -1, errors.Join(err, unix.ELOOP)
		}
		at = fd
	}
	return at, nil
}

// makeIn makes a directory in an open one, like the one of info.
func makeIn(dir *os.File, name string, like fs.FileInfo) error {
	mode := like.Mode()
	if err := unix.Mkdirat(int(dir.Fd()), name, uint32(mode.Perm())); err != nil {
		return err
	}
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close() //nolint:errcheck // nothing was written
	if mode&fs.ModeSetgid != 0 {
		_, gid := agentdir.OwnerOf(like)
		_ = f.Chown(-1, gid) // a server may refuse it, and has given it the group of the directory it is in
	}
	return f.Chmod(mode & (fs.ModePerm | fs.ModeSetgid | fs.ModeSticky)) // again without the umask
}
