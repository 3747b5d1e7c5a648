package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/disk/agentdir"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/mounts"
)

// GiveToGroup gives the files of a mounted volume to a group, in a child process. With onMismatch, unless its top has
// the group already. Files that can't be given stay as they are, as with a kubelet: whoever reads the log is told.
func (h *Volumes) GiveToGroup(
	ctx context.Context, path string, group int64, onMismatch bool, walked port.Walked,
) error {
	a, err := h.children.ask(ctx, request{
		Op: opBind, Path: path, Mounted: true, Group: &group, OnMismatch: onMismatch, walked: walked,
	})
	if err == nil && a.Refused > 0 {
		h.warn("fsGroup not applied to some files of a volume; the pod starts anyway",
			"path", path, "fsGroup", group, "files", a.Refused, "firstError", a.Why)
	}
	return err
}

// grouping is about the group of the volume name of a plugin, mounted at dir of its pod.
type grouping struct {
	r                 *port.MountVolume
	plugin, name, dir string
	group             int64
	readOnly          bool
}

// settle gives the files of a volume to the group of its pod, unless it is read-only, or another pod has it. Other pods
// wait for release.
func (h *Volumes) settle(ctx context.Context, g *grouping) (release func(), err error) {
	release = func() {}
	if !g.readOnly {
		// One pod after another: two at once would leave some files to the one, and some to the other.
		if release, err = h.disks.hold(ctx, "group/"+g.plugin+"/"+g.name); err != nil {
			return func() {}, err
		}
	}
	path := filepath.Join(h.pods.Real, g.dir)
	switch taken, err := h.inOtherPod(g.dir, g.plugin); {
	case err != nil:
		return release, err
	case taken:
		return release, h.wantGroup(ctx, path, g.group, g.r.Taken)
	case g.readOnly:
		return release, nil
	}
	c := g.r.Pod.Spec.SecurityContext.FSGroupChangePolicy
	return release, h.GiveToGroup(ctx, path, g.group, c != nil && *c == v1.FSGroupChangeOnRootMismatch, g.r.Walked)
}

// inOtherPod reports whether another pod has a local volume, be it by another name. Its files stay as that one has
// them, as with a kubelet.
func (h *Volumes) inOtherPod(dir, plugin string) (bool, error) {
	if plugin != localPlugin {
		return false, nil
	}
	all, err := h.mounts()
	if err != nil {
		return false, err
	}
	mine := mounts.Of(all, filepath.Join(h.pods.Real, dir))
	for _, m := range mounts.Below(all, h.pods.Real) {
		parts := strings.Split(strings.TrimPrefix(m.Point, h.pods.Real+"/"), "/")
		if len(parts) == 4 && parts[1] == volumesDir && parts[2] == plugin && m.Point != mine.Point &&
			m.Device == mine.Device && m.Root == mine.Root &&
			h.exists(filepath.Join(parts[0], pluginsDir, plugin, parts[3], readyFile)) {
			return true, nil
		}
	}
	return false, nil
}

// wantGroup changes nothing, and tells taken if the volume is of another group.
func (h *Volumes) wantGroup(ctx context.Context, path string, group int64, taken func(group int64)) error {
	a, err := h.children.ask(ctx, request{Op: opBind, Path: path, Mounted: true, Group: &group, Taken: true})
	if err == nil && a.Group != nil && taken != nil {
		taken(*a.Group)
	}
	return err
}

// What a group is given: to read and write all, and to enter directories, in
// which files get the group as well (API PodSecurityContext.fsGroup).
const (
	groupFileMode = 0o660
	groupDirMode  = groupFileMode | 0o110
)

// regroup counts the files that were given to a group.
type regroup struct {
	files atomic.Int64
	// refused could not be, and why the first could not.
	refused int64
	why     string
	// other is the group of a volume that another pod has, if it is another one.
	other *int64
}

// toGroup sets the group and modes of a whole tree. With onMismatch, only if its top does not have them already; with
// taken, it only looks at the group of its top. Concurrent changes cannot lead it out of the tree.
func (g *regroup) toGroup(path string, group int, onMismatch, taken bool) error {
	root, err := os.OpenRoot(path)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // nothing is held
	if onMismatch || taken {
		info, err := root.Stat(".")
		if err != nil {
			return err
		}
		_, gid := agentdir.OwnerOf(info)
		if taken && gid != group {
			g.other = new(int64(gid))
		}
		if taken || gid == group && info.Mode().Perm()&groupDirMode == groupDirMode && info.Mode()&fs.ModeSetgid != 0 {
			return nil
		}
	}
	// The top comes last: until it matches, an interrupted change is repeated as a whole.
	err = fs.WalkDir(root.FS(), ".", func(name string, _ fs.DirEntry, err error) error {
		if err == nil && name != "." {
			g.count(giveOne(root, name, group))
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed meanwhile
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("fsGroup %d: %w", group, err)
	}
	g.count(giveOne(root, ".", group))
	return nil
}

func (g *regroup) count(err error) {
	g.files.Add(1)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return
	}
	if g.refused++; g.refused == 1 {
		g.why = err.Error()
	}
}

// giveOne sets the mode also of what can't get the group: there are servers that refuse the one, and take the other.
func giveOne(root *os.Root, name string, group int) error {
	info, err := root.Lstat(name)
	if err != nil {
		return err
	}
	// It clears setuid and setgid of files, which are to stay.
	given := root.Lchown(name, -1, group)
	const special = fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky
	mode := info.Mode() & (fs.ModePerm | special)
	switch {
	case info.IsDir():
		return errors.Join(given, root.Chmod(name, mode|groupDirMode|fs.ModeSetgid))
	case info.Mode()&fs.ModeSymlink != 0:
		return given
	default:
		return errors.Join(given, root.Chmod(name, mode|groupFileMode))
	}
}
