// Package durable replaces files as a whole: a reader finds the old one or the new one. All files that the agent
// replaces are written here, each with the durability that it needs.
package durable

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Durability is what a replaced file outlives. A kill of the agent it always does.
type Durability uint8

const (
	// Whole: after a loss of power there is the old file or the new one, and neither a part nor an empty file. For what
	// the next start can do without.
	Whole Durability = iota + 1
	// Kept: after a loss of power there is the new file, and the directories on the way to it. For what must be known
	// of something that begins after the write.
	Kept
)

// Temporary is the name that a file has while it is written. An agent that is killed may leave it; the next Write
// replaces it.
func Temporary(name string) string {
	return filepath.Join(filepath.Dir(name), "."+filepath.Base(name))
}

// Write replaces the file at name, below root. The caller lets no other Write of the same name begin meanwhile.
func Write(root *os.Root, name string, data []byte, mode fs.FileMode, d Durability) error {
	return disk{(*os.File).Sync}.write(root, name, data, mode, d)
}

// WriteAt is Write for a path in a directory that has been there for long: of the way, that alone is brought to the
// disk.
func WriteAt(path string, data []byte, mode fs.FileMode, d Durability) error {
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // nothing is written through it
	return Write(root, filepath.Base(path), data, mode, d)
}

// Lost says whether a file has nothing in it: its writer did not bring it to the disk, and the machine lost its power.
// Some file systems then have zeros in it.
func Lost(data []byte) bool { return len(bytes.Trim(data, "\x00")) == 0 }

// disk brings files to a disk.
type disk struct{ sync func(*os.File) error }

func (k disk) write(root *os.Root, name string, data []byte, mode fs.FileMode, d Durability) (err error) {
	fresh := Temporary(name)
	// One that was left may have another mode, or be a link.
	if err := root.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := root.OpenFile(fresh, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(mode) // without the umask
	}
	if err == nil {
		err = k.sync(f)
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = root.Rename(fresh, name)
	}
	if err != nil {
		return errors.Join(err, root.Remove(fresh))
	}
	for at := filepath.Dir(name); d == Kept; at = filepath.Dir(at) {
		if err := k.syncDir(root, at); err != nil || at == "." {
			return err
		}
	}
	return nil
}

// syncDir brings the names in a directory to the disk. Some file systems can't.
func (k disk) syncDir(root *os.Root, dir string) error {
	f, err := root.Open(dir)
	if err != nil {
		return err
	}
	if err = k.sync(f); errors.Is(err, unix.EINVAL) {
		err = nil
	}
	return errors.Join(err, f.Close())
}
