package crilog

import (
	"bytes"
	"time"
)

// Stream is what a container wrote to.
type Stream uint8

const (
	Stdout Stream = iota + 1
	Stderr
)

// record is the head of an entry of a log.
type record struct {
	at     time.Time
	stream Stream
	// partial: the line continues in the next entry of the stream.
	partial bool
}

// headLimit is more than a head has: a time of up to 35 bytes, stdout or stderr,
// a tag, and what later versions add to it.
const headLimit = 128

// decoder takes a log apart, in pieces as they come.
//
//	         head complete            newline
//	inHead ───────────────► inText ───────────► inHead
//	  │                                            ▲
//	  └─newline, too long, or no head─► broken ────┘ newline
type decoder struct {
	state state
	head  []byte
	now   record
	// begin is told of the head of an entry, and reports whether its text is wanted;
	// text of its text, in pieces; end that the line ends with the entry.
	begin func(record) bool
	text  func([]byte) error
	end   func() error
	// wanted is what begin said.
	wanted bool
}

type state uint8

const (
	inHead state = iota
	inText
	broken
)

// feed takes the next bytes. It fails as soon as text or end do.
func (d *decoder) feed(b []byte) error {
	for len(b) > 0 {
		line, rest, whole := bytes.Cut(b, []byte{'\n'})
		b = rest
		if d.state == inHead {
			line = d.readHead(line, whole)
		}
		if d.state == inText && d.wanted && len(line) > 0 {
			if err := d.text(line); err != nil {
				return err
			}
		}
		if !whole {
			return nil
		}
		ends := d.state == inText && d.wanted && !d.now.partial
		d.reset()
		if ends {
			if err := d.end(); err != nil {
				return err
			}
		}
	}
	return nil
}

// reset makes what comes next the beginning of an entry.
func (d *decoder) reset() { d.state, d.head = inHead, d.head[:0] }

// readHead takes the next bytes of a head, and gives what follows it. whole says
// that the entry ends with these.
func (d *decoder) readHead(b []byte, whole bool) []byte {
	had := len(d.head)
	d.head = append(d.head, b[:min(len(b), headLimit-had)]...)
	now, n, complete := parseHead(d.head)
	switch {
	case complete && n > 0:
		d.now, d.state = now, inText
		d.wanted = d.begin(now)
		return b[n-had:]
	case complete, whole, len(d.head) == headLimit:
		d.state = broken
	}
	return nil
}

// parseHead reads the head that b begins with, and how long it is. It is not
// complete if more bytes can make it one; n is 0 if it is none.
func parseHead(b []byte) (r record, n int, complete bool) {
	at, rest, ok := bytes.Cut(b, []byte{' '})
	if !ok {
		return r, 0, false
	}
	var err error
	if r.at, err = time.Parse(time.RFC3339Nano, string(at)); err != nil {
		return r, 0, true
	}
	stream, rest, ok := bytes.Cut(rest, []byte{' '})
	switch {
	case !ok:
		return r, 0, false
	case string(stream) == "stdout":
		r.stream = Stdout
	case string(stream) == "stderr":
		r.stream = Stderr
	default:
		return r, 0, true
	}
	tags, rest, ok := bytes.Cut(rest, []byte{' '})
	if !ok {
		return r, 0, false
	}
	tag, _, _ := bytes.Cut(tags, []byte{':'}) // others may follow
	r.partial = string(tag) == "P"
	return r, len(b) - len(rest), true
}
