package streams

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
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
	client, err := tls.Dial("tcp", node.Listener.Addr().String(), unverified)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := io.WriteString(client, "GET / HTTP/1.1\r\nHost: node\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	<-ending
	for range 64 {
		if _, err := client.Write(make([]byte, 64<<10)); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := io.ReadAll(client); err != nil || len(got) != size {
		t.Errorf("%d bytes of %d, %v", len(got), size, err)
	}
	client.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestLingerEnds: a side that does not close is waited for no longer than was said.
func TestLingerEnds(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	far, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if err := linger(conn, 10*time.Millisecond); err != nil {
		t.Error(err)
	}
	if _, err := conn.Write([]byte("x")); err == nil {
		t.Error("the connection is still open")
	}
}
