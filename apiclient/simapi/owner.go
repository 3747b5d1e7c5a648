package simapi

import (
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/troupe-dev/troupe/actors/port"
)

// The owner's interface: for a world's scheduler, controllers and users. These calls take no
// time, and none calls back before it returns. Errors are *apierrors.StatusError, so that
// apierrors.IsConflict and the like work.

// Create stores a new object and returns the stored version.
func (s *Server) Create(o port.APIObject) (port.APIObject, error) {
	return do(s, func() (port.APIObject, error) { return s.create(o) })
}

// Get returns the newest version of an object.
func (s *Server) Get(k port.APIKey) (port.APIObject, error) {
	s.stage.Lock()
	defer s.stage.Unlock()
	return s.get(k)
}

func (s *Server) get(k port.APIKey) (port.APIObject, error) {
	if e := s.tables[k.Kind].objects[name{k.Namespace, k.Name}]; e != nil {
		return e.object, nil
	}
	return nil, notFound(k)
}

// Update replaces an object, except its status. A resource version, if set, must be the newest.
func (s *Server) Update(o port.APIObject) (port.APIObject, error) {
	return do(s, func() (port.APIObject, error) { return s.update(o, false) })
}

// UpdateStatus replaces only the status of an object.
func (s *Server) UpdateStatus(o port.APIObject) (port.APIObject, error) {
	return do(s, func() (port.APIObject, error) { return s.update(o, true) })
}

// Patch applies the difference of two versions of an object.
func (s *Server) Patch(p port.APIPatch) (port.APIObject, error) {
	return do(s, func() (port.APIObject, error) { return s.patch(p) })
}

// Delete starts the deletion of an object, or completes it.
func (s *Server) Delete(d port.APIDelete) error {
	var err error
	s.stage.Do(func() { err = s.remove(d) })
	return err
}

// Bind assigns a pod to a node, as a scheduler does (pods/binding). It fails with Conflict if the
// pod is bound or being deleted.
func (s *Server) Bind(namespace, pod, node string) error {
	var err error
	s.stage.Do(func() { err = s.bind(namespace, pod, node) })
	return err
}

// Select is the selection of an owner's list or watch: all of a kind, of one namespace if
// Namespace is not empty, that match both selectors. The selectors have kubectl's syntax:
// spec.nodeName=n1,status.phase!=Failed; app=web,tier in (a,b).
type Select struct {
	Kind      port.APIKind
	Namespace string
	Field     string
	Label     string
}

// List returns the selected objects, ordered by namespace and name, and the resource version of
// the list.
func (s *Server) List(q Select) ([]port.APIObject, uint64, error) {
	sel, err := parseSelector(q.Kind, q.Namespace, q.Field, q.Label)
	if err != nil {
		return nil, 0, err
	}
	s.stage.Lock()
	defer s.stage.Unlock()
	return s.tables[sel.kind].list(sel), s.version, nil
}

// WatchOptions describes an owner's watch.
type WatchOptions struct {
	Select
	// Since is the resource version after which it begins: that of a list, or of the last event
	// of an earlier watch. With 0 it begins with an Added for each existing object.
	Since uint64
	// Bookmarks is the time between bookmarks, 0 for none.
	Bookmarks time.Duration
}

// Watch calls event for each change of the selected objects, until stop. It has no delay. It
// fails with Expired (410 Gone) if the history since then is incomplete: then list again.
func (s *Server) Watch(o WatchOptions, event func(Event)) (stop func(), err error) {
	sel, err := parseSelector(o.Kind, o.Namespace, o.Field, o.Label)
	if err != nil {
		return nil, err
	}
	if o.Bookmarks < 0 {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("bookmarks every %v", o.Bookmarks))
	}
	w := &ownWatch{s: s, event: event, every: o.Bookmarks}
	w.watch = watch{sel: sel, tell: w.take}
	s.stage.Do(func() { err = w.begin(o.Since) })
	if err != nil {
		return nil, err
	}
	return w.stop, nil
}

// ownWatch is a watch of the owner's.
type ownWatch struct {
	watch
	s     *Server
	event func(Event)
	every time.Duration
	// waiting are events that deliver will report.
	waiting  []Event
	ended    bool
	stopMark func() bool
}

func (w *ownWatch) begin(since uint64) error {
	t := w.s.tables[w.sel.kind]
	switch {
	case since > w.s.version:
		return apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", since, w.s.version), 1)
	case since == 0:
		for _, o := range t.list(w.sel) {
			w.take(Event{Added, o, versionOf(o)})
		}
	case !t.history.since(since, w.see):
		return apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", since, t.history.floor))
	}
	t.watches.add(&w.watch)
	w.mark()
	return nil
}

// take queues an event until the lock is free.
func (w *ownWatch) take(e Event) {
	w.waiting = append(w.waiting, e)
	if len(w.waiting) == 1 {
		w.s.stage.Later(w.deliver)
	}
}

func (w *ownWatch) deliver() {
	w.s.stage.Lock()
	events := w.waiting
	w.waiting = nil
	w.s.stage.Unlock()
	for _, e := range events {
		w.s.stage.Lock()
		ended := w.ended
		w.s.stage.Unlock()
		if ended {
			return
		}
		w.event(e)
	}
}

// mark sends a periodic bookmark.
func (w *ownWatch) mark() {
	if w.every > 0 {
		w.stopMark = w.s.stage.After(w.every, func() {
			if !w.ended {
				w.take(Event{Type: Bookmark, Version: w.s.version})
				w.mark()
			}
		})
	}
}

func (w *ownWatch) stop() {
	w.s.stage.Do(func() {
		if w.ended {
			return
		}
		w.ended = true
		w.s.tables[w.sel.kind].watches.remove(&w.watch)
		if w.stopMark != nil {
			w.stopMark()
		}
	})
}

func do[T any](s *Server, f func() (T, error)) (v T, err error) {
	s.stage.Do(func() { v, err = f() })
	return v, err
}
