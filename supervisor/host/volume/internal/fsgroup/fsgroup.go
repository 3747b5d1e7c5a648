// Package fsgroup gives the files of a volume to a group (API PodSecurityContext.fsGroup). It may hang: a child does
// it.
package fsgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync/atomic"

	"github.com/troupe-dev/troupe/supervisor/host/disk/agentdir"
)

// What a group is given: to read and write all, and to enter directories, in
// which files get the group as well (API PodSecurityContext.fsGroup).
const (
	groupFileMode = 0o660
	groupDirMode  = groupFileMode | 0o110
)

// Change counts the files that were given to a group.
type Change struct {
	// Files were given.
	Files atomic.Int64
	// Refused could not be, and Why the first could not.
	Refused int64
	Why     string
	// Other is the group of a volume that another pod has, if it is another one.
	Other *int64
}

// Give sets the group and modes of a whole tree. With onMismatch, only if its top does not have them already; with
// taken, it only looks at the group of its top. Concurrent changes cannot lead it out of the tree.
func (g *Change) Give(path string, group int, onMismatch, taken bool) error {
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
			g.Other = new(int64(gid))
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

func (g *Change) count(err error) {
	g.Files.Add(1)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return
	}
	if g.Refused++; g.Refused == 1 {
		g.Why = err.Error()
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
