package network

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/probe"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestWordsOfAServer: what a server answers that does not speak HTTP is in no error: it may be one that only this machine
// reaches.
func TestWordsOfAServer(t *testing.T) {
	const secret = "hunter2"
	for answer, want := range map[string]string{
		secret + "\r\n":                                                                  "malformed HTTP response",
		"HTTP/1.1 " + secret + "\r\n\r\n":                                                "malformed HTTP status code",
		"HTTP/1.1 200 OK\r\n" + secret + "\r\n\r\n":                                      "malformed MIME header",
		"HTTP/1.1 200 OK\r\nContent-Length: " + secret + "\r\n\r\n":                      "bad Content-Length",
		"HTTP/1.1 302 Found\r\nLocation: http://[" + secret + "\r\n\r\n":                 "failed to parse Location header",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: " + secret + "\r\n\r\n": "multiple Content-Length headers",
		"HTTP/1.1 302 Found\r\nLocation: /" + secret + "\r\n\r\n":                        "stopped after 10 redirects",
		"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/" + secret + "\r\n\r\n":      "connection refused",
		"HTTP/1.1 302 Found\r\nLocation: ftp://127.0.0.1/" + secret + "\r\n\r\n":         "unsupported protocol scheme",
	} {
		url := "http://" + speaking(t, answer) + "/"
		err := get(t.Context(), port.HTTPGet{URL: url})
		check.Says(t, err, want, "a hook")
		check.Equal(t, strings.Contains(err.Error(), secret), false, "people are shown the server's words of a hook: %v", err)
		host, at := hostPort(t, url)
		_, err = probeHTTP(t.Context(), probe.HTTP{Host: host, Port: at, Path: "/"}, time.Second)
		check.Says(t, err, want, "a probe")
		check.Equal(t, strings.Contains(err.Error(), secret), false, "people are shown the server's words of a probe: %v", err)
	}
}

// speaking is the address of a server that gives one answer.
func speaking(t *testing.T, answer string) string {
	t.Helper()
	l := check.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conn.Read(make([]byte, 4<<10))   //nolint:errcheck // the request, before which no answer counts
			io.WriteString(conn, answer)     //nolint:errcheck // the client says what it got
			conn.(*net.TCPConn).CloseWrite() //nolint:errcheck // see above
			io.Copy(io.Discard, conn)        //nolint:errcheck // until the client has read
			conn.Close()                     //nolint:errcheck // see above
		}
	}()
	return l.Addr().String()
}

// TestHeadersAreShort: a server whose header has no end is given up soon.
func TestHeadersAreShort(t *testing.T) {
	sent := make(chan int, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		n, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nX: ")
		for line := make([]byte, 32<<10); err == nil; {
			more := 0
			more, err = conn.Write(line)
			n += more
		}
		sent <- n
	}))
	defer s.Close()
	host, at := hostPort(t, s.URL)
	_, err := probeHTTP(t.Context(), probe.HTTP{Host: host, Port: at, Path: "/"}, 10*time.Second)
	check.Says(t, err, "server response headers exceeded", "a probe")
	// What the system holds on both sides comes on top.
	check.AtMost(t, check.Receive(t, sent), headerLimit+8<<20, "bytes that the server could send")
}
