// Package regularfile reads small files that should be regular: of configuration, state and records.
package regularfile

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Read reads a file of limit bytes at most. Anything but a regular file is an error: a pipe in its place would be
// waited for. Errors name the file, unless it can't be opened: then they are those of os.Open.
func Read(path string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	return read(f, limit)
}

// In is Read for a file below a directory, which no link leads out of.
func In(root *os.Root, name string, limit int64) ([]byte, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	return read(f, limit)
}

// read reads a file, and closes it.
func read(f *os.File, limit int64) ([]byte, error) {
	defer f.Close() //nolint:errcheck // it was only read
	path := f.Name()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New(path + " is not a regular file")
	case info.Size() > limit:
		return nil, fmt.Errorf("%s has %d bytes, more than %d", path, info.Size(), limit)
	}
	// It may grow meanwhile.
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		return nil, fmt.Errorf("%s has more than %d bytes", path, limit)
	}
	return data, err
}
