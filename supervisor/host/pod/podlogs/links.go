package podlogs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/actors/decide/containerlogs"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/disk/agentdir"
	"github.com/troupe-dev/troupe/supervisor/host/internal/hostcall"
)

const (
	linksMode = 0o755 // of the directory of links, as the kubelet has it
	// linkPatience is how long a container waits for the link of its log.
	linkPatience = 2 * time.Second
	// tidyBatch is how many entries of the directory are read at a time, tidyMost how
	// many dead links are removed in one go: the rest is for the next.
	tidyBatch = 256
	tidyMost  = 1000
)

// Links implements port.LogLinks: symlinks in one directory, which others may
// use as well. Whatever fails is tried again by the next call, so that it does not
// matter when the directory, or the file system that it is on, comes and goes.
type Links struct {
	dir, logs string
	now       func() time.Time
	// tidying: a call is running, maybe an abandoned one.
	tidying atomic.Bool
	// gone are the links that were removed since the last call to tidy ended, before
	// those between the last two: what a call is told to make may be older than that.
	gone, before map[containerlogs.Link]bool
	mu           sync.Mutex // of gone and before
}

var _ port.LogLinks = (*Links)(nil)

// NewLinks makes links in dir to logs below podLogs (podLogsDir). Both are
// absolute. Nothing is made yet.
func NewLinks(dir, podLogs string) *Links {
	return &Links{
		dir: filepath.Clean(dir), logs: filepath.Clean(podLogs), now: time.Now, gone: map[containerlogs.Link]bool{},
	}
}

// LinkLog implements port.LogLinks.
func (l *Links) LinkLog(ctx context.Context, log port.LinkedLog, done func(error)) {
	ctx, cancel := context.WithTimeout(ctx, linkPatience)
	hostcall.Do(ctx, "LinkLog", log.String(), func(context.Context) error {
		link, err := l.linkOf(log)
		if err != nil {
			return err
		}
		return l.make(link)
	}, func(err error) {
		cancel()
		done(err)
	})
}

// UnlinkLog implements port.LogLinks.
func (l *Links) UnlinkLog(ctx context.Context, log port.LinkedLog, done func(error)) {
	ctx, cancel := context.WithTimeout(ctx, linkPatience)
	hostcall.Do(ctx, "UnlinkLog", log.String(), func(context.Context) error {
		link, err := l.linkOf(log)
		if err != nil {
			return err
		}
		l.mu.Lock()
		l.gone[link] = true
		l.mu.Unlock()
		return l.remove(link.Name, link.Target)
	}, func(err error) {
		cancel()
		done(err)
	})
}

// TidyLogLinks implements port.LogLinks.
func (l *Links) TidyLogLinks(ctx context.Context, logs []port.LinkedLog, done func(error)) {
	hostcall.Do(ctx, "TidyLogLinks", "", func(ctx context.Context) error {
		if !l.tidying.CompareAndSwap(false, true) {
			return hostcall.Failf(port.StateConflict, "an earlier read of %s still hangs: check its file system", l.dir)
		}
		defer l.tidying.Store(false)
		err := l.tidy(ctx, logs)
		l.mu.Lock()
		l.gone, l.before = map[containerlogs.Link]bool{}, l.gone
		l.mu.Unlock()
		return err
	}, done)
}

// linkOf is the desired link of a log. Names that are no valid file names are refused, because
// the runtime may list containers of other clients.
func (l *Links) linkOf(log port.LinkedLog) (containerlogs.Link, error) {
	_, err := agentdir.LogDir(port.PodDirs{UID: log.UID, Namespace: log.Namespace, Name: log.Pod})
	err = errors.Join(err, agentdir.Element("container name", log.Container), agentdir.Element("container ID", log.ID))
	return containerlogs.Link{
		Name:   containerlogs.LinkName(log.Namespace, log.Pod, log.Container, log.ID),
		Target: filepath.Join(l.logs, log.String()), Attempt: log.Attempt,
	}, err
}

// make makes one link, or finds it made.
func (l *Links) make(link containerlogs.Link) error {
	path := filepath.Join(l.dir, link.Name)
	err := os.Symlink(link.Target, path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(l.dir, linksMode); err != nil {
			return err
		}
		err = os.Symlink(link.Target, path)
	}
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	entry, err := l.look(link.Name, link.Target)
	if err != nil {
		return err
	}
	todo := containerlogs.PlanLinks([]containerlogs.LinkEntry{entry}, []containerlogs.Link{link}, l.logs)
	switch {
	case len(todo.Taken) > 0:
		return taken(path, entry.Target)
	case len(todo.Replace) > 0:
		if err := l.remove(entry.Name, entry.Target); err != nil {
			return err
		}
		return os.Symlink(link.Target, path)
	}
	return nil
}

func taken(path, target string) error {
	if target == "" {
		return hostcall.Failf(port.StateConflict, "%s exists and is not a symlink: remove it", path)
	}
	return hostcall.Failf(port.StateConflict, "%s exists and links to %s", path, target)
}

// remove removes a link, if it leads there still.
func (l *Links) remove(name, target string) error {
	path := filepath.Join(l.dir, name)
	if now, err := readLink(path); err != nil || now != target {
		return unlessGone(err)
	}
	return unlessGone(os.Remove(path))
}

// readLink is where a link leads, empty if the file is none.
func readLink(path string) (string, error) {
	target, err := os.Readlink(path)
	if errors.Is(err, unix.EINVAL) {
		return "", nil
	}
	return target, err
}

// look looks at one entry of the directory; and at what it leads to, unless that is
// where it should. What is not the log of a container may lie where a look hangs.
func (l *Links) look(name, should string) (entry containerlogs.LinkEntry, err error) {
	path := filepath.Join(l.dir, name)
	entry.Name = name
	entry.Target, err = readLink(path)
	if err != nil || entry.Target == should || !containerlogs.LinkLeads(name, entry.Target) {
		return entry, err
	}
	info, err := os.Lstat(path)
	if err != nil {
		return entry, err
	}
	entry.Left, entry.Age = left(entry.Target), l.now().Sub(info.ModTime())
	return entry, nil
}

// left is what there is of a log. What can't be looked at counts as being there.
func left(target string) containerlogs.Left {
	gone := func(path string) bool {
		_, err := os.Stat(path)
		return errors.Is(err, fs.ErrNotExist)
	}
	container := filepath.Dir(target)
	if !gone(target) {
		return containerlogs.LeftLog
	}
	if gone(filepath.Dir(container)) {
		return containerlogs.LeftNothing
	}
	entries, err := os.ReadDir(container)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return containerlogs.LeftLog
	}
	for _, e := range entries {
		if _, beside, ok := containerlogs.ParseFile(e.Name()); ok && beside != "" &&
			strings.HasPrefix(e.Name(), filepath.Base(target)+".") {
			return containerlogs.LeftRotated
		}
	}
	return containerlogs.LeftPod
}

// tidy goes through the directory once. It does what it can, and tells of the first
// thing that it could not do.
func (l *Links) tidy(ctx context.Context, logs []port.LinkedLog) error {
	if err := os.MkdirAll(l.dir, linksMode); err != nil {
		return err
	}
	if err := unix.Access(l.dir, unix.W_OK|unix.X_OK); err != nil {
		return fmt.Errorf("write to %s: %w", l.dir, err)
	}
	var want []containerlogs.Link
	wanted := map[string]string{}
	for _, log := range logs {
		if link, err := l.linkOf(log); err == nil {
			want, wanted[link.Name] = append(want, link), link.Target
		}
	}
	entries, err := l.entries(ctx, wanted)
	if err != nil {
		return err
	}
	todo := containerlogs.PlanLinks(entries, want, l.logs)
	for _, e := range todo.Remove {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		err = first(err, l.remove(e.Name, e.Target))
	}
	for _, link := range append(todo.Make, todo.Replace...) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if l.wasRemoved(link) || left(link.Target) != containerlogs.LeftLog {
			continue
		}
		err = first(err, l.make(link))
		if l.wasRemoved(link) { // meanwhile
			err = first(err, l.remove(link.Name, link.Target))
		}
	}
	for _, link := range todo.Taken {
		err = first(err,
			hostcall.Failf(port.StateConflict, "%s exists and is not a symlink", filepath.Join(l.dir, link.Name)))
	}
	return err
}

// wasRemoved: its container was, since its owner saw that.
func (l *Links) wasRemoved(link containerlogs.Link) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.gone[link] || l.before[link]
}

func first(err, next error) error {
	if err != nil {
		return err
	}
	return next
}

// entries are those that are wanted, by name with their targets, and those that are dead. When there are very
// many of the latter, it stops: of a link that it has not seen, make finds it there.
func (l *Links) entries(ctx context.Context, wanted map[string]string) ([]containerlogs.LinkEntry, error) {
	dir, err := os.Open(l.dir)
	if err != nil {
		return nil, err
	}
	defer dir.Close() //nolint:errcheck // it was only read
	var out []containerlogs.LinkEntry
	for dead := 0; dead < tidyMost; {
		batch, err := dir.ReadDir(tidyBatch)
		for _, d := range batch {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			target, is := wanted[d.Name()]
			if !is && (d.Type() != fs.ModeSymlink || !strings.HasSuffix(d.Name(), containerlogs.Suffix)) {
				continue
			}
			entry, err := l.look(d.Name(), target)
			if err != nil {
				if unlessGone(err) != nil {
					return nil, err
				}
				continue
			}
			switch {
			case is:
				out = append(out, entry)
			case containerlogs.LinkDead(entry, l.logs):
				out = append(out, entry)
				dead++
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}
