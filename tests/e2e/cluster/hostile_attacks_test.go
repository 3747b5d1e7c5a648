package cluster

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/troupe-dev/troupe/tests/check"
)

// attacks are what takes no time, in order.
var attacks = []struct {
	name string
	make func(*testing.T, *foe)
}{
	{"connections that say nothing", func(t *testing.T, f *foe) { f.crowd(t, nil, false) }},
	{"handshakes that are not finished", func(t *testing.T, f *foe) { f.crowd(t, []byte("\x16\x03\x01\x02\x00\x01"), false) }},
	{"idle TLS connections", func(t *testing.T, f *foe) { f.crowd(t, nil, true) }},
	{"no TLS at all", plain},
	{"paths", paths},
	{"methods", methods},
	{"huge headers", hugeHeaders},
	{"giant queries", giantQueries},
	{"endless bodies", endlessBodies},
	{"tokens that nobody knows", strangeTokens},
	{"a command of thousands of words", longCommands},
	{"rubbish after an upgrade", rubbish},
	{"clients that vanish", vanish},
	{"rapid reset", func(t *testing.T, f *foe) { f.streams(t, rapidReset) }},
	{"headers without end", func(t *testing.T, f *foe) { f.streams(t, endlessHeaders) }},
	{"pings without end", func(t *testing.T, f *foe) { f.streams(t, pings) }},
}

// atOnceFoes is how many clients do the same at the same time.
const atOnceFoes = 16

// together runs something many times at once.
func together(n int, do func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { do(i) })
	}
	all.Wait()
}

// crowd connects more often than a node takes, and holds on to it.
func (f *foe) crowd(t *testing.T, first []byte, shake bool) {
	const many = 1500
	var mu sync.Mutex
	var held []net.Conn
	defer func() {
		for _, c := range held {
			c.Close()
		}
	}()
	together(atOnceFoes, func(int) {
		for range many / atOnceFoes {
			var conn net.Conn
			var err error
			if shake {
				// It may be closed before it is through.
				conn, err = f.connect(t.Context(), f.unknown)
			} else if conn, err = f.dial(t.Context()); err != nil {
				t.Error(err)
			}
			if err != nil {
				continue
			}
			conn.Write(first) //nolint:errcheck // see above
			mu.Lock()
			held = append(held, conn)
			mu.Unlock()
		}
	})
	now := f.cost(t)
	t.Logf("while %d connections are held: %+v", len(held), now)
	check.AtMost(t, now.files, 1000, "the agent has %d files open", now.files)
	status, _, err := f.ask(t.Context(), f.unknown, request("GET", "/pods"))
	if err != nil || status != http.StatusUnauthorized {
		t.Errorf("a stranger who comes now is answered %d, %v", status, err)
	}
}

// plain speaks HTTP, or nothing that is known, where TLS is spoken.
func plain(t *testing.T, f *foe) {
	for _, text := range []string{request("GET", "/pods"), "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "SSH-2.0-OpenSSH\r\n", strings.Repeat("\x00", 1<<16)} {
		conn := check.Value(f.dial(t.Context()))(t)
		began := time.Now()
		io.WriteString(conn, text) //nolint:errcheck // it may be closed by now
		check.AtMost(t, awaitClosed(t, conn, began), 15*time.Second, "%.10q: it took", text)
		conn.Close()
	}
}

// paths lead out of what is served, or to what is not there.
func paths(t *testing.T, f *foe) {
	ns := f.name
	targets := []string{
		"/logs/../../etc/passwd", "/logs/..%2f..%2fetc/passwd", "/logs/%2e%2e/%2e%2e/etc/passwd", "/logs/%252e%252e/%252e%252e/etc/passwd",
		"/logs/..\\..\\etc\\passwd", "/logs//etc/passwd", "/logs/%2fetc/passwd", "//etc/passwd", "/logs/%00", "/logs/a%00b", "/logs/./../../etc/passwd",
		"/logs/....//....//etc/passwd", "/logs/" + strings.Repeat("../", 100) + "etc/passwd", "/logs/" + strings.Repeat("a/", 5000), "/logs/%c0%ae%c0%ae/etc/passwd", "/%ff%fe", "/metrics/%ff", "/pods%c0%ae",
		"/containerLogs/" + ns + "/../../etc/passwd", "/containerLogs/" + ns + "/talks/..%2f..%2f..%2fetc%2fpasswd",
		"/containerLogs/" + ns + "/..%2f..%2f..%2fetc/passwd", "/containerLogs/..%2f..%2fetc/passwd/app", "/containerLogs/" + ns + "/talks/%00",
		"/containerLogs/" + ns + "/nobody/app", "/containerLogs/" + ns + "/talks/none", "/containerLogs/" + ns + "/talks/" + strings.Repeat("a", 10000),
		"/containerLogs/" + ns + "/talks/app?tailLines=99999999999999999999", "/containerLogs/" + ns + "/talks/app?tailLines=-1", "/containerLogs/" + ns + "/talks/app?sinceTime=%00",
		"/containerLogs/" + ns + "/talks/app?stream=/etc/passwd", "/containerLogs/" + ns + "/talks/app?limitBytes=0", "/containerLogs/" + ns + "/talks/app?sinceSeconds=-9223372036854775808",
		"/exec/" + ns + "/nobody/app?command=x&output=1", "/exec/" + ns + "/app/..%2f..?command=x&output=1", "/exec/" + ns + "/app/app", "/exec/" + ns + "/app/app?command=%00&output=1",
		"/attach/" + ns + "/app/none?output=1", "/portForward/" + ns + "/nobody", "/portForward/" + ns + "/%2e%2e",
		"/debug/pprof/../../pods/", "/debug/pprof/nothing", "/checkpoint/" + ns + "/app/..%2fapp", "/healthz/nothing", "/", "/pods/..", "*", "pods", "", "/%zz", "/\x00", "http://elsewhere/pods/x", "/nowhere/" + strings.Repeat("%2e%2e%2f", 1000),
	}
	for _, target := range targets {
		for name, as := range map[string]*tls.Config{"known": f.known, "unknown": f.unknown} {
			status, body, err := f.ask(t.Context(), as, request("GET", target))
			short := target[:min(len(target), 80)]
			switch {
			case err != nil:
				t.Errorf("%s %q: %v", name, short, err)
			case name == "unknown" && status != http.StatusUnauthorized && status != http.StatusBadRequest:
				t.Errorf("%s %q: answered %d %s", name, short, status, body)
			case status == http.StatusOK && !strings.HasPrefix(target, "/debug/"), status >= 500:
				t.Errorf("%s %q: answered %d %.200s", name, short, status, body)
			case strings.Contains(body, "root:"):
				t.Errorf("%s %q: it shows %.200s", name, short, body)
			}
		}
	}
	// None of them has become a label that can't be shown.
	if status, body, err := f.ask(t.Context(), f.known, request("GET", "/metrics")); status != http.StatusOK {
		t.Errorf("/metrics: answered %d %.200s, %v", status, body, err)
	}
}

// methods are those that no route has, and some that HTTP has not.
func methods(t *testing.T, f *foe) {
	for _, method := range []string{"DELETE", "PATCH", "TRACE", "CONNECT", "OPTIONS", "HEAD", "PROPFIND", "get", "A B", "\x00", strings.Repeat("M", 10000)} {
		for _, target := range []string{"/pods", "/metrics", "/logs/", "/exec/a/b/c", "/run/a/b/c", "/containerLogs/a/b/c", "/healthz", "/nowhere"} {
			if method == "HEAD" && target != "/run/a/b/c" {
				continue // it is GET
			}
			status, body, err := f.ask(t.Context(), f.known, request(method, target))
			if err != nil || status < 400 || status >= 500 {
				t.Errorf("%.20q %s: %d %.200s %v", method, target, status, body, err)
			}
		}
	}
}

// hugeHeaders are refused, and what was sent of them is not kept.
func hugeHeaders(t *testing.T, f *foe) {
	headers := map[string]string{
		"one":  "X-A: " + strings.Repeat("a", 8<<20) + "\r\n\r\n",
		"many": strings.Repeat("a:\r\n", 2<<20) + "\r\n",
		"all": strings.Join(func() (all []string) {
			for i := range 500000 {
				all = append(all, fmt.Sprintf("%x:", i))
			}
			return all
		}(), "\r\n") + "\r\n\r\n",
		"token": "Authorization: Bearer " + strings.Repeat("a", 200<<10) + "\r\n\r\n",
	}
	for name, text := range headers {
		together(atOnceFoes/2, func(int) {
			for _, as := range []*tls.Config{f.known, f.unknown} {
				status, body, err := f.ask(t.Context(), as, "GET /pods HTTP/1.1\r\nHost: n\r\n"+text)
				if want := []int{0, http.StatusRequestHeaderFieldsTooLarge, http.StatusUnauthorized, http.StatusBadRequest}; err != nil || !slices.Contains(want, status) {
					if name == "token" && as == f.known && status == http.StatusOK {
						continue // its certificate is enough
					}
					t.Errorf("%s: answered %d %.200s, %v", name, status, body, err)
				}
			}
		})
	}
}

// tooLong is more than the headers of a request may have, and little more: what is still on its way when the server
// closes makes the client's system drop the answer.
const tooLong = 1<<20 + 64<<10

// giantQueries are read or refused.
func giantQueries(t *testing.T, f *foe) {
	ns := f.name
	for name, c := range map[string]struct {
		target string
		want   []int
	}{
		// The server closes while the rest is on its way: then the client's system may drop the answer (0).
		"more than a header": {"/pods?" + strings.Repeat("a", tooLong), []int{http.StatusRequestHeaderFieldsTooLarge, 0}},
		"many parameters":    {"/containerLogs/" + ns + "/nobody/app?" + strings.Repeat("a=b&", 60000), []int{http.StatusNotFound, http.StatusBadRequest}},
		"one of many values": {"/containerLogs/" + ns + "/nobody/app?" + strings.Repeat("tailLines=1&", 20000), []int{http.StatusNotFound, http.StatusBadRequest}},
		"many signs":         {"/pods?" + strings.Repeat(";", 200000), []int{http.StatusOK}},
		"many escapes":       {"/nowhere?" + strings.Repeat("%25", 80000), []int{http.StatusNotFound}},
	} {
		status, body, err := f.ask(t.Context(), f.known, request("GET", c.target))
		if err != nil || !slices.Contains(c.want, status) {
			t.Errorf("%s: answered %d %.200s, %v, want %v", name, status, body, err, c.want)
		}
	}
}

// endlessBodies are not read to their end.
func endlessBodies(t *testing.T, f *foe) {
	const chunk = 32 << 10
	piece := []byte(fmt.Sprintf("%x\r\n%s\r\n", chunk, strings.Repeat("a", chunk)))
	ns := f.name
	for _, c := range []struct{ method, target string }{
		{"POST", "/run/" + ns + "/app/app?cmd=/work+id"}, {"POST", "/exec/" + ns + "/app/app?command=/work&output=1"}, {"PUT", "/debug/flags/v"},
		{"GET", "/pods"}, {"GET", "/containerLogs/" + ns + "/talks/app"}, {"POST", "/nowhere"},
	} {
		for name, as := range map[string]*tls.Config{"known": f.known, "unknown": f.unknown} {
			conn := check.Value(f.connect(t.Context(), as))(t)
			began := time.Now()
			var sent int
			var all sync.WaitGroup
			all.Go(func() {
				n, err := fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: n\r\nTransfer-Encoding: chunked\r\n\r\n", c.method, c.target)
				for sent = n; err == nil && sent < 256<<20; sent += n {
					n, err = conn.Write(piece)
				}
			})
			took := awaitClosed(t, conn, began)
			conn.Close()
			all.Wait()
			if sent > 32<<20 || took > 40*time.Second {
				t.Errorf("%s, %s %s: %d bytes were taken in %s", name, c.method, c.target, sent, took)
			}
		}
	}
}

// strangeTokens are asked about, but not all at once.
func strangeTokens(t *testing.T, f *foe) {
	var mu sync.Mutex
	said := map[int]int{}
	together(64, func(int) {
		for range 8 {
			status, _, err := f.ask(t.Context(), f.unknown, request("GET", "/pods", "Authorization: Bearer "+rand.Text()))
			mu.Lock()
			said[status]++
			mu.Unlock()
			if err != nil || status != http.StatusUnauthorized && status != http.StatusTooManyRequests {
				t.Errorf("answered %d, %v", status, err)
			}
		}
	})
	t.Logf("answered %v", said)
}

// upgraded is a connection after the answer to its upgrade.
type upgraded struct {
	*tls.Conn
	// early came with the answer, in one piece: a server that was kept waiting sends both at once.
	early []byte
}

func (u *upgraded) Read(p []byte) (int, error) {
	if len(u.early) > 0 {
		n := copy(p, u.early)
		u.early = u.early[n:]
		return n, nil
	}
	return u.Conn.Read(p)
}

// upgrade asks for a stream, and gives the connection as it is then, and the first line of the answer.
func (f *foe) upgrade(ctx context.Context, target string, headers ...string) (*upgraded, string, error) {
	bare, err := f.connect(ctx, f.known)
	if err != nil {
		return nil, "", err
	}
	conn := &upgraded{Conn: bare}
	text := "POST "
	if slices.Contains(headers, "Upgrade: websocket") {
		text = "GET "
	}
	text += target + " HTTP/1.1\r\nHost: n\r\nConnection: Upgrade\r\n" + strings.Join(headers, "\r\n") + "\r\n\r\n"
	conn.SetDeadline(time.Now().Add(patience)) //nolint:errcheck // it is a socket
	if _, err := io.WriteString(conn, text); err != nil {
		return conn, "", err
	}
	var answer []byte
	end := []byte("\r\n\r\n")
	for piece := make([]byte, 4096); !bytes.Contains(answer, end); {
		n, err := bare.Read(piece)
		if answer = append(answer, piece[:n]...); err != nil {
			line, _, _ := strings.Cut(string(answer), "\r\n")
			return conn, line, err
		}
	}
	line, _, _ := strings.Cut(string(answer), "\r\n")
	_, conn.early, _ = bytes.Cut(answer, end)
	return conn, line, nil
}

// TestFoesReadAll: what comes with the answer to an upgrade is not lost.
//
//tier:real
func TestFoesReadAll(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n\x82\x07\x01begun\n") //nolint:errcheck // the client says
	}))
	defer server.Close()
	f := &foe{bed: &bed{}, at: server.Listener.Addr().String(), known: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // its own server
	conn, line, err := f.upgrade(t.Context(), "/exec/a/b/c", ways["WebSocket v4"]...)
	if err != nil || line != "HTTP/1.1 101 Switching Protocols" {
		t.Fatalf("answered %q, %v", line, err)
	}
	defer conn.Close()
	check.Error(t, begun(conn, "WebSocket v4"))
}

// ways into a container.
var ways = map[string][]string{
	"WebSocket v4": {"Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Protocol: v4.channel.k8s.io"},
	"WebSocket v5": {"Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Protocol: v5.channel.k8s.io"},
	"SPDY":         {"Upgrade: SPDY/3.1", "X-Stream-Protocol-Version: v4.channel.k8s.io"},
	"tunnel":       {"Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Protocol: SPDY/3.1+portforward.k8s.io"},
}

// echoes is a command that says that it has begun, and ends with its stdin.
const echoes = "&command=/work&command=touch&command=" + foesMark + "&command=then&command=print&command=begun&command=then&command=echo"

// begun waits until the command of a stream has. Whoever leaves a runtime before that may leave the command
// behind: its stdin ends before it is there. Over SPDY nothing begins without streams, which foes do not make.
func begun(conn io.Reader, way string) error {
	if !strings.HasPrefix(way, "WebSocket") {
		return nil
	}
	var got []byte
	for piece := make([]byte, 512); !bytes.Contains(got, []byte("begun")); {
		n, err := conn.Read(piece)
		if got = append(got, piece[:n]...); err != nil {
			return fmt.Errorf("after %q: %w", got, err)
		}
	}
	return nil
}

func (f *foe) targetOf(way, command string) string {
	if way == "tunnel" {
		return "/portForward/" + f.name + "/app"
	}
	return "/exec/" + f.name + "/app/app?input=1&output=1&error=1" + command
}

// longCommands are run, or refused in words.
func longCommands(t *testing.T, f *foe) {
	for name, c := range map[string]struct{ command, want string }{
		"thousands":        {"&command=/work&command=print" + strings.Repeat("&command=word", 5000), "HTTP/1.1 101"},
		"one long one":     {"&command=/work&command=print&command=" + strings.Repeat("a", 100<<10), "HTTP/1.1 101"},
		"one too long one": {"&command=/work&command=print&command=" + strings.Repeat("a", tooLong), "HTTP/1.1 431"},
	} {
		conn, line, err := f.upgrade(t.Context(), f.targetOf("SPDY", c.command), ways["SPDY"]...)
		if conn != nil {
			conn.Close()
		}
		if err != nil || !strings.HasPrefix(line, c.want) {
			t.Errorf("%s: answered %q, %v, want %s", name, line, err, c.want)
		}
	}
}

// rubbish is what no protocol has, after the upgrade to one, and instead of it.
func rubbish(t *testing.T, f *foe) {
	noise := make([]byte, 1<<20)
	rand.Read(noise) //nolint:errcheck // it never fails
	for way, headers := range ways {
		for _, text := range [][]byte{
			noise, make([]byte, 1<<20), bytes.Repeat([]byte{0xff}, 1<<20), nil,
			{0x82, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4, 'a'}, // a frame of all memory
		} {
			conn, line, err := f.upgrade(t.Context(), f.targetOf(way, echoes), headers...)
			if err != nil || !strings.HasPrefix(line, "HTTP/1.1 101") {
				t.Errorf("%s: answered %q, %v", way, line, err)
			} else if err := begun(conn, way); err != nil {
				t.Errorf("%s: %v", way, err)
			} else {
				conn.Write(text) //nolint:errcheck // it may be closed by now
			}
			if conn != nil {
				conn.Close()
			}
		}
	}
	for name, headers := range map[string][]string{
		"no key": {"Upgrade: websocket", "Sec-WebSocket-Version: 13"}, "an old version": {"Upgrade: websocket", "Sec-WebSocket-Version: 1", "Sec-WebSocket-Key: a"},
		"unknown protocol": {"Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Protocol: v99.channel.k8s.io"},
		"unknown upgrade":  {"Upgrade: gopher"}, "unknown SPDY": {"Upgrade: SPDY/3.1", "X-Stream-Protocol-Version: v99"},
	} {
		conn, line, err := f.upgrade(t.Context(), f.targetOf("", echoes), headers...)
		if conn != nil {
			conn.Close()
		}
		if err != nil && !errors.Is(err, io.EOF) || strings.HasPrefix(line, "HTTP/1.1 101") || line == "" {
			t.Errorf("%s: answered %q, %v", name, line, err)
		}
	}
	f.await(t, "nothing of it runs", func() error {
		got := processes(t, foesMark)
		return check.That(len(got) == 0, "%q", got)
	})
}

// vanish leaves in the middle, without a word.
func vanish(t *testing.T, f *foe) {
	together(atOnceFoes, func(int) {
		leave := func(conn *tls.Conn) {
			if conn != nil {
				conn.NetConn().(*net.TCPConn).SetLinger(0) //nolint:errcheck // a reset, and not an end
				conn.NetConn().Close()
			}
		}
		for way, headers := range ways {
			conn, line, err := f.upgrade(t.Context(), f.targetOf(way, echoes), headers...)
			if err != nil || !strings.HasPrefix(line, "HTTP/1.1 101") {
				t.Errorf("%s: answered %q, %v", way, line, err)
			} else if err := begun(conn, way); err != nil {
				t.Errorf("%s: %v", way, err)
			}
			if conn != nil {
				leave(conn.Conn)
			}
		}
		for _, target := range []string{"/containerLogs/" + f.name + "/talks/app?follow=true", "/metrics/cadvisor", "/stats/summary", "/debug/pprof/trace?seconds=5", "/run/" + f.name + "/app/app?cmd=/work+sleep+1s"} {
			conn, err := f.connect(t.Context(), f.known)
			if err != nil {
				t.Error(err)
				continue
			}
			io.WriteString(conn, "GET "+target+" HTTP/1.1\r\nHost: n\r\n\r\n") //nolint:errcheck // it is left anyway
			conn.SetDeadline(time.Now().Add(patience))                         //nolint:errcheck // it is a socket
			conn.Read(make([]byte, 10))                                        //nolint:errcheck // see above
			leave(conn)
		}
	})
	f.await(t, "nothing of it runs", func() error {
		got := processes(t, foesMark)
		return check.That(len(got) == 0, "%q", got)
	})
}

// flooder speaks HTTP/2, a frame at a time.
type flooder struct {
	*http2.Framer
	conn    net.Conn
	block   bytes.Buffer
	headers *hpack.Encoder
	next    uint32
}

func newFlooder(conn net.Conn) *flooder {
	h := &flooder{Framer: http2.NewFramer(conn, conn), conn: conn, next: 1}
	h.headers = hpack.NewEncoder(&h.block)
	return h
}

// begin is what each connection begins with.
func (h *flooder) begin(settings ...http2.Setting) error {
	if _, err := io.WriteString(h.conn, http2.ClientPreface); err != nil {
		return err
	}
	return h.WriteSettings(settings...)
}

// ask begins a stream.
func (h *flooder) ask(path string) error {
	h.block.Reset()
	for _, f := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", "n"}, {":path", path}} {
		if err := h.headers.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}); err != nil {
			return err
		}
	}
	err := h.WriteHeaders(http2.HeadersFrameParam{StreamID: h.next, BlockFragment: h.block.Bytes(), EndStream: true, EndHeaders: true})
	h.next += 2
	return err
}

// streams floods over HTTP/2, as a stranger and as one who is known, until it is cut off or through.
func (f *foe) streams(t *testing.T, flood func(*flooder) error) {
	for name, as := range map[string]*tls.Config{"unknown": f.unknown, "known": f.known} {
		together(4, func(int) {
			conn, err := f.connect(t.Context(), as, "h2")
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			conn.SetDeadline(time.Now().Add(patience)) //nolint:errcheck // it is a socket
			began := time.Now()
			err = flood(newFlooder(conn))
			t.Logf("%s: %v after %s", name, err, time.Since(began))
			if errors.Is(err, errTaken) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

var errTaken = errors.New("all of it was taken")

// rapidReset begins streams and gives each up at once (CVE-2023-44487).
func rapidReset(h *flooder) (err error) {
	defer check.Return(&err)
	check.OK(h.begin())
	go io.Copy(io.Discard, h.conn) //nolint:errcheck // it ends with the connection
	for range 5000 {
		check.OK(h.ask("/pods"))
		check.OK(h.WriteRSTStream(h.next-2, http2.ErrCodeCancel))
	}
	return nil
}

// unread asks on all streams, and takes no byte of any answer.
func unread(h *flooder) (err error) {
	defer check.Return(&err)
	check.OK(h.begin(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}))
	for range 1024 {
		check.OK(h.ask("/pods"))
	}
	return nil
}

// endlessHeaders never ends the header of one stream (CVE-2023-45288).
func endlessHeaders(h *flooder) (err error) {
	defer check.Return(&err)
	check.OK(h.begin())
	go io.Copy(io.Discard, h.conn) //nolint:errcheck // it ends with the connection
	check.OK(h.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndStream: true}))
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	check.OK(e.WriteField(hpack.HeaderField{Name: "x-a", Value: strings.Repeat("a", 8<<10), Sensitive: true}))
	for range 4096 {
		check.OK(h.WriteContinuation(1, false, block.Bytes()))
	}
	return errTaken
}

// pings asks for more answers than it takes.
func pings(h *flooder) (err error) {
	defer check.Return(&err)
	check.OK(h.begin())
	for range 500000 {
		check.OK(h.WritePing(false, [8]byte{}))
	}
	return errTaken
}
