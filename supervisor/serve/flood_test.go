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
	// floodOnce is how many strangers come in a test, one after another: each takes the race detector milliseconds. In a
	// benchmark they come in floods waves, floodWave in each, which takes floodLength.
	floodOnce   = 1_200
	floods      = 10
	floodWave   = 1_000
	floodLength = time.Second
)

// floodKinds are by what strangers say before they stop.
var floodKinds = []struct {
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
		b.limiter.mu.Lock()
		defer b.limiter.mu.Unlock()
		there = len(b.limiter.unauthenticated)
		return b.limiter.seq >= n
	})
	check.AtMost(t, there, usualBounds.unauthenticated, "connections of strangers")
}

// TestFloodOfHandshakes: strangers connect without end, and say nothing, or begin a handshake and stop. The server has
// as much of them as it may have, and no more at any time; and a known client is answered meanwhile, and on a new
// connection.
func TestFloodOfHandshakes(t *testing.T) {
	for _, f := range floodKinds {
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
			check.AtMost(t, most, 3*usualBounds.unauthenticated, "goroutines of strangers")
			check.Equal(t, b.client(t, "127.0.0.1", "kubectl").status(t), "200 OK", "the answer on a new connection")
		})
	}
}

// BenchmarkFloodOfHandshakes: requests of a known client while 10,000 strangers come, a thousand a second, and alone,
// in turns.
func BenchmarkFloodOfHandshakes(b *testing.B) {
	for _, f := range floodKinds {
		b.Run(f.name, func(b *testing.B) {
			s := besiegeTLS(b)
			known, first := s.client(b, "127.0.0.1", "kubectl"), f.first(b)
			known.took(b, samples) // the first requests take longer
			for b.Loop() {
				var alone, beside []time.Duration
				for range floods {
					end := time.Now().Add(floodLength)
					alone = append(alone, known.took(b, func(int) bool { return time.Now().Before(end) })...)
					over := make(chan error, 1)
					go func() { over <- s.flood(first) }()
					beside = append(beside, known.took(b, func(int) bool { return len(over) == 0 })...)
					check.Fatal(b, <-over)
				}
				s.awaitFlood(b, floods*floodWave)
				compared(b, alone, beside)
			}
		})
	}
}

// flood has a wave of strangers come in its time. They stay until all have come.
func (b *besieged) flood(first []byte) error {
	var all []net.Conn
	defer func() {
		for _, conn := range all {
			conn.Close()
		}
	}()
	next := time.NewTicker(floodLength / floodWave)
	defer next.Stop()
	for range floodWave {
		<-next.C
		conn, err := b.begin("127.0.1.1", first)
		if err != nil {
			return err
		}
		all = append(all, conn)
	}
	return nil
}
