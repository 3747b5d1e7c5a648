package crilog

import (
	"context"
	"path/filepath"
	"sync"

	"github.com/fsnotify/fsnotify"

	"github.com/troupe-dev/troupe/supervisor/internal/again"
)

// Watcher tells readers that something happened in the directories of their
// logs. It is one for all of a program: a user may have only so many (inotify,
// max_user_instances), and needs none while no log is followed. The zero Watcher is
// ready.
type Watcher struct {
	mu     sync.Mutex
	notify *fsnotify.Watcher // nil without subscribers
	dirs   map[string]map[chan struct{}]bool
}

// subscribe returns a channel that is notified of changes in dir, at least once after each, and a
// function that ends that. ok is false if the system does not notify.
func (w *Watcher) subscribe(dir string) (woken <-chan struct{}, leave func(), ok bool) {
	none := func() {}
	if w == nil {
		return nil, none, false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.notify == nil {
		n, err := fsnotify.NewWatcher()
		if err != nil {
			return nil, none, false
		}
		w.notify, w.dirs = n, map[string]map[chan struct{}]bool{}
		again.Go(context.Background(), func() { w.tell(n) }, func(string) { w.wake("") }) // some may have been missed
	}
	if w.dirs[dir] == nil {
		if err := w.notify.Add(dir); err != nil {
			w.closeIfUnused()
			return nil, none, false
		}
		w.dirs[dir] = map[chan struct{}]bool{}
	}
	c := make(chan struct{}, 1)
	w.dirs[dir][c] = true
	return c, func() { w.leave(dir, c) }, true
}

func (w *Watcher) leave(dir string, c chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if delete(w.dirs[dir], c); len(w.dirs[dir]) > 0 {
		return
	}
	delete(w.dirs, dir)
	w.notify.Remove(dir) //nolint:errcheck // the directory may be gone, and its watch with it
	w.closeIfUnused()
}

func (w *Watcher) closeIfUnused() {
	if len(w.dirs) == 0 {
		w.notify.Close() //nolint:errcheck // ends its goroutine and ours
		w.notify = nil
	}
}

// tell hands on what n sees, until it is closed.
func (w *Watcher) tell(n *fsnotify.Watcher) {
	for {
		select {
		case e, ok := <-n.Events:
			if !ok {
				return
			}
			w.wake(e.Name)
		case _, ok := <-n.Errors:
			if !ok {
				return
			}
			w.wake("") // some were missed
		}
	}
}

// wake tells those who wait for the directory that a file is in, or all.
func (w *Watcher) wake(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if name != "" {
		wakeAll(w.dirs[filepath.Dir(name)])
		return
	}
	for _, waiting := range w.dirs { // order-free: all are told
		wakeAll(waiting)
	}
}

func wakeAll(waiting map[chan struct{}]bool) {
	for c := range waiting { // order-free: all are told
		select {
		case c <- struct{}{}:
		default: // it has not come to the last one yet
		}
	}
}
