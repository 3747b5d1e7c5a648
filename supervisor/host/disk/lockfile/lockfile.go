// Package lockfile holds the file of --lock-file, by which node agents of one machine take turns, as kubelets do:
// each holds a lock on the file while it runs (flock(2)), and one with --exit-on-lock-contention ends when another
// process opens the file.
package lockfile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// permission of a file that is made.
	permission = 0o600
	// retry is how often a lock that another process holds is tried.
	retry = 200 * time.Millisecond
)

// File is a lock file that this process holds. The lock goes with the process, however that ends.
type File struct {
	path string
	lock *os.File

	mu    sync.Mutex
	watch *os.File // nil: nobody wants to know
	ended sync.WaitGroup
}

// Take locks the file, and makes it if it is not there. While another process holds it, Take waits, until ctx is
// done; waiting is called once before that.
func Take(ctx context.Context, path string, waiting func()) (*File, error) {
	failed := func(err error) error { return fmt.Errorf("lock the file of --lock-file: %w", err) }
	lock, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NONBLOCK, permission)
	if err != nil {
		return nil, failed(err)
	}
	for first := true; ; first = false {
		err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return &File{path: path, lock: lock}, nil
		case errors.Is(err, syscall.EINTR):
			continue
		case !errors.Is(err, syscall.EWOULDBLOCK):
			return nil, errors.Join(failed(&os.PathError{Op: "flock", Path: path, Err: err}), lock.Close())
		case first:
			waiting()
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(failed(ctx.Err()), lock.Close())
		case <-time.After(retry):
		}
	}
}

// Contended gives a channel that is closed when another process opens the file, or when the file is gone. It is
// called at most once.
func (f *File) Contended() (<-chan struct{}, error) {
	failed := func(err error) error { return fmt.Errorf("watch the file of --lock-file %s: %w", f.path, err) }
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, failed(err)
	}
	watch := os.NewFile(uintptr(fd), "inotify")
	if _, err := unix.InotifyAddWatch(fd, f.path, unix.IN_OPEN|unix.IN_DELETE_SELF); err != nil {
		return nil, errors.Join(failed(err), watch.Close())
	}
	f.mu.Lock()
	f.watch = watch
	f.mu.Unlock()
	contended := make(chan struct{})
	f.ended.Go(func() {
		event := make([]byte, unix.SizeofInotifyEvent+unix.NAME_MAX+1)
		if _, err := watch.Read(event); err == nil {
			close(contended)
		}
	})
	return contended, nil
}

// Close gives the lock up. The file stays: others lock it.
func (f *File) Close() error {
	f.mu.Lock()
	watch := f.watch
	f.watch = nil
	f.mu.Unlock()
	var err error
	if watch != nil {
		err = watch.Close()
		f.ended.Wait()
	}
	return errors.Join(err, f.lock.Close())
}
