package lab

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// memoryFiles is where Linux keeps files in memory.
const memoryFiles = "/dev/shm"

const storeName = "troupe-etcd-"

// store is where etcd keeps its data: in memory where that can be, as no test asks what a loss of power leaves of it, and the
// disk is what a control plane waits for most.
type store struct {
	dir  string
	lock *os.File // nil: dir is on disk, with all else of the control plane
}

// enough is how much memory has to be free for files: etcd takes 64 MB at a time, and a container may have no more.
const enough = 1 << 30

// newStore makes room in memory, or in dir where there is none. What killed processes have left in memory goes first.
func newStore(dir string) store {
	removeStrayStores(memoryFiles, time.Now().Add(-time.Minute))
	var fs syscall.Statfs_t
	if err := syscall.Statfs(memoryFiles, &fs); err != nil || fs.Bavail*uint64(fs.Bsize) < enough {
		return store{dir: filepath.Join(dir, "etcd")}
	}
	memory, err := os.MkdirTemp(memoryFiles, storeName)
	if err != nil {
		return store{dir: filepath.Join(dir, "etcd")}
	}
	lock, err := lockStore(memory)
	if err != nil {
		_ = os.RemoveAll(memory)
		return store{dir: filepath.Join(dir, "etcd")}
	}
	return store{dir: memory, lock: lock}
}

// lockStore takes the lock of a directory in memory, which ends with the process. It fails if somebody has it.
func lockStore(dir string) (*os.File, error) {
	lock, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

// removeStrayStores removes those whose process is no more. Younger ones may not have taken their lock yet.
func removeStrayStores(memory string, before time.Time) {
	dirs, _ := filepath.Glob(filepath.Join(memory, storeName+"*")) // the pattern is good
	for _, dir := range dirs {
		info, err := os.Stat(dir)
		if err != nil || info.ModTime().After(before) {
			continue
		}
		if lock, err := lockStore(dir); err == nil {
			_ = os.RemoveAll(dir) // what stays is tried again the next time
			lock.Close()
		}
	}
}

// data is etcd's directory, backup that of what Backup keeps.
func (s *store) data() string   { return filepath.Join(s.dir, "data") }
func (s *store) backup() string { return filepath.Join(s.dir, "backup") }

// remove takes it out of memory. On disk it stays, beside the logs.
func (s *store) remove() error {
	if s.lock == nil {
		return nil
	}
	err := errors.Join(os.RemoveAll(s.dir), s.lock.Close())
	s.lock = nil
	return err
}
