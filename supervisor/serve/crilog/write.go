package crilog

import (
	"errors"
	"io"
	"time"
)

// timeFormat is how times are shown: always of the same width.
const timeFormat = "2006-01-02T15:04:05.000000000Z07:00"

// errEnough is that as much was written as was wanted.
var errEnough = errors.New("enough")

// writer writes what is wanted of a log.
type writer struct {
	to     io.Writer
	since  time.Time
	stamps bool
	// stdout and stderr are wanted.
	stdout, stderr bool
	// left is how many bytes may still be written; less than 0 for any number.
	left int64
	// inLine: a line was begun, and has no end yet.
	inLine bool
	at     time.Time
	buffer []byte
}

func (w *writer) begin(r record) bool {
	w.at = r.at
	return !r.at.Before(w.since) && (r.stream == Stdout && w.stdout || r.stream == Stderr && w.stderr)
}

func (w *writer) text(b []byte) error {
	if err := w.stamp(); err != nil {
		return err
	}
	return w.put(b)
}

func (w *writer) end() error {
	if err := w.stamp(); err != nil {
		return err
	}
	w.inLine = false
	return w.put([]byte{'\n'})
}

// stamp begins a line.
func (w *writer) stamp() error {
	if w.inLine {
		return nil
	}
	w.inLine = true
	if !w.stamps {
		return nil
	}
	return w.put(append(w.at.AppendFormat(nil, timeFormat), ' '))
}

func (w *writer) put(b []byte) error {
	enough := w.left >= 0 && int64(len(b)) >= w.left
	if enough {
		b = b[:w.left]
	}
	if w.left >= 0 {
		w.left -= int64(len(b))
	}
	for len(b) > 0 {
		n := min(len(b), cap(w.buffer)-len(w.buffer))
		w.buffer, b = append(w.buffer, b[:n]...), b[n:]
		if len(w.buffer) == cap(w.buffer) {
			if err := w.flush(); err != nil {
				return err
			}
		}
	}
	if enough {
		return errEnough
	}
	return nil
}

// flush writes what waits to be.
func (w *writer) flush() error {
	if len(w.buffer) == 0 {
		return nil
	}
	_, err := w.to.Write(w.buffer)
	w.buffer = w.buffer[:0]
	return err
}
