package crilog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

const (
	// bufferSize is that of reads and writes.
	bufferSize = 16 << 10
	// lookPeriod is the time between checks of a log and its container without a notification;
	// without a watch it is unwatchedPeriod.
	lookPeriod      = time.Second
	unwatchedPeriod = 200 * time.Millisecond
	// together is how long entries are let gather while many come.
	together = 10 * time.Millisecond
	// settle is how long the runtime may still write to a file that was rotated,
	// after it has opened the new one.
	settle = 200 * time.Millisecond
)

// Options say what is wanted of a log.
type Options struct {
	// Path is the file that the runtime writes, Container whose log it is: the runtime's ID.
	Path, Container string
	// Tail is how many lines, the last ones; nil for all that there are.
	Tail *int64
	// Limit is how many bytes; nil for all.
	Limit *int64
	// Since is the time of the first entry.
	Since time.Time
	// Stamps puts its time before each line.
	Stamps bool
	// Stdout and Stderr are wanted.
	Stdout, Stderr bool
	// Follow continues until the container has ended. Running reports whether it has
	// not: it is asked about once a second, and must end with the context. Watcher
	// says when to look.
	Follow  bool
	Running func(context.Context) bool
	Watcher *Watcher
}

// Beginner is a writer that wants to know that a log is there and its reading
// begins, before there is anything of it.
type Beginner interface{ Begin() error }

// Read writes what is wanted of a log to out, which may be a Beginner. It ends with ctx.Err() if ctx does,
// with an error of out, or when all is written.
func Read(ctx context.Context, o Options, out io.Writer) error {
	at, err := find(o.Path, o.Container)
	if err != nil {
		return fmt.Errorf("read the log: %w", err)
	}
	defer at.close()
	files, err := at.open(ctx, o.Since)
	if err != nil {
		return fmt.Errorf("read the log: %w", err)
	}
	r := &reader{Options: o, place: at, files: files, buffer: make([]byte, bufferSize)}
	defer func() { closeAll(r.files) }()
	r.out = &writer{
		to: out, since: o.Since, stamps: o.Stamps, stdout: o.Stdout, stderr: o.Stderr, left: -1,
		buffer: make([]byte, 0, bufferSize),
	}
	if o.Limit != nil {
		r.out.left = *o.Limit
	}
	r.decoder = decoder{begin: r.out.begin, text: r.out.text, end: r.out.end}
	if o.Tail != nil {
		if r.files, err = tail(ctx, r.files, *o.Tail); err != nil {
			return fmt.Errorf("read the log: %w", err)
		}
	}
	if b, is := out.(Beginner); is {
		err = b.Begin()
	}
	if err == nil {
		err = r.all(ctx)
	}
	if err == nil || errors.Is(err, errEnough) {
		err = r.out.flush()
	}
	return err
}

type reader struct {
	Options
	place *place
	// files are to be read, the first one now.
	files   []*file
	decoder decoder
	out     *writer
	buffer  []byte
}

// all reads file after file.
func (r *reader) all(ctx context.Context) error {
	for {
		for len(r.files) > 1 {
			if err := r.finish(ctx); err != nil {
				return err
			}
			r.next()
		}
		if !r.Follow {
			_, err := r.drain(ctx)
			return err
		}
		if more, err := r.follow(ctx); !more || err != nil {
			return err
		}
	}
}

// next continues with the next file. No entry continues from one to the other.
func (r *reader) next() {
	r.files[0].close()
	r.files = r.files[1:]
	r.decoder.reset()
}

// finish reads a file that was rotated to its end. If it was written just now, it
// may still be.
func (r *reader) finish(ctx context.Context) error {
	for waited := false; ; waited = true {
		some, err := r.drain(ctx)
		if err != nil || !r.Follow || r.files[0].gz || waited && !some {
			return err
		}
		info, err := r.files[0].f.Stat()
		if err != nil {
			return err
		}
		if time.Since(info.ModTime()) >= settle {
			_, err := r.drain(ctx) // what came before that was asked
			return err
		}
		if err := rest(ctx, settle); err != nil {
			return err
		}
	}
}

// rest waits, unless ctx ends before.
func rest(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// drain reads what there is, and reports whether that was anything.
func (r *reader) drain(ctx context.Context) (some bool, err error) {
	for {
		if err := ctx.Err(); err != nil {
			return some, err
		}
		n, err := r.files[0].Read(r.buffer)
		if n > 0 {
			some = true
			if err := r.decoder.feed(r.buffer[:n]); err != nil {
				return some, err
			}
		}
		if errors.Is(err, io.EOF) || err != nil && r.files[0].gz {
			return some, r.out.flush() // of what is compressed, as much as can be read
		}
		if err != nil {
			return some, fmt.Errorf("read the log: %w", err)
		}
	}
}

// follow reads the newest file until the container has ended, or another has
// taken its place: then there is more.
//
//	 ┌──────────► drain ──ended before──► done
//	 │              │
//	wait ◄── same ──┴── another file is at the path, and nothing came for a while ──► more
func (r *reader) follow(ctx context.Context) (more bool, err error) {
	woken, leave, watched := r.Watcher.subscribe(filepath.Clean(r.place.dir.Name()))
	defer leave()
	period := lookPeriod
	if !watched {
		period = unwatchedPeriod
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	var asked, replaced time.Time // when last, and since when
	running := true
	for {
		if now := time.Now(); now.Sub(asked) >= lookPeriod {
			asked, running = now, r.Running(ctx)
		}
		// Whether it runs was asked before: what it wrote until then is there.
		some, err := r.drain(ctx)
		if err != nil {
			return false, err
		}
		is, err := r.state()
		if err != nil {
			return false, err
		}
		wait := period
		switch {
		case is == truncated:
			if err := r.files[0].rewind(0); err != nil {
				return false, err
			}
			r.decoder.reset()
			continue
		case is == moved && (replaced.IsZero() || some):
			replaced, wait = time.Now(), settle
		case is == moved && time.Since(replaced) >= settle:
			newer, err := r.place.after(ctx, r.files[0])
			if err == nil && len(newer) > 0 {
				r.files = append(r.files, newer...)
				return true, nil
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return false, err // a link took its place, for example
			}
			wait = settle // it was moved again just now
		case is == moved:
			wait = settle
		case !running:
			return false, nil
		case some:
			wait = together
		}
		if err := r.pause(ctx, timer, wait, is == moved || some, woken); err != nil {
			return false, err
		}
	}
}

// pause waits, until something is told unless deaf.
func (r *reader) pause(
	ctx context.Context, timer *time.Timer, wait time.Duration, deaf bool, woken <-chan struct{},
) error {
	timer.Reset(wait)
	if deaf {
		woken = nil
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-woken:
	case <-timer.C:
	}
	return nil
}

type placed uint8

const (
	same placed = iota
	moved
	truncated
)

// state is what has become of the newest file.
func (r *reader) state() (placed, error) {
	f := r.files[0].f
	info, err := f.Stat()
	if err != nil {
		return same, err
	}
	at, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return same, err
	}
	if info.Size() < at {
		return truncated, nil
	}
	now, err := r.place.stat()
	if err != nil || os.SameFile(now, info) { // not there: the new one is yet to come
		return same, nil
	}
	return moved, nil
}
