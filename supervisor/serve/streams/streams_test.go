package streams_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/client-go/util/exec"
	crirc "k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/troupe-dev/troupe/supervisor/serve/streams"
	"github.com/troupe-dev/troupe/tests/check"
)

// protocols are the ways in which a client may speak.
var protocols = map[string]func(c *rest.Config, url string) (remotecommand.Executor, error){
	"SPDY": func(c *rest.Config, url string) (remotecommand.Executor, error) {
		u, err := http.NewRequest("POST", url, nil) //nolint:noctx // only to parse it
		if err != nil {
			return nil, err
		}
		return remotecommand.NewSPDYExecutor(c, "POST", u.URL)
	},
	"WebSocket v5": func(c *rest.Config, url string) (remotecommand.Executor, error) {
		return remotecommand.NewWebSocketExecutor(c, "GET", url)
	},
	"WebSocket v4": func(c *rest.Config, url string) (remotecommand.Executor, error) {
		return remotecommand.NewWebSocketExecutorForProtocols(c, "GET", url, "v4.channel.k8s.io")
	},
}

// each runs a test with every protocol but those left out.
func each(t *testing.T, test func(t *testing.T, open func(w *world, path string) remotecommand.Executor), without ...string) {
	for name, open := range protocols {
		if slices.Contains(without, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			test(t, func(w *world, path string) remotecommand.Executor {
				return check.Value(open(&rest.Config{}, "http://"+w.relay.Addr().String()+path))(t)
			})
		})
	}
}

func TestExec(t *testing.T) {
	each(t, func(t *testing.T, open func(w *world, path string) remotecommand.Executor) {
		w := newWorld(t)
		for _, code := range []int{0, 1, 42, 137} {
			var out, errs bytes.Buffer
			path := fmt.Sprintf("/exec/shop/web/u1/app?output=1&error=1&command=exit&command=%d", code)
			err := open(w, path).StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: &out, Stderr: &errs})
			exited, _ := errors.AsType[exec.CodeExitError](err)
			if exited.Code != code || (err == nil) != (code == 0) || out.String() != "to stdout\n" || errs.String() != "to stderr\n" {
				t.Errorf("exit %d: %v, stdout %q, stderr %q", code, err, &out, &errs)
			}
		}
		err := open(w, "/exec/shop/web/app?output=1&command=nothing").StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: io.Discard})
		if err == nil || !strings.Contains(err.Error(), "executable file not found") {
			t.Errorf("a command that is not there: %v", err)
		}
		err = open(w, "/exec/shop/web/nobody?output=1&command=exit").StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: io.Discard})
		if err == nil || !strings.Contains(err.Error(), "container not found") && !strings.Contains(err.Error(), "500 Internal Server Error") {
			t.Errorf("a container that is not there: %v", err)
		}
	})
}

// TestMuchBothWays sends more than all buffers hold, through a command that gives it back. In
// v4.channel.k8s.io stdin has no end of its own, so that the command would have none.
func TestMuchBothWays(t *testing.T) {
	each(t, func(t *testing.T, open func(w *world, path string) remotecommand.Executor) {
		const much = 20 << 20
		w := newWorld(t)
		sent, got := sha256.New(), sha256.New()
		in := io.TeeReader(io.LimitReader(rand.Reader, much), sent)
		err := open(w, "/exec/shop/web/app?input=1&output=1&command=echo").StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdin: in, Stdout: got})
		if err != nil || !bytes.Equal(sent.Sum(nil), got.Sum(nil)) {
			t.Errorf("%v; the same came back: %t", err, bytes.Equal(sent.Sum(nil), got.Sum(nil)))
		}
	}, "WebSocket v4")
}

func TestAttach(t *testing.T) {
	each(t, func(t *testing.T, open func(w *world, path string) remotecommand.Executor) {
		w := newWorld(t)
		in, typed := io.Pipe()
		out, shown := io.Pipe()
		ended := make(chan error, 1)
		go func() {
			ended <- open(w, "/attach/shop/web/debug?input=1&output=1&error=1&tty=1").StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdin: in, Stdout: shown, Tty: true})
		}()
		fmt.Fprint(typed, "hello")
		word := make([]byte, 5)
		if _, err := io.ReadFull(out, word); err != nil || string(word) != "hello" {
			t.Errorf("%q %v", word, err)
		}
		w.cut()
		typed.Close()
		out.Close()
		<-ended //nolint:errcheck // it was cut off
		if want := "attach debug-1 {Stdin:true Stdout:true Stderr:false TTY:true}"; w.asked[0] != want {
			t.Errorf("asked for %s, want %s", w.asked[0], want)
		}
	})
}

// queue are sizes of a terminal.
type queue chan remotecommand.TerminalSize

func (q queue) Next() *remotecommand.TerminalSize {
	s, ok := <-q
	if !ok {
		return nil
	}
	return &s
}

func TestResize(t *testing.T) {
	each(t, func(t *testing.T, open func(w *world, path string) remotecommand.Executor) {
		w := newWorld(t)
		q := make(queue, 3)
		q <- remotecommand.TerminalSize{Width: 80, Height: 24}
		q <- remotecommand.TerminalSize{Width: 132, Height: 50}
		q <- remotecommand.TerminalSize{Width: 1, Height: 1}
		var out bytes.Buffer
		err := open(w, "/exec/shop/web/shell?output=1&tty=1&command=sizes").StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: &out, Tty: true, TerminalSizeQueue: q})
		close(q)
		if err != nil || out.String() != "80x24\n132x50\n1x1\n" {
			t.Errorf("%q %v", &out, err)
		}
	})
}

// TestClientLeaves has a command that says nothing and reads nothing: only the connection's end
// shows that nobody is there any more. Nothing may be left of the stream.
func TestClientLeaves(t *testing.T) {
	each(t, func(t *testing.T, open func(w *world, path string) remotecommand.Executor) {
		w := newWorld(t)
		begun := w.addSilent(t)
		ended, leave := w.silent(t, open)
		<-begun
		w.cut()
		w.awaitEnd(t)
		leave()
		if err := check.Receive(t, ended); err == nil && sees(t) {
			t.Error("the client was not cut off")
		}
	})
}

// awaitEnd waits until a request was answered to its end.
func (w *world) awaitEnd(t *testing.T) {
	t.Helper()
	check.Receive(t, w.ended)
}

// TestFlood has a client that reads nothing: its command has to wait, and nothing piles up, while another
// client gets more than buffers hold.
func TestFlood(t *testing.T) {
	each(t, func(t *testing.T, open func(w *world, path string) remotecommand.Executor) {
		w := newWorld(t)
		const limit, piece = 48 << 20, 64 << 10 // sockets' buffers are most of it
		var taken atomic.Int64
		flood := func(ctx context.Context, out io.Writer, told *atomic.Int64) error {
			for b := make([]byte, piece); ctx.Err() == nil && told.Load() < 3*limit; told.Add(piece) {
				if _, err := out.Write(b); err != nil {
					return err
				}
			}
			return nil
		}
		ctx, enough := context.WithCancel(t.Context())
		begun := make(chan struct{})
		w.programs["flood"] = func(_ io.Reader, out, _ io.Writer, _ <-chan crirc.TerminalSize, _ []string) error {
			if _, err := out.Write([]byte("first")); err != nil {
				return err
			}
			close(begun)
			return flood(t.Context(), out, &taken)
		}
		w.programs["beside"] = func(_ io.Reader, out, _ io.Writer, _ <-chan crirc.TerminalSize, _ []string) error {
			return flood(ctx, out, new(atomic.Int64))
		}
		left := make(chan struct{})
		stuck := writer(func([]byte) (int, error) {
			<-left
			return 0, io.ErrClosedPipe
		})
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			open(w, "/exec/shop/web/app?output=1&command=flood").StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: stuck}) //nolint:errcheck // it is cut off
		}()
		<-begun
		var read int
		counted := writer(func(b []byte) (int, error) {
			if read += len(b); read > 2*limit {
				enough()
			}
			return len(b), nil
		})
		if err := open(w, "/exec/shop/web/app?output=1&command=beside").StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: counted}); err != nil {
			t.Error(err)
		}
		<-w.ended
		if n := taken.Load(); n > limit {
			t.Errorf("%d MiB were taken of a command whose output nobody reads", n>>20)
		}
		w.cut()
		close(left)
		<-ended
		w.awaitEnd(t)
	})
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

func TestClose(t *testing.T) {
	each(t, func(t *testing.T, open func(w *world, path string) remotecommand.Executor) {
		w := newWorld(t)
		begun := w.addSilent(t)
		ended, leave := w.silent(t, open)
		<-begun
		w.s.Close()
		w.awaitEnd(t)
		leave()
		<-ended //nolint:errcheck // it was cut off
	})
}

// silent has a client run what says nothing. The SPDY client takes half a minute to see that it was cut off: leave
// spares a test that. The WebSocket client sees it at once. It must not leave: one that does before it has begun to read
// never ends its goroutines.
func (w *world) silent(t *testing.T, open func(w *world, path string) remotecommand.Executor) (ended chan error, leave func()) {
	ctx, leave := context.WithCancel(t.Context())
	if sees(t) {
		ctx, leave = t.Context(), func() {}
	}
	ended = make(chan error, 1)
	client := open(w, "/exec/shop/web/app?output=1&command=silent")
	go func() { ended <- client.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: io.Discard}) }()
	return ended, leave
}

// sees is whether a test's client sees that it was cut off.
func sees(t *testing.T) bool { return strings.Contains(t.Name(), "WebSocket") }

// TestContentOfRun: a kubelet says of any output that it is JSON, and nothing of none.
func TestContentOfRun(t *testing.T) {
	w := newWorld(t)
	for command, want := range map[string]string{"ls": "application/json", "nothing": ""} {
		r := check.Value(http.NewRequestWithContext(t.Context(), "POST", w.node.URL+"/run/shop/web/app?cmd="+command, nil))(t)
		answer := check.Value(http.DefaultTransport.RoundTrip(r))(t)
		check.Fatal(t, answer.Body.Close())
		check.Equal(t, answer.Header.Get("Content-Type"), want, "%s answers with %d, type", command, answer.StatusCode)
	}
}

func TestRunIsGivenUp(t *testing.T) {
	w := newWorld(t)
	ctx, leave := context.WithCancel(t.Context())
	r := check.Value(http.NewRequestWithContext(ctx, "POST", w.node.URL+"/run/shop/web/app?cmd=hang", nil))(t)
	go func() { time.AfterFunc(50*time.Millisecond, leave) }()
	if answer, err := http.DefaultTransport.RoundTrip(r); err == nil {
		answer.Body.Close()
		t.Error(answer.Status)
	}
	w.awaitEnd(t)
}

// forwards are the ways to forward ports.
var forwards = map[string]func(w *world) (httpstream.Dialer, error){
	"SPDY": func(w *world) (httpstream.Dialer, error) {
		transport, upgrader, err := spdy.RoundTripperFor(&rest.Config{})
		if err != nil {
			return nil, err
		}
		r, err := http.NewRequest("POST", w.node.URL+"/portForward/shop/web", nil) //nolint:noctx // only to parse it
		if err != nil {
			return nil, err
		}
		return spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, "POST", r.URL), nil
	},
	"WebSocket": func(w *world) (httpstream.Dialer, error) {
		r, err := http.NewRequest("GET", w.node.URL+"/portForward/shop/web/u1", nil) //nolint:noctx // only to parse it
		if err != nil {
			return nil, err
		}
		return portforward.NewSPDYOverWebsocketDialerForStreaming(r.URL, &rest.Config{})
	},
}

func TestPortForward(t *testing.T) {
	for name, dialer := range forwards {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.port = answering
			d := check.Value(dialer(w))(t)
			conn, protocol, err := d.Dial("portforward.k8s.io")
			if err != nil || protocol != "portforward.k8s.io" {
				t.Fatal(protocol, err)
			}
			var all sync.WaitGroup
			for i := range 50 {
				all.Go(func() {
					if err := roundTrip(conn, i, 8000+i); err != nil {
						t.Errorf("connection %d: %v", i, err)
					}
				})
			}
			all.Wait()
			if err := roundTrip(conn, 100, 9); err == nil || !strings.Contains(err.Error(), "connection refused") {
				t.Errorf("a port where nobody listens: %v", err)
			}
			conn.Close()
			w.awaitEnd(t)
		})
	}
}

// roundTrip opens one connection to a port and has something sent back.
func roundTrip(conn httpstream.Connection, id, port int) error {
	header := http.Header{}
	header.Set("port", fmt.Sprint(port))
	header.Set("requestID", fmt.Sprint(id))
	header.Set("streamType", "error")
	failed, err := conn.CreateStream(header)
	if err != nil {
		return err
	}
	failed.Close() // nothing is written to it
	header.Set("streamType", "data")
	data, err := conn.CreateStream(header)
	if err != nil {
		return err
	}
	defer conn.RemoveStreams(failed, data)
	sent := bytes.Repeat([]byte{byte(id)}, 300<<10)
	go func() {
		data.Write(sent) //nolint:errcheck // what comes back shows it
		data.Close()
	}()
	got, err := io.ReadAll(data)
	if err != nil {
		return err
	}
	if why, err := io.ReadAll(failed); err != nil || len(why) > 0 {
		return fmt.Errorf("%s %w", why, err)
	}
	if want := append(fmt.Appendf(nil, "port %d\n", port), sent...); !bytes.Equal(got, want) {
		return fmt.Errorf("%d bytes came back, want %d", len(got), len(want))
	}
	return nil
}

// TestWebSocketsAreCounted: those that are translated or tunneled are, and those that the runtime speaks are not.
func TestWebSocketsAreCounted(t *testing.T) {
	told := make(chan string, 10)
	w := newWorld(t, func(c *streams.Config) { c.WebSocket = func(subresource string) { told <- subresource } })
	w.port = answering
	for name, open := range protocols {
		for _, path := range []string{"/exec/shop/web/app?output=1&command=exit&command=0", "/attach/shop/web/nobody?output=1"} {
			e := check.Value(open(&rest.Config{}, "http://"+w.relay.Addr().String()+path))(t)
			err := e.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: io.Discard})
			check.Equal(t, err == nil, strings.HasPrefix(path, "/exec"), "%s by %s", path, name)
		}
	}
	for name, dialer := range forwards {
		conn, _, err := check.Value(dialer(w))(t).Dial("portforward.k8s.io")
		if err != nil {
			t.Fatal(name, err)
		}
		conn.Close()
	}
	check.Equal(t, <-told, "exec", "the first WebSocket")
	check.Equal(t, <-told, "portforward", "the second one")
	check.Equal(t, len(told), 0, "others")
}
