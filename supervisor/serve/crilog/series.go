package crilog

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	// filesLimit is how many files of a log are read at most: far more than a node
	// keeps (containerLogMaxFiles).
	filesLimit = 64
	// openTries and openPause are how often, and after what time, it is tried again
	// to open a log that is being rotated meanwhile.
	openTries = 25
	openPause = 20 * time.Millisecond
)

// file is an open file of a log.
type file struct {
	f    *os.File
	info os.FileInfo // when it was opened
	gz   bool
	in   *gzip.Reader // once it was read from
}

func (p *place) openFile(name string) (*file, error) {
	f, err := p.at(name, os.O_RDONLY|syscall.O_NONBLOCK) // a pipe in its place would be waited for
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a file")
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &file{f: f, info: info, gz: strings.HasSuffix(name, ".gz")}, nil
}

// Read implements io.Reader.
func (f *file) Read(b []byte) (int, error) {
	if !f.gz {
		return f.f.Read(b)
	}
	if f.in == nil {
		var err error
		if f.in, err = gzip.NewReader(f.f); err != nil {
			return 0, err
		}
	}
	return f.in.Read(b)
}

// rewind begins at offset of its text again.
func (f *file) rewind(offset int64) error {
	if !f.gz {
		_, err := f.f.Seek(offset, io.SeekStart)
		return err
	}
	if _, err := f.f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	f.in = nil
	_, err := io.CopyN(io.Discard, f, offset)
	return err
}

// firstAt is the time of its first entry, zero if it has none. It reads from the
// beginning, and leaves the file there.
func (f *file) firstAt() (time.Time, error) {
	if err := f.rewind(0); err != nil {
		return time.Time{}, err
	}
	b := make([]byte, headLimit)
	n, err := io.ReadFull(f, b)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return time.Time{}, err
	}
	r, _, _ := parseHead(b[:n])
	return r.at, f.rewind(0)
}

// close is for files that were only read.
func (f *file) close() { f.f.Close() } //nolint:errcheck // nothing was written

func closeAll(files []*file) {
	for _, f := range files {
		f.close()
	}
}

// open opens a log, its files oldest first. The last one is the current file; if
// nothing is there for long, because a rotation did not come to its end, it is the
// newest that was rotated. Since when the log is wanted leaves out files that were
// last written before.
func (p *place) open(ctx context.Context, since time.Time) ([]*file, error) {
	for try := 1; ; try++ {
		files, whole, err := p.openOnce(since, try == openTries)
		if err == nil && whole || try == openTries {
			return files, err
		}
		closeAll(files)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if names, e := p.rotated(); err != nil && (e != nil || len(names) == 0) {
			return nil, err // there is no such log
		}
		if err := rest(ctx, openPause); err != nil {
			return nil, err
		}
	}
}

// openOnce is one try. It is whole if there was no rotation meanwhile, so that
// each file is among them once, and in order. The last try takes what there is.
func (p *place) openOnce(since time.Time, last bool) (files []*file, whole bool, err error) {
	// The current one first: what is rotated meanwhile is that one.
	now, err := p.openFile(p.name)
	if last && errors.Is(err, fs.ErrNotExist) {
		var names []string
		if names, _ = p.rotated(); len(names) > 0 {
			now, err = p.openFile(names[len(names)-1])
		}
	}
	if err != nil {
		return nil, false, err
	}
	files, err = p.openRotated(now, since)
	if err != nil {
		now.close()
		return nil, false, err
	}
	still, err := p.stat()
	return append(files, now), err == nil && os.SameFile(still, now.info), nil
}

// openRotated opens the rotated files of a log, oldest first, without now.
func (p *place) openRotated(now *file, since time.Time) (files []*file, err error) {
	names, err := p.rotated()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		f, err := p.openFile(name)
		if err != nil { // gone meanwhile: compressed, or removed
			closeAll(files)
			return nil, err
		}
		if os.SameFile(f.info, now.info) || f.info.ModTime().Before(since) {
			f.close()
			continue
		}
		files = append(files, f)
	}
	return files, nil
}

// rotated names the rotated files of a log, oldest first. While one is being
// compressed it is there twice: the compressed one counts when the other is gone.
func (p *place) rotated() ([]string, error) {
	entries, err := p.list()
	if err != nil {
		return nil, err
	}
	plain := map[string]bool{}
	var names []string
	for _, e := range entries { // in order of their names, which is that of their times
		suffix, ok := strings.CutPrefix(e.Name(), p.name+".")
		if !ok {
			continue
		}
		stamp, compressed := strings.CutSuffix(suffix, ".gz")
		if !isStamp(stamp) || compressed && plain[stamp] {
			continue
		}
		plain[stamp] = true
		names = append(names, e.Name())
	}
	return names[max(0, len(names)-filesLimit):], nil
}

// isStamp is whether a name ends as those of rotated files do.
func isStamp(s string) bool {
	_, err := time.Parse("20060102-150405", s)
	return err == nil
}

// after opens the files that followed a rotated one, oldest first. The last one is the current file.
func (p *place) after(ctx context.Context, old *file) ([]*file, error) {
	all, err := p.open(ctx, time.Time{})
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(all, func(f *file) bool { return os.SameFile(f.info, old.info) }); i >= 0 {
		closeAll(all[:i+1])
		return all[i+1:], nil
	}
	// It was compressed or removed meanwhile: those that begin later came after it.
	began, err := head(old)
	if err != nil {
		closeAll(all)
		return nil, err
	}
	for len(all) > 1 {
		if began.IsZero() { // the start is unknown; it was empty
			closeAll(all[:len(all)-1])
			return all[len(all)-1:], nil
		}
		at, err := all[0].firstAt()
		if err == nil && at.After(began) {
			break
		}
		all[0].close()
		all = all[1:]
	}
	return all, nil
}

// head is the time of the first entry of a file that is being read.
func head(f *file) (time.Time, error) {
	b := make([]byte, headLimit)
	n, err := f.f.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return time.Time{}, err
	}
	r, _, _ := parseHead(b[:n])
	return r.at, nil
}
