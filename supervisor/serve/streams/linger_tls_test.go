package streams

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
)

// limited is a connection as the node's server gives it: what is below is found by NetConn alone.
type limited struct{ net.Conn }

func (l limited) NetConn() net.Conn { return l.Conn }

type limiting struct{ net.Listener }

func (l limiting) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return limited{conn}, err
}

// TestLingerTLS: a client that sends on gets what was written to it, and its proper end.
func TestLingerTLS(t *testing.T) {
	const size = 512 << 10
	ending, ended := make(chan struct{}), make(chan error, 1)
	node := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		if _, err := conn.Write(make([]byte, size)); err != nil {
			t.Error(err)
		}
		close(ending)
		ended <- linger(conn, time.Minute)
	}))
	node.Listener = limiting{node.Listener}
	node.StartTLS()
	defer node.Close()
	unverified := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // a test's own
	client := check.Value(tls.Dial("tcp", node.Listener.Addr().String(), unverified))(t)
	defer client.Close()
	check.Value(io.WriteString(client, "GET / HTTP/1.1\r\nHost: node\r\n\r\n"))(t)
	<-ending
	for range 64 {
		check.Value(client.Write(make([]byte, 64<<10)))(t)
	}
	if got, err := io.ReadAll(client); err != nil || len(got) != size {
		t.Errorf("%d bytes of %d, %v", len(got), size, err)
	}
	client.Close()
	check.Fatal(t, <-ended)
}

// TestLingerEnds: a side that does not close is waited for no longer than was said.
func TestLingerEnds(t *testing.T) {
	listener := check.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	far := check.Value(net.Dial("tcp", listener.Addr().String()))(t)
	defer far.Close()
	conn := check.Value(listener.Accept())(t)
	check.Error(t, linger(conn, 10*time.Millisecond))
	if _, err := conn.Write([]byte("x")); err == nil {
		t.Error("the connection is still open")
	}
}
