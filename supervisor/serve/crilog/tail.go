package crilog

import (
	"bytes"
	"context"
	"errors"
	"io"
)

// tail leaves of files what holds the last n lines, each file at where it is to
// be read from. A line that was cut into parts counts once. If ctx ends, it looks no further: a log may be long, and
// nobody waits for it any more.
func tail(ctx context.Context, files []*file, n int64) ([]*file, error) {
	for i := len(files) - 1; i >= 0; i-- {
		last := i == len(files)-1
		from, found, err := lastLines(ctx, files[i], n, last)
		if err != nil {
			return files, err
		}
		if err := files[i].rewind(from); err != nil {
			return files, err
		}
		if found >= 0 {
			n -= found
			continue
		}
		closeAll(files[:i])
		return files[i:], nil
	}
	return files, nil
}

// lastLines is the offset of the last n lines of a file. If the file has at most n lines, it is
// 0, and found is their number; else found is less than 0. In the last file of a log an
// incomplete line counts as well.
func lastLines(ctx context.Context, f *file, n int64, last bool) (from, found int64, err error) {
	if f.gz {
		return lastLinesCompressed(ctx, f, n)
	}
	size, err := f.f.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, 0, err
	}
	next := size // where the entry after the one looked at begins
	unended := last
	err = backwards(ctx, f.f, size, func(start int64) (bool, error) {
		is, ends, err := endsLine(f.f, start)
		if err != nil {
			return false, err
		}
		if ends || is && unended {
			if found == n {
				found = -1
				return false, nil
			}
			found++
		}
		unended, next = unended && !is, start
		return true, nil
	})
	if found < 0 {
		return next, -1, err
	}
	return 0, found, err
}

// endsLine is whether there is an entry at start, and a line ends with it. One
// that is broken shows nothing, and is none.
func endsLine(f io.ReaderAt, start int64) (is, ends bool, err error) {
	var b [headLimit]byte
	n, err := f.ReadAt(b[:], start)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, false, err
	}
	line, _, _ := bytes.Cut(b[:n], []byte{'\n'})
	r, head, _ := parseHead(line)
	return head > 0, head > 0 && !r.partial, nil
}

// backwards gives the beginnings of all entries, the last first, until visit says
// that it was enough, or ctx ends.
func backwards(ctx context.Context, f io.ReaderAt, size int64, visit func(start int64) (bool, error)) error {
	const block = 32 << 10
	b := make([]byte, block)
	for to := size; to > 0; {
		if err := ctx.Err(); err != nil {
			return err
		}
		from := max(0, to-block)
		if _, err := f.ReadAt(b[:to-from], from); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		for at := to; at > from; {
			i := bytes.LastIndexByte(b[:at-from], '\n')
			if i < 0 {
				break
			}
			at = from + int64(i)
			if at+1 == size {
				continue // the end of the last one
			}
			if more, err := visit(at + 1); !more || err != nil {
				return err
			}
		}
		to = from
	}
	if size > 0 {
		_, err := visit(0)
		return err
	}
	return nil
}

// lastLinesCompressed reads it from the beginning: to count, and to find.
func lastLinesCompressed(ctx context.Context, f *file, n int64) (from, found int64, err error) {
	lines, _, err := count(ctx, f, -1)
	if err != nil || lines <= n {
		return 0, lines, err
	}
	_, from, err = count(ctx, f, lines-n)
	return from, -1, err
}

// count reads up to the end of so many lines, or all if that is less than 0.
func count(ctx context.Context, f *file, most int64) (lines, offset int64, err error) {
	if most == 0 {
		return 0, 0, nil
	}
	if err := f.rewind(0); err != nil {
		return 0, 0, err
	}
	b := make([]byte, bufferSize)
	d := decoder{begin: func(record) bool { return true }, text: func([]byte) error { return nil }}
	d.end = func() error {
		if lines++; lines == most {
			return errEnough
		}
		return nil
	}
	for {
		if err := ctx.Err(); err != nil {
			return lines, offset, err
		}
		n, err := f.Read(b)
		for rest := b[:n]; len(rest) > 0; { // entry by entry, to know where it is
			i := bytes.IndexByte(rest, '\n') + 1
			if i == 0 {
				i = len(rest)
			}
			offset += int64(i)
			if d.feed(rest[:i]) != nil {
				return lines, offset, nil
			}
			rest = rest[i:]
		}
		if err != nil { // its end; or it is broken, and this is what can be read
			return lines, offset, nil
		}
	}
}
