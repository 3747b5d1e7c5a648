// Package reread reads files again when they have changed: certificates that another program renews.
package reread

import (
	"crypto/tls"
	"os"
	"slices"
	"time"
)

// Period is the shortest time that a user leaves between two looks at files.
const Period = time.Second

// Files are files that are read together. While they can't be read, because only one of two was written yet, say, the
// last value stays. They are not for several goroutines at a time.
type Files[T any] struct {
	paths []string
	read  func() (T, error)
	seen  []state
	// Value is what was read last; zero before the first time.
	Value T
}

// state is that of a file when it was read.
type state struct {
	modified time.Time
	size     int64
}

// Of reads nothing yet.
func Of[T any](read func() (T, error), paths ...string) Files[T] {
	return Files[T]{paths: paths, read: read}
}

// Pair is a certificate with its key.
func Pair(cert, key string) Files[*tls.Certificate] {
	return Of(func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(cert, key)
		return &pair, err
	}, cert, key)
}

// Look reads the files, unless they are as they were when they were read last. changed: there is another Value.
func (f *Files[T]) Look() (changed bool, err error) {
	now := make([]state, len(f.paths))
	for i, path := range f.paths {
		info, err := os.Stat(path)
		if err != nil {
			return false, err
		}
		now[i] = state{info.ModTime(), info.Size()}
	}
	if slices.Equal(now, f.seen) {
		return false, nil
	}
	value, err := f.read()
	if err != nil {
		return false, err
	}
	f.seen, f.Value = now, value
	return true, nil
}
