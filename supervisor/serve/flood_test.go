package serve

import (
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
)

const (
	// floodSize is how many strangers come in a benchmark, in floodLength, and floodOnce in a test, one after another:
	// each of them takes the race detector milliseconds.
	floodSize   = 10_000
	floodLength = 10 * time.Second
	floodOnce   = 1_200
)

// floods are by what strangers say before they stop.
var floods = []struct {
	name  string
	first func(testing.TB) []byte
}{
	{"silent", func(testing.TB) []byte { return nil }},
	{"begun", hello},
}

// hello is what a client of Go says first in a handshake. It costs a stranger nothing to say it again, and the server
// as much as any other.
func hello(t testing.TB) []byte {
	t.Helper()
	here, there := net.Pipe()
	var client sync.WaitGroup
	client.Go(func() {
		tls.Client(there, &tls.Config{InsecureSkipVerify: true}).Handshake() //nolint:errcheck,gosec // it ends with the pipe
	})
	defer client.Wait()
	defer here.Close()
	const head = 5 // of a record: its type, its version, its length
	record := make([]byte, head)
	check.Value(io.ReadFull(here, record))(t)
	body := make([]byte, binary.BigEndian.Uint16(record[head-2:]))
	check.Value(io.ReadFull(here, body))(t)
	return append(record, body...)
}

// begin connects from an address, and says first. It may be closed before it has.
func (b *besieged) begin(address string, first []byte) (net.Conn, error) {
	conn, err := b.connect(address)
	if err == nil {
		conn.Write(first) //nolint:errcheck // see above
	}
	return conn, err
}

// awaitFlood waits until so many strangers have come. No more of them are there than may be.
func (b *besieged) awaitFlood(t testing.TB, n uint64) {
	t.Helper()
	there := 0
	check.Until(t, "all have come", func() bool {
		b.crowd.mu.Lock()
		defer b.crowd.mu.Unlock()
		there = len(b.crowd.strangers)
		return b.crowd.came >= n
	})
	check.AtMost(t, there, usualBounds.strangers, "connections of strangers")
}

// TestFloodOfHandshakes: strangers connect without end, and say nothing, or begin a handshake and stop. The server has
// as much of them as it may have, and no more at any time; and a known client is answered meanwhile, and on a new
// connection.
func TestFloodOfHandshakes(t *testing.T) {
	for _, f := range floods {
		t.Run(f.name, func(t *testing.T) {
			b := besiegeTLS(t)
			known, first := b.client(t, "127.0.0.1", "kubectl"), f.first(t)
			check.Equal(t, known.status(t), "200 OK", "the answer before")
			before, most := runtime.NumGoroutine(), 0
			for i := range floodOnce {
				conn := check.Value(b.begin("127.0.1.1", first))(t)
				t.Cleanup(func() { conn.Close() })
				most = max(most, runtime.NumGoroutine()-before)
				if i%(floodOnce/10) == 0 {
					check.Equal(t, known.status(t), "200 OK", "the answer after %d", i)
				}
			}
			b.awaitFlood(t, floodOnce)
			// A handshake has two, and those of a connection that was closed end a little later.
			check.AtMost(t, most, 3*usualBounds.strangers, "goroutines of strangers")
			check.Equal(t, b.client(t, "127.0.0.1", "kubectl").status(t), "200 OK", "the answer on a new connection")
		})
	}
}

// BenchmarkFloodOfHandshakes: a request of a known client while strangers come, a thousand a second, and alone.
func BenchmarkFloodOfHandshakes(b *testing.B) {
	for _, f := range floods {
		b.Run(f.name, func(b *testing.B) {
			s := besiegeTLS(b)
			known, first := s.client(b, "127.0.0.1", "kubectl"), f.first(b)
			known.took(b, samples) // the first requests take longer
			for b.Loop() {
				alone := known.took(b, samples)
				over := make(chan error, 1)
				go func() { over <- s.flood(first) }()
				var err error
				beside := known.took(b, func(int) bool {
					select {
					case err = <-over:
						return false
					default:
						return true
					}
				})
				check.Fatal(b, err)
				s.awaitFlood(b, floodSize)
				compared(b, alone, beside)
			}
		})
	}
}

// flood has strangers come in their time. They stay until all have come.
func (b *besieged) flood(first []byte) error {
	var all []net.Conn
	defer func() {
		for _, conn := range all {
			conn.Close()
		}
	}()
	next := time.NewTicker(floodLength / floodSize)
	defer next.Stop()
	for range floodSize {
		<-next.C
		conn, err := b.begin("127.0.1.1", first)
		if err != nil {
			return err
		}
		all = append(all, conn)
	}
	return nil
}
