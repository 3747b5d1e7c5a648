package streams_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"sync"
	"testing"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-streaming/pkg/streaming"
	crirc "k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"

	"github.com/troupe-dev/troupe/actors/decide/containerplan"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/serve/streams"
	"github.com/troupe-dev/troupe/tests/check"
)

// A stream that is being opened when its connection ends is waited for, for at most 30 s, and a
// connection that could not be closed is kept for a second. The client of these tests pings a WebSocket
// for ever if its connection ends while it begins to.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/moby/spdystream.(*Stream).WaitTimeout"),
		goleak.IgnoreTopFunction("github.com/moby/spdystream.(*Connection).shutdown"),
		goleak.IgnoreTopFunction("k8s.io/client-go/tools/remotecommand.(*heartbeat).start"))
}

// program is what a stream's other end does in a test, until ctx ends with the stream.
type program func(in io.Reader, out, errs io.Writer, resize <-chan crirc.TerminalSize, args []string) error

// runtime has the programs as commands of its containers, and serves streams as runtimes do.
type fakeRuntime struct {
	pods      map[string]observed.Pod // by UID
	streaming streaming.Server
	programs  map[string]program
	// port takes a connection to a port of a sandbox.
	port func(int32, io.ReadWriteCloser) error
	// asked are the streams that were asked for.
	asked []string
	// url, if set, is given instead of the streaming server's.
	url string
	err error
}

func (f *fakeRuntime) List(_ context.Context, uid string, done func(observed.Runtime, error)) {
	done(observed.Runtime{Pods: []observed.RuntimePod{{Ref: observed.PodRef{UID: types.UID(uid)}, Pod: f.pods[uid]}}}, f.err)
}

func (f *fakeRuntime) Run(ctx context.Context, id string, words port.Command, done func(port.ExecResult, error)) {
	command, _ := words(containerplan.MaxExpanded)
	switch command[0] {
	case "hang":
		context.AfterFunc(ctx, func() { done(port.ExecResult{}, &port.Error{Kind: port.Canceled, Verb: "ExecSync"}) })
	case "nothing":
		done(port.ExecResult{}, nil)
	case "fail":
		done(port.ExecResult{ExitCode: 3, Stderr: []byte("no")}, nil)
	default:
		done(port.ExecResult{Stdout: fmt.Appendf(nil, "%s %q\n", id, command), Stderr: []byte("warning\n")}, nil)
	}
}

func (f *fakeRuntime) Exec(_ context.Context, r port.ExecStream, done func(string, error)) {
	f.asked = append(f.asked, fmt.Sprintf("exec %s %q %+v", r.ContainerID, r.Command, r.StreamOptions))
	answer, err := f.streaming.GetExec(&runtimeapi.ExecRequest{
		ContainerId: r.ContainerID, Cmd: r.Command, Tty: r.TTY, Stdin: r.Stdin, Stdout: r.Stdout, Stderr: r.Stderr,
	})
	f.give(answer.GetUrl(), err, done)
}

func (f *fakeRuntime) Attach(_ context.Context, r port.AttachStream, done func(string, error)) {
	f.asked = append(f.asked, fmt.Sprintf("attach %s %+v", r.ContainerID, r.StreamOptions))
	answer, err := f.streaming.GetAttach(&runtimeapi.AttachRequest{
		ContainerId: r.ContainerID, Tty: r.TTY, Stdin: r.Stdin, Stdout: r.Stdout, Stderr: r.Stderr,
	})
	f.give(answer.GetUrl(), err, done)
}

func (f *fakeRuntime) PortForward(_ context.Context, r port.PortForwardStream, done func(string, error)) {
	f.asked = append(f.asked, fmt.Sprintf("forward %s %v", r.SandboxID, r.Ports))
	answer, err := f.streaming.GetPortForward(&runtimeapi.PortForwardRequest{PodSandboxId: r.SandboxID, Port: r.Ports})
	f.give(answer.GetUrl(), err, done)
}

func (f *fakeRuntime) give(url string, err error, done func(string, error)) {
	if f.url != "" {
		url = f.url
	}
	done(url, errors.Join(err, f.err))
}

// inside is the far side of the streaming server.
type inside struct{ f *fakeRuntime }

func (i inside) Exec(_ context.Context, _ string, cmd []string, in io.Reader, out, errs io.WriteCloser, _ bool, resize <-chan crirc.TerminalSize) error {
	p, ok := i.f.programs[cmd[0]]
	if !ok {
		return fmt.Errorf("exec failed: %q: executable file not found", cmd[0])
	}
	err := p(in, out, errs, resize, cmd[1:])
	for _, w := range []io.Closer{out, errs} {
		if w != (io.WriteCloser)(nil) {
			w.Close()
		}
	}
	return err
}

func (i inside) Attach(ctx context.Context, id string, in io.Reader, out, errs io.WriteCloser, tty bool, resize <-chan crirc.TerminalSize) error {
	return i.Exec(ctx, id, []string{"echo"}, in, out, errs, tty, resize)
}

func (i inside) PortForward(_ context.Context, _ string, port int32, stream io.ReadWriteCloser) error {
	return i.f.port(port, stream)
}

func echo(in io.Reader, out, _ io.Writer, _ <-chan crirc.TerminalSize, _ []string) error {
	_, err := io.Copy(out, in)
	return err
}

func exit(_ io.Reader, out, errs io.Writer, _ <-chan crirc.TerminalSize, args []string) error {
	fmt.Fprintln(out, "to stdout")
	if errs != nil {
		fmt.Fprintln(errs, "to stderr")
	}
	code, err := strconv.Atoi(args[0])
	if err != nil || code == 0 {
		return err
	}
	return utilexec.CodeExitError{Err: fmt.Errorf("exited with %d", code), Code: code}
}

// sizes prints the sizes of its terminal.
func sizes(_ io.Reader, out, _ io.Writer, resize <-chan crirc.TerminalSize, _ []string) error {
	for s := range resize {
		fmt.Fprintf(out, "%dx%d\n", s.Width, s.Height)
		if s.Width == 1 {
			break
		}
	}
	return nil
}

// world is a node's handlers behind a server.
type world struct {
	*fakeRuntime
	node *httptest.Server
	s    *streams.Streams
	pods []*v1.Pod
	// ended has the path of each request that was answered to its end.
	ended chan string
	// closed and left have the connections whose half the runtime and the node have closed.
	closed, left chan net.Conn

	// relay is before the node: a client's connections go through it, and can be cut.
	relay net.Listener
	mu    sync.Mutex
	conns []net.Conn
}

const relayBuffer = 64 << 10

// carry makes the relay.
func (w *world) carry(t *testing.T) {
	t.Helper()
	w.relay = check.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	var all sync.WaitGroup
	// A half that ends leaves the other one.
	copied := func(to, from net.Conn) {
		io.Copy(to, from)              //nolint:errcheck // it is cut
		to.(*net.TCPConn).CloseWrite() //nolint:errcheck // see above
		io.Copy(io.Discard, from)      //nolint:errcheck // see above
	}
	all.Go(func() {
		for {
			client, err := w.relay.Accept()
			if err != nil {
				return
			}
			node, err := net.Dial("tcp", w.node.Listener.Addr().String())
			if err != nil {
				client.Close()
				continue
			}
			for _, c := range []net.Conn{client, node} { // the kernel's own choice may be many MiB
				if err := errors.Join(c.(*net.TCPConn).SetReadBuffer(relayBuffer), c.(*net.TCPConn).SetWriteBuffer(relayBuffer)); err != nil {
					t.Error(err)
				}
			}
			w.mu.Lock()
			w.conns = append(w.conns, client, node)
			w.mu.Unlock()
			all.Go(func() {
				var up sync.WaitGroup
				up.Go(func() { copied(node, client) })
				copied(client, node)
				up.Wait()
				client.Close()
				node.Close()
			})
		}
	})
	t.Cleanup(func() {
		w.relay.Close()
		w.cut()
		all.Wait()
	})
}

// cut ends all clients' connections, without a word.
func (w *world) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conns {
		c.Close()
	}
}

func web(uid string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: types.UID(uid)},
		Spec: v1.PodSpec{
			Containers:     []v1.Container{{Name: "app"}, {Name: "shell", TTY: true}},
			InitContainers: []v1.Container{{Name: "init"}},
			EphemeralContainers: []v1.EphemeralContainer{
				{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debug", TTY: true}},
			},
		},
	}
}

// newWorld is a node with one pod, of which all but the init container run.
func newWorld(t *testing.T, change ...func(*streams.Config)) *world {
	t.Helper()
	w := &world{ended: make(chan string, 1000), closed: make(chan net.Conn, 1000), left: make(chan net.Conn, 1000), pods: []*v1.Pod{web("u1")}, fakeRuntime: &fakeRuntime{
		programs: map[string]program{"echo": echo, "exit": exit, "sizes": sizes},
		pods: map[string]observed.Pod{"u1": {
			Sandboxes: []observed.Sandbox{{ID: "sandbox-1", State: observed.SandboxReady}},
			Containers: []observed.Container{
				{ID: "app-2", Name: "app", State: observed.ContainerRunning}, {ID: "app-1", Name: "app", State: observed.ContainerExited},
				{ID: "debug-1", Name: "debug", State: observed.ContainerRunning},
				{ID: "init-1", Name: "init", State: observed.ContainerExited},
				{ID: "shell-1", Name: "shell", State: observed.ContainerRunning},
			},
		}},
	}}
	below := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { w.streaming.ServeHTTP(rw, r) }))
	below.Listener = noting{below.Listener, w.closed}
	config := streaming.DefaultConfig
	config.BaseURL = &url.URL{Scheme: "http", Host: below.Listener.Addr().String(), Path: "/"}
	w.streaming = check.Value(streaming.NewServer(config, inside{w.fakeRuntime}))(t)
	below.Start()
	t.Cleanup(below.Close)
	c := streams.Config{
		Runtime: w.fakeRuntime, WebSocket: func(string) {}, Log: zerolog.New(check.Log(t)),
		Pods: func(_ context.Context, namespace, name string) ([]*v1.Pod, error) {
			if namespace != "shop" || name != "web" {
				return nil, nil
			}
			return w.pods, nil
		},
	}
	for _, f := range change {
		f(&c)
	}
	w.s = check.Value(streams.New(c))(t)
	mux := http.NewServeMux()
	for _, r := range w.s.Routes() {
		for _, m := range r.Methods {
			mux.HandleFunc(m+" "+r.Path, func(rw http.ResponseWriter, req *http.Request) {
				defer func() { w.ended <- req.URL.Path }()
				r.Handler.ServeHTTP(rw, req)
			})
		}
	}
	w.node = httptest.NewUnstartedServer(mux)
	w.node.Listener = noting{w.node.Listener, w.left}
	w.node.Start()
	t.Cleanup(w.node.Close)
	t.Cleanup(w.s.Close)
	w.carry(t)
	return w
}

// noting is a listener that notes the connections of which this side has closed its half.
type noting struct {
	net.Listener
	closed chan net.Conn
}

func (n noting) Accept() (net.Conn, error) {
	conn, err := n.Listener.Accept()
	return &notedConn{Conn: conn, closed: n.closed}, err
}

type notedConn struct {
	net.Conn
	once   sync.Once
	closed chan net.Conn
}

func (c *notedConn) note() { c.once.Do(func() { c.closed <- c }) }

func (c *notedConn) CloseWrite() error {
	defer c.note()
	return c.Conn.(*net.TCPConn).CloseWrite()
}

func (c *notedConn) Close() error {
	defer c.note()
	return c.Conn.Close()
}

// addSilent adds the program "silent", which says nothing and goes on until the test is over. It closes
// begun once it runs.
func (w *world) addSilent(t *testing.T) (begun <-chan struct{}) {
	started, release := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(release) })
	w.programs["silent"] = func(io.Reader, io.Writer, io.Writer, <-chan crirc.TerminalSize, []string) error {
		close(started)
		<-release
		return nil
	}
	return started
}

func (w *world) url(t *testing.T, path string) *url.URL {
	t.Helper()
	return check.Value(url.Parse(w.node.URL + path))(t)
}

// answering is a port that says who it is and gives back what it gets.
func answering(n int32, stream io.ReadWriteCloser) error {
	defer stream.Close()
	if n == 9 {
		return &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	}
	if _, err := fmt.Fprintf(stream, "port %d\n", n); err != nil {
		return err
	}
	_, err := io.Copy(stream, stream)
	return err
}

func failing(context.Context, string, string) ([]*v1.Pod, error) {
	return nil, errors.New("nobody answers")
}
