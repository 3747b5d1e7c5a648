// Package podlogs rotates the logs of containers, and keeps symlinks to them.
package podlogs

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/containerlogs"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/disk/agentdir"
	"github.com/troupe-dev/troupe/supervisor/host/internal/hostcall"
)

// Logs implements port.ContainerLogs.
type Logs struct {
	at *agentdir.Place
	// compressing are the logs (port.LogRef) with a file in compression.
	compressing sync.Map
}

var _ port.ContainerLogs = (*Logs)(nil)

// New rotates the logs below a directory.
func New(at *agentdir.Place) *Logs { return &Logs{at: at} }

// LogSizes implements port.ContainerLogs.
func (l *Logs) LogSizes(ctx context.Context, logs []port.LogRef, done func([]int64, error)) {
	hostcall.Get(ctx, "LogSizes", "", func(ctx context.Context) ([]int64, error) {
		dir, err := l.at.Dir()
		if err != nil {
			return nil, err
		}
		sizes := make([]int64, len(logs))
		for i, ref := range logs {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			sizes[i] = -1
			info, err := dir.Root.Lstat(ref.String())
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
			if err == nil {
				sizes[i] = info.Size()
			}
		}
		return sizes, nil
	}, done)
}

// RotatedLogs implements port.ContainerLogs.
func (l *Logs) RotatedLogs(ctx context.Context, done func([]port.LogRef, error)) {
	hostcall.Get(ctx, "RotatedLogs", "", func(ctx context.Context) (out []port.LogRef, err error) {
		dir, err := l.at.Dir()
		if err != nil {
			return nil, err
		}
		pods, err := fs.ReadDir(dir.Root.FS(), ".")
		for _, p := range pods {
			namespace, pod, uid, ok := containerlogs.ParsePodDir(p.Name())
			if !ok || !p.IsDir() { // a link may lead out of here
				continue
			}
			ref := port.LogRef{Namespace: namespace, Pod: pod, UID: types.UID(uid)}
			containers, err := fs.ReadDir(dir.Root.FS(), p.Name())
			if err := errors.Join(ctx.Err(), unlessGone(err)); err != nil {
				return nil, err
			}
			for _, c := range containers {
				ref.Container = c.Name()
				if !c.IsDir() {
					continue
				}
				rotated, err := rotatedIn(dir, filepath.Join(p.Name(), c.Name()))
				if err != nil {
					return nil, err
				}
				for _, ref.Attempt = range rotated {
					out = append(out, ref)
				}
			}
		}
		return out, err
	}, done)
}

// rotatedIn are the incarnations that have more than a current file in a
// container's directory, in order.
func rotatedIn(dir *agentdir.Dir, container string) (out []uint32, err error) {
	entries, err := fs.ReadDir(dir.Root.FS(), container)
	if err != nil {
		return nil, unlessGone(err)
	}
	for _, e := range entries {
		if attempt, beside, ok := containerlogs.ParseFile(e.Name()); ok && beside != "" && !slices.Contains(out, attempt) {
			out = append(out, attempt)
		}
	}
	slices.Sort(out)
	return out, nil
}

func unlessGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// LookAtLog implements port.ContainerLogs. Only regular files count.
func (l *Logs) LookAtLog(ctx context.Context, log port.LogRef, done func(containerlogs.Log, error)) {
	hostcall.Get(ctx, "LookAtLog", log.String(), func(context.Context) (out containerlogs.Log, err error) {
		dir, err := l.at.Dir()
		if err != nil {
			return out, err
		}
		entries, err := fs.ReadDir(dir.Root.FS(), filepath.Dir(log.String()))
		if err != nil {
			return out, err
		}
		for _, e := range entries {
			attempt, beside, ok := containerlogs.ParseFile(e.Name())
			if !ok || attempt != log.Attempt || !e.Type().IsRegular() {
				continue
			}
			if beside != "" {
				out.Beside = append(out.Beside, beside)
				continue
			}
			info, err := e.Info()
			if err := unlessGone(err); err != nil {
				return out, err
			}
			if err == nil {
				out.Current, out.Size = true, info.Size()
			}
		}
		return out, nil
	}, done)
}

// StepLog implements port.ContainerLogs.
func (l *Logs) StepLog(ctx context.Context, log port.LogRef, step containerlogs.Step, done func(error)) {
	hostcall.Do(ctx, "StepLog", log.String(), func(ctx context.Context) error {
		all, err := l.at.Dir()
		if err != nil {
			return err
		}
		dir, err := all.Root.OpenRoot(filepath.Dir(log.String()))
		if err != nil {
			return unlessGone(err)
		}
		defer dir.Close() //nolint:errcheck // nothing is written through it
		if _, is := step.(containerlogs.Compress); is {
			// An abandoned compression may still be running.
			if _, busy := l.compressing.LoadOrStore(log, nil); busy {
				return hostcall.Failf(port.StateConflict, "an earlier compression of this log is still running: check the disk")
			}
			defer l.compressing.Delete(log)
		}
		return unlessGone(stepLog(ctx, dir, filepath.Base(log.String()), step))
	}, done)
}

func stepLog(ctx context.Context, dir *os.Root, name string, step containerlogs.Step) error {
	switch s := step.(type) {
	case containerlogs.Remove:
		for _, suffix := range s.Suffixes {
			if err := unlessGone(dir.Remove(name + "." + suffix)); err != nil {
				return err
			}
		}
		return nil
	case containerlogs.Rotate:
		return renameNew(dir, name, name+"."+s.To)
	case containerlogs.Restore:
		err := renameNew(dir, name+"."+s.From, name)
		if errors.Is(err, fs.ErrExist) { // the runtime has made one after all
			return nil
		}
		return err
	case containerlogs.Compress:
		return compressLog(ctx, dir, name+"."+s.Suffix, name+"."+containerlogs.CompressedName(s.Suffix))
	case containerlogs.Reopen:
		panic("podlogs: the runtime opens logs anew")
	}
	return nil
}

// renameNew renames a file to a name that is not taken: the runtime may make the
// current file at any time, and what it wrote must not be replaced.
func renameNew(dir *os.Root, from, to string) error {
	d, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer d.Close() //nolint:errcheck // it was only read
	fd := int(d.Fd())
	err = unix.Renameat2(fd, from, fd, to, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) { // NFS has no such rename
		if _, err := dir.Lstat(to); err == nil {
			return fmt.Errorf("rename %s to %s: %w", from, to, fs.ErrExist)
		}
		return dir.Rename(from, to)
	}
	if err != nil {
		return fmt.Errorf("rename %s to %s: %w", from, to, err)
	}
	return nil
}

// compressLog replaces from by a compressed file of the time it was last written,
// which says for readers that want only what is newer than something whether
// there is anything in it.
func compressLog(ctx context.Context, dir *os.Root, from, to string) (err error) {
	named, err := dir.Lstat(from)
	if err != nil {
		return err
	}
	in, err := dir.OpenFile(from, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // it was only read
	info, err := in.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || !os.SameFile(named, info) { // os.Root follows links, within the directory
		return fmt.Errorf("compress %s: it is not a file", from)
	}
	unfinished := from + containerlogs.Unfinished
	out, err := dir.OpenFile(unfinished, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode().Perm())
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, unlessGone(dir.Remove(unfinished)))
		}
	}()
	err = compress(ctx, out, in)
	if err == nil {
		// Before the other one goes: a machine that loses power has one of the two.
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return fmt.Errorf("compress %s: %w", from, err)
	}
	if err := dir.Chtimes(unfinished, info.ModTime(), info.ModTime()); err != nil {
		return err
	}
	if err := renameNew(dir, unfinished, to); err != nil {
		return err
	}
	return unlessGone(dir.Remove(from))
}

// compress is quick rather than thorough: a log gets ten times smaller either way,
// and the machine is the pods'.
func compress(ctx context.Context, to io.Writer, from io.Reader) error {
	z, err := gzip.NewWriterLevel(to, gzip.BestSpeed)
	if err != nil {
		return err
	}
	if _, err := io.Copy(z, contextReader{ctx, from}); err != nil {
		return err
	}
	return z.Close()
}

// contextReader reads until ctx ends.
type contextReader struct {
	ctx  context.Context //nolint:containedctx // for one copy
	from io.Reader
}

// Read implements io.Reader.
func (r contextReader) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.from.Read(b)
}

// PruneLogs implements port.ContainerLogs.
func (l *Logs) PruneLogs(ctx context.Context, oldest []port.LogRef, done func(error)) {
	hostcall.Do(ctx, "PruneLogs", "", func(ctx context.Context) error {
		dir, err := l.at.Dir()
		if err != nil {
			return err
		}
		var failed error
		for _, ref := range oldest {
			if err := ctx.Err(); err != nil {
				return err
			}
			failed = errors.Join(failed, unlessGone(pruneLogs(dir, ref)))
		}
		return failed
	}, done)
}

func pruneLogs(dir *agentdir.Dir, ref port.LogRef) error {
	container := filepath.Dir(ref.String())
	entries, err := fs.ReadDir(dir.Root.FS(), container)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if attempt, _, ok := containerlogs.ParseFile(e.Name()); !ok || attempt >= ref.Attempt || e.IsDir() {
			continue
		}
		if err := unlessGone(dir.Root.Remove(filepath.Join(container, e.Name()))); err != nil {
			return err
		}
	}
	return nil
}
