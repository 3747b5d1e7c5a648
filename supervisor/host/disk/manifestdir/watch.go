package manifestdir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Options says what to watch. All fields but Warn are needed.
type Options struct {
	// Path is a directory, or a single file. It need not exist yet.
	Path string
	// Period is the longest time between two notifications
	// (KubeletConfiguration fileCheckFrequency): the safety net where the
	// kernel tells nothing, as on NFS.
	Period time.Duration
	// Settle is how long nothing must have happened before a change is
	// notified, so that a file that is just being written is read once, and
	// whole. A quiet time never comes if someone writes all the time: after
	// maxSettles of it a change is notified in any case.
	Settle time.Duration
	// Notify is called from Watch's goroutine and must not block. again are files of the directory that were removed
	// since the last call, or before it, and are back.
	Notify func(again []string)
	// Warn is told when the kernel cannot be asked for events, so that the
	// period is all there is; once for each new reason.
	Warn func(error)
}

const maxSettles = 10

// Validate checks the options.
func (o Options) Validate() error {
	switch {
	case o.Path == "":
		return errors.New("watch manifests: no path")
	case o.Period <= 0:
		return fmt.Errorf("watch manifests: period %v: must be above 0", o.Period)
	case o.Settle <= 0:
		return fmt.Errorf("watch manifests: settle time %v: must be above 0", o.Settle)
	case o.Notify == nil:
		return errors.New("watch manifests: Notify is not set")
	}
	return nil
}

// Watch calls Notify at once, after every change of the path or what is in it,
// and at least once a period, until ctx is done; it returns nil then. The
// path may be missing, be deleted and made again, be renamed, or be a link
// that changes: its parent directory is watched too.
func Watch(ctx context.Context, o Options) error {
	if err := o.Validate(); err != nil {
		return err
	}
	o.Path = filepath.Clean(o.Path)
	w := &watch{Options: o}
	w.open()
	defer w.close()
	period := time.NewTicker(o.Period)
	defer period.Stop()
	// Stopped until something changes.
	settled := time.NewTimer(o.Settle)
	settled.Stop()
	defer settled.Stop()
	waited := 0

	w.aim()
	o.Notify(nil)
	for {
		select {
		case <-ctx.Done():
			return nil
		case event := <-w.events():
			if event.Name == w.Path {
				w.returns.gone = nil // the directory is another one, of which not all was told
			} else if filepath.Dir(event.Name) == w.Path {
				w.returns.follow(event)
			}
			if w.concerns(event) && waited < maxSettles {
				waited++
				settled.Reset(o.Settle)
			}
		case err := <-w.errors():
			// An overflow lost events; anything else leaves us blind. Both are
			// answered by looking.
			w.warn(fmt.Errorf("watch manifests in %s: %w", o.Path, err))
			settled.Reset(o.Settle)
		case <-settled.C:
			waited = 0
			w.aim()
			o.Notify(w.returns.take())
		case <-period.C:
			w.returns.age()
			w.aim()
			o.Notify(nil)
		}
	}
}

// watch is the state of one Watch: what the kernel was asked to tell.
type watch struct {
	Options
	notifier *fsnotify.Watcher // nil when there is none to be had
	// The path itself, and the nearest directory above it that exists, with
	// the identity they had: a directory made again under the same name is
	// another one, and the old watch is deaf.
	self, above target
	returns     returns
	warned      string
}

type target struct {
	path string
	info fs.FileInfo // nil: not watched
}

func (w *watch) open() {
	notifier, err := fsnotify.NewWatcher()
	if err != nil {
		w.warn(fmt.Errorf("watch manifests in %s: inotify does not work, reading it every %v instead: %w",
			w.Path, w.Period, err))
		return
	}
	w.notifier = notifier
}

func (w *watch) close() {
	if w.notifier != nil {
		// Only frees descriptors of our own.
		_ = w.notifier.Close()
	}
}

func (w *watch) events() <-chan fsnotify.Event {
	if w.notifier == nil {
		return nil
	}
	return w.notifier.Events
}

func (w *watch) errors() <-chan error {
	if w.notifier == nil {
		return nil
	}
	return w.notifier.Errors
}

func (w *watch) warn(err error) {
	if w.Warn != nil && err.Error() != w.warned {
		w.warned = err.Error()
		w.Warn(err)
	}
}

// maxAims is how often aim tries again while directories come and go under it. Each further change is an event.
const maxAims = 10

// aim makes the kernel watch what is at the path now.
func (w *watch) aim() {
	if w.notifier == nil {
		return
	}
	for range maxAims {
		above := nearest(w.Path)
		// Above first: what is created between the two is then not missed.
		w.above = w.point(w.above, above)
		w.self = w.point(w.self, w.Path)
		// A directory that was made before its parent was watched, but after somebody looked for it, is told by nobody.
		if nearest(w.Path) == above && w.above.current() {
			return
		}
	}
}

// nearest is the directory above a path that exists and is nearest to it.
func nearest(path string) string {
	above := filepath.Dir(path)
	for {
		parent := filepath.Dir(above)
		if info, err := os.Stat(above); parent == above || err == nil && info.IsDir() {
			return above
		}
		above = parent
	}
}

// current tells whether what is watched is what is at its path now.
func (t target) current() bool {
	info, err := os.Stat(t.path)
	return err == nil && t.info != nil && os.SameFile(t.info, info)
}

// point moves one watch to a path.
func (w *watch) point(was target, path string) target {
	info, err := os.Stat(path)
	if err != nil {
		info = nil
	}
	same := was.info != nil && info != nil && was.path == path && os.SameFile(was.info, info)
	if was.info != nil && !same {
		// It fails when the kernel dropped the watch with the directory.
		_ = w.notifier.Remove(was.path)
	}
	if info == nil {
		return target{}
	}
	// Also if it is the same: a directory that was removed and made again can have the inode number that it had,
	// and the kernel dropped its watch. Otherwise this changes nothing.
	if err := w.notifier.Add(path); err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			w.warn(fmt.Errorf("watch manifests in %s: inotify does not work for %s, reading it every %v instead: %w", w.Path,
				path, w.Period, err))
		}
		return target{}
	}
	return target{path: path, info: info}
}

// concerns tells whether an event may mean that a manifest changed: anything
// in the path, and above it only the path's own name or a directory on the way
// to it.
func (w *watch) concerns(event fsnotify.Event) bool {
	return event.Name == w.Path ||
		filepath.Dir(event.Name) == w.Path ||
		strings.HasPrefix(w.Path, event.Name+string(filepath.Separator))
}
