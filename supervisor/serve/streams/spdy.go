package streams

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"net"
	"net/http"
	"sync"
	"time"
)

// awake is how often a ping reaches the runtime all the same: runtimes close streams on which they read nothing for
// hours (stream_idle_timeout of containerd, 4 h).
const awake = 10 * time.Minute

// pingless answers pings of a client of SPDY in place of the runtime. A runtime closes its connection when
// the process has ended, while output may still be on the way to a slow client. A ping that reaches the
// closed connection makes the kernel discard this output.
type pingless struct{ http.ResponseWriter }

// Hijack implements http.Hijacker.
func (p pingless) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(p.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	return newSPDYConn(conn), buffered, nil
}

// A frame of SPDY/3.1: eight bytes, of which the last three are the length of the rest.
const (
	frameHead  = 8
	pingLength = frameHead + 4
	// pongsLimit is how many answers wait for a client that does not read. Others are dropped.
	pongsLimit = 16
)

// pingHead are the first bytes of a ping: a control frame of version 3, type 6.
var pingHead = []byte{0x80, 3, 0, 6}

// spdyConn is a client's connection, from the answer of HTTP that begins SPDY.
type spdyConn struct {
	net.Conn
	in *bufio.Reader
	// left is how much of a frame is still to be read.
	left int
	// pinged is when the runtime last got a ping of the client, or the beginning.
	pinged time.Time

	// writing is held while something is written. out guards nothing else.
	writing sync.Mutex
	out     frames

	mu sync.Mutex
	// pongs are written between two frames.
	pongs []byte
}

func newSPDYConn(conn net.Conn) *spdyConn {
	return &spdyConn{Conn: conn, in: bufio.NewReaderSize(conn, bufferSize), pinged: time.Now()}
}

// Read reads frames without pings, but for a few.
func (c *spdyConn) Read(b []byte) (int, error) {
	for c.left == 0 {
		head, err := c.in.Peek(frameHead)
		if err != nil {
			if len(head) == 0 {
				return 0, err
			}
			c.left = len(head) // it ends within a frame
			break
		}
		if !bytes.HasPrefix(head, pingHead) || frameLength(head) != pingLength {
			c.left = frameLength(head)
			break
		}
		ping, err := c.in.Peek(pingLength)
		if err != nil {
			c.left = len(ping)
			break
		}
		if ping[pingLength-1]%2 == 0 { // the answer to one of the runtime's
			c.left = pingLength
			break
		}
		if time.Since(c.pinged) >= awake { // the runtime answers it
			c.pinged, c.left = time.Now(), pingLength
			break
		}
		c.pong(ping)
		if _, err := c.in.Discard(pingLength); err != nil {
			return 0, err
		}
	}
	n, err := c.in.Read(b[:min(len(b), c.left)])
	c.left -= n
	return n, err
}

// pong answers a ping with the same frame, as soon as no other frame is being written.
func (c *spdyConn) pong(ping []byte) {
	c.mu.Lock()
	if len(c.pongs) < pongsLimit*pingLength {
		c.pongs = append(c.pongs, ping...)
	}
	c.mu.Unlock()
	c.flush()
}

func (c *spdyConn) take() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	pongs := c.pongs
	c.pongs = nil
	return pongs
}

// flush writes pongs if nobody writes and no frame is half written. Otherwise the writer calls it afterwards.
func (c *spdyConn) flush() {
	for {
		c.mu.Lock()
		none := len(c.pongs) == 0
		c.mu.Unlock()
		if none || !c.writing.TryLock() {
			return
		}
		between := c.out.between()
		if between {
			c.Conn.Write(c.take()) //nolint:errcheck // the next frame gets the same error
		}
		c.writing.Unlock()
		if !between {
			return
		}
	}
}

// Write writes what the runtime says, and pongs after the last frame that it ends.
func (c *spdyConn) Write(b []byte) (n int, err error) {
	c.writing.Lock()
	end := c.out.follow(b)
	if end > 0 {
		if pongs := c.take(); len(pongs) > 0 {
			if n, err = c.Conn.Write(b[:end]); err == nil {
				_, err = c.Conn.Write(pongs)
			}
		}
	}
	if err == nil {
		var more int
		more, err = c.Conn.Write(b[n:])
		n += more
	}
	c.writing.Unlock()
	c.flush()
	return n, err
}

// frames follows the bytes that are written: an answer of HTTP, then frames.
type frames struct {
	begun bool
	// ends is how much of the answer's end was seen.
	ends int
	// head is the beginning of a frame whose length is not known yet.
	head []byte
	// left is how much of a frame is still to come.
	left int
}

const answerEnd = "\r\n\r\n"

// between says whether no frame is half written.
func (f *frames) between() bool { return f.begun && f.left == 0 && len(f.head) == 0 }

// follow goes on over b, and gives the end of the last frame that ends in it: 0 for none.
func (f *frames) follow(b []byte) (end int) {
	for at := 0; at < len(b); {
		switch {
		case !f.begun:
			switch b[at] {
			case answerEnd[f.ends]:
				f.ends++
			case answerEnd[0]:
				f.ends = 1
			default:
				f.ends = 0
			}
			f.begun = f.ends == len(answerEnd)
			at++
		case f.left > 0:
			n := min(f.left, len(b)-at)
			f.left -= n
			at += n
		default:
			n := min(frameHead-len(f.head), len(b)-at)
			f.head = append(f.head, b[at:at+n]...)
			at += n
			if len(f.head) == frameHead {
				f.left = frameLength(f.head) - frameHead
				f.head = f.head[:0]
			}
		}
		if f.between() {
			end = at
		}
	}
	return end
}

// frameLength is that of a frame, with its head.
func frameLength(head []byte) int {
	return frameHead + int(binary.BigEndian.Uint32(head[4:frameHead])&0xffffff)
}
