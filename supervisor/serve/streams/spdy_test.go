package streams

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// frame is a control frame of a type.
func frame(kind byte, rest ...byte) []byte {
	return append([]byte{0x80, 3, 0, kind, 0, 0, 0, byte(len(rest))}, rest...)
}

// data is a data frame.
func data(text string) []byte { return append([]byte{0, 0, 0, 1, 0, 0, 0, byte(len(text))}, text...) }

// pieces are those of a given size.
type pieces struct {
	net.Conn
	size int
}

func (p pieces) Read(b []byte) (int, error) { return p.Conn.Read(b[:min(len(b), p.size)]) }

// TestSPDYConn: whatever the pieces in which frames come, the runtime gets all but the client's pings, and the
// client gets what the runtime says, with the answers to its pings between two frames.
func TestSPDYConn(t *testing.T) {
	const answer = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: SPDY/3.1\r\n\r\n"
	mine, theirs := frame(6, 0, 0, 1, 7), frame(6, 0, 0, 0, 8)
	open, longPing, cut := frame(1, make([]byte, 10)...), frame(6, 0, 0, 0, 1, 0), []byte{0, 0, 0, 1, 0}
	said := [][]byte{frame(2, 0, 0, 0, 1), data("out"), data(""), theirs, data("more")}
	for size := 1; size <= 40; size++ {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			client, node := net.Pipe()
			defer client.Close()
			c := newSPDYConn(pieces{node, size})
			go func() {
				all := slices.Concat(mine, open, mine, data("in"), mine, theirs, longPing, mine, cut)
				client.Write(all) //nolint:errcheck // what is read shows it
				client.Close()
			}()
			// The runtime says nothing yet: the answers wait.
			got, err := io.ReadAll(pieces{c, size})
			if want := slices.Concat(open, data("in"), theirs, longPing, cut); err != nil || !bytes.Equal(got, want) {
				t.Errorf("the runtime gets %q %v, want %q", got, err, want)
			}

			client, c.Conn = net.Pipe()
			go func() {
				all := slices.Concat([]byte(answer), slices.Concat(said...))
				for piece := range slices.Chunk(all, size) {
					if n, err := c.Write(piece); n != len(piece) || err != nil {
						t.Errorf("wrote %d of %d: %v", n, len(piece), err)
					}
				}
				c.pong(mine)
				c.Close()
			}()
			got, err = io.ReadAll(client)
			if err != nil {
				t.Fatal(err)
			}
			// As many pings as came, at a place between two frames.
			whole := [][]byte{[]byte(answer)}
			for rest, ok := bytes.CutPrefix(got, whole[0]); ok && len(rest) >= frameHead && frameLength(rest) <= len(rest); {
				whole, rest = append(whole, rest[:frameLength(rest)]), rest[frameLength(rest):]
			}
			if !bytes.Equal(slices.Concat(whole...), got) {
				t.Fatalf("the client gets %q", got)
			}
			var pongs int
			rest := slices.DeleteFunc(whole[1:], func(f []byte) bool {
				if bytes.Equal(f, mine) {
					pongs++
				}
				return bytes.Equal(f, mine)
			})
			if pongs != 5 || !slices.EqualFunc(rest, said, bytes.Equal) {
				t.Errorf("the client gets %d answers of 5, and %q, want %q", pongs, rest, said)
			}
		})
	}
}

// TestAwake: of a client that pings and does nothing else, the runtime gets a ping now and then, and answers it itself.
func TestAwake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, node := net.Pipe()
		c := newSPDYConn(node)
		go func() {
			for id := range byte(3 * awake / time.Minute) {
				time.Sleep(time.Minute)
				client.Write(frame(6, 0, 0, id, 1)) //nolint:errcheck // what is read shows it
			}
			client.Close()
		}()
		got, err := io.ReadAll(c)
		const every = byte(awake / time.Minute)
		want := slices.Concat(frame(6, 0, 0, every-1, 1), frame(6, 0, 0, 2*every-1, 1), frame(6, 0, 0, 3*every-1, 1))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("the runtime gets %q %v, want %q", got, err, want)
		}
		if n := len(c.take()); n != pongsLimit*pingLength {
			t.Errorf("%d bytes of answers wait", n)
		}
	})
}

// TestManyPings: a client that pings and does not read has only some answers waiting for it.
func TestManyPings(t *testing.T) {
	c := newSPDYConn(nil)
	for range 1000 {
		c.pong(frame(6, 0, 0, 1, 7))
	}
	if n := len(c.take()); n != pongsLimit*pingLength {
		t.Errorf("%d bytes wait", n)
	}
}
