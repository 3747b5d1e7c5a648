package manifestdir

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

const (
	// MaxSize is the largest file that is read, in bytes: 10 MiB. A node's
	// pods fit many times.
	MaxSize = 10 << 20
	// MaxFiles is the largest number of files that is read.
	MaxFiles = 10_000
	// attempts is how often a file that changes while it is read is read again
	// before it is reported as being written.
	attempts = 3
)

// File is one file of the directory.
type File struct {
	// Name is the path: the directory as it was given, and the file's name.
	Name string
	// Data is the whole content; nil when Err is set.
	Data []byte
	// Err says why the file could not be read and what to do. Its text does
	// not repeat Name.
	Err error
}

// Read returns the files of a directory, sorted by name, or the one file if
// path is a file. Like the kubelet it leaves out names that begin with a dot.
// Links to regular files are followed; everything else that is not a regular file
// becomes a File with Err: a directory, a link to nothing, a FIFO, a socket, a
// device. Nothing of the kind is opened, so none of them can block.
//
// The error is for path as a whole: it does not exist (fs.ErrNotExist), is
// neither directory nor file, cannot be listed, has more than MaxFiles, or ctx
// is done.
func Read(ctx context.Context, path string) ([]File, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errMissing
	}
	if err != nil {
		return nil, fmt.Errorf("read manifests: %w", err)
	}
	switch {
	case info.Mode().IsRegular():
		return []File{readFile(path)}, nil
	case !info.IsDir():
		return nil, fmt.Errorf("read manifests: %s is %s: give a directory or a file", path, kindOf(info.Mode()))
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, fmt.Errorf("read manifests: %w", err)
	}
	var names []string
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), ".") {
			names = append(names, entry.Name())
		}
	}
	if len(names) > MaxFiles {
		return nil, fmt.Errorf("read manifests: %s has %d files: at most %d are read", path, len(names), MaxFiles)
	}
	slices.Sort(names)
	files := make([]File, 0, len(names))
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("read manifests in %s: %w", path, err)
		}
		files = append(files, readFile(filepath.Join(path, name)))
	}
	return files, nil
}

// errMissing: there is nothing at the path. It is an fs.ErrNotExist.
var errMissing = missing{}

type missing struct{}

func (missing) Error() string {
	return "the directory does not exist: create it, or correct staticPodPath (--pod-manifest-path)"
}

func (missing) Is(target error) bool { return target == fs.ErrNotExist }

func readFile(name string) File {
	data, err := readStable(name)
	return File{Name: name, Data: data, Err: err}
}

// errChanged: size or time of the file were others after reading than before.
var errChanged = errors.New("is being written: it is read again when the write is complete")

// readStable reads a file until two looks at its size and time agree, so that
// a file half written is not taken for the whole.
func readStable(name string) ([]byte, error) {
	for range attempts {
		data, err := readOnce(name)
		if !errors.Is(err, errChanged) {
			return data, err
		}
	}
	return nil, errChanged
}

func readOnce(name string) ([]byte, error) {
	// A look before opening: to open a device or a FIFO may act on it.
	info, err := os.Stat(name)
	if err != nil {
		return nil, statError(name, err)
	}
	if err := acceptable(info); err != nil {
		return nil, err
	}
	// O_NONBLOCK, and the look repeated on what was opened: it may have been
	// replaced by a FIFO in between.
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, statError(name, err)
	}
	defer f.Close() //nolint:errcheck // nothing was written
	before, err := f.Stat()
	if err != nil {
		return nil, plain(err)
	}
	if err := acceptable(before); err != nil {
		return nil, err
	}
	var buffer bytes.Buffer
	buffer.Grow(int(before.Size()) + bytes.MinRead)
	// One byte more than allowed shows a file that grows meanwhile.
	if _, err := io.Copy(&buffer, io.LimitReader(f, MaxSize+1)); err != nil {
		return nil, plain(err)
	}
	after, err := f.Stat()
	if err != nil {
		return nil, plain(err)
	}
	if after.Size() != before.Size() || !after.ModTime().Equal(before.ModTime()) || int64(buffer.Len()) != after.Size() {
		return nil, errChanged
	}
	return buffer.Bytes(), nil
}

func acceptable(info fs.FileInfo) error {
	switch {
	case !info.Mode().IsRegular():
		return fmt.Errorf("is %s: only files are read, move it elsewhere", kindOf(info.Mode()))
	case info.Size() > MaxSize:
		// Not how long: a file that grows would be news again and again.
		return fmt.Errorf("is longer than %d MiB, the limit of a manifest", MaxSize>>20)
	}
	return nil
}

func kindOf(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a directory"
	case mode&fs.ModeNamedPipe != 0:
		return "a FIFO"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeDevice != 0:
		return "a device"
	default:
		return "not a regular file"
	}
}

// statError explains a name that leads nowhere: it vanished, or it is a link
// whose end is missing.
func statError(name string, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return plain(err)
	}
	target, linkErr := os.Readlink(name)
	if linkErr != nil {
		return fmt.Errorf("was removed while it was read: %w", plain(err))
	}
	return fmt.Errorf("is a link to %s, which does not exist: %w", target, plain(err))
}

// plain takes operation and path off an error: File.Name has the path.
func plain(err error) error {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		return pathErr.Err
	}
	return err
}
