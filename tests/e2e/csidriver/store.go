package csidriver

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
)

// known is what the driver knows, by ID.
type known struct {
	Volumes   map[string]*Volume
	Snapshots map[string]*Snapshot
	// Nodes are those that had a driver, and how many volumes each takes.
	Nodes map[string]int64
}

// Volume is a volume.
type Volume struct {
	ID, Name string
	Size     int64
	// Image: it is a file with the blocks of a device. Else it is a directory.
	Image bool
	// Ephemeral: it was made when it was published, and goes when it is unpublished.
	Ephemeral bool
	// From is the ID of the volume or the snapshot that it was made of.
	From string
	// Attached says to which nodes it is, Staged and Published at which paths, and how. Invariant: where it is published,
	// it is staged; where it is staged, it is attached.
	Attached, Staged, Published map[string]string
	// Abnormal is what is wrong with it, for those that ask for its condition.
	Abnormal string
}

func (v *Volume) used() bool { return len(v.Attached)+len(v.Staged)+len(v.Published) > 0 }

// Snapshot is what a volume was.
type Snapshot struct {
	ID, Name, Volume string
	Size             int64
	Image            bool
	Made             time.Time
}

// store keeps what is known in a file, for all processes that have it.
type store struct{ path string }

// change has f change what is known. If f fails, nothing has changed.
func (s store) change(f func(*known) error) (err error) {
	defer check.Return(&err)
	lock := check.Must(os.OpenFile(s.path+".lock", os.O_CREATE|os.O_RDWR, 0o600))
	defer lock.Close()
	for err = syscall.EINTR; errors.Is(err, syscall.EINTR); {
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		return fmt.Errorf("lock %s: %w", s.path, err)
	}
	k := known{Volumes: map[string]*Volume{}, Snapshots: map[string]*Snapshot{}, Nodes: map[string]int64{}}
	text, err := os.ReadFile(s.path)
	if err == nil {
		err = json.Unmarshal(text, &k)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	check.OK(f(&k))
	after, err := json.Marshal(k)
	if err != nil || string(after) == string(text) {
		return err
	}
	fresh := filepath.Join(filepath.Dir(s.path), "fresh")
	check.OK(os.WriteFile(fresh, after, 0o600))
	return os.Rename(fresh, s.path)
}

// read is a copy of what is known.
func (s store) read() (k known, err error) {
	err = s.change(func(now *known) error {
		k = *now
		return nil
	})
	return k, err
}
