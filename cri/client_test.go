package cri

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/actors/decide/containerplan"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/cri/labels"
	"github.com/troupe-dev/troupe/tests/check"
)

func hang(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestDialTellsWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	missing := filepath.Join(dir, "missing.sock")

	dead := filepath.Join(dir, "dead.sock")
	listener := check.Value(net.ListenUnix("unix", &net.UnixAddr{Name: dead, Net: "unix"}))(t)
	listener.SetUnlinkOnClose(false)
	check.Fatal(t, listener.Close())

	silent := filepath.Join(dir, "silent.sock")
	serve(t, &fakeRuntime{version: hang}, silent)

	other := filepath.Join(dir, "other.sock")
	noCRI := check.Value(net.Listen("unix", other))(t)
	server := grpc.NewServer()
	go func() { _ = server.Serve(noCRI) }()
	defer server.Stop()

	for socket, want := range map[string]string{
		missing: "the socket does not exist; start containerd or set --container-runtime-endpoint",
		dead:    "the socket exists, but no process listens; start containerd or set --container-runtime-endpoint",
		other:   "the server at this socket does not serve the CRI v1 API; enable its CRI plugin",
		silent:  "deadline exceeded: no answer in time",
	} {
		config := testConfig(socket)
		config.RequestTimeout = 200 * time.Millisecond
		if socket == other {
			config.RequestTimeout = patience
		}
		_, err := Dial(t.Context(), config)
		if want = "no container runtime answers at unix://" + socket + ": " + want; err == nil || err.Error() != want {
			t.Errorf("\n got %v\nwant %s", err, want)
		}
	}
}

func TestCallEndsAtItsDeadline(t *testing.T) {
	f := &fakeRuntime{run: func(ctx context.Context, _ *runtimeapi.RunPodSandboxRequest) (string, error) { return "", hang(ctx) }}
	c := dial(t, f, func(c *Config) { c.RequestTimeout = 100 * time.Millisecond })
	_, err := await(t, func(done func(string, error)) {
		c.RunPodSandbox(t.Context(), port.RunPodSandbox{Pod: testPod()}, done)
	})
	wantKind(t, err, port.Deadline)
}

// TestPanicIsAnError has the translation of a pod's spec panic.
func TestPanicIsAnError(t *testing.T) {
	c := dial(t, &fakeRuntime{}, nil)
	_, err := await(t, func(done func(string, error)) {
		run(c, t.Context(), call{method: "RunPodSandbox", object: "default/web", limit: patience},
			func(context.Context) (string, error) { panic("no such thing") }, done)
	})
	wantKind(t, err, port.Panic)
	if want := "panic: no such thing (client_test.go:"; !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
}

func TestCallEndsWithItsCaller(t *testing.T) {
	entered := make(chan struct{})
	f := &fakeRuntime{run: func(ctx context.Context, _ *runtimeapi.RunPodSandboxRequest) (string, error) {
		close(entered)
		return "", hang(ctx)
	}}
	c := dial(t, f, nil)
	ctx, cancel := context.WithCancel(t.Context())
	answer := begin(func(done func(string, error)) { c.RunPodSandbox(ctx, port.RunPodSandbox{Pod: testPod()}, done) })
	check.Receive(t, entered)
	cancel()
	wantKind(t, check.Receive(t, answer).err, port.Canceled)
}

func TestCloseEndsCallsInFlight(t *testing.T) {
	entered := make(chan struct{}, 3)
	f := &fakeRuntime{run: func(ctx context.Context, _ *runtimeapi.RunPodSandboxRequest) (string, error) {
		entered <- struct{}{}
		return "", hang(ctx)
	}}
	c := dial(t, f, nil)
	var answers []<-chan result[string]
	for range cap(entered) {
		answers = append(answers, begin(func(done func(string, error)) {
			c.RunPodSandbox(t.Context(), port.RunPodSandbox{Pod: testPod()}, done)
		}))
		check.Receive(t, entered)
	}
	c.Close()
	for _, a := range answers {
		select {
		case r := <-a:
			wantKind(t, r.err, port.Canceled)
		default:
			t.Error("Close came back before a call was done")
		}
	}
	_, err := await(t, func(done func(port.RuntimeVersion, error)) { c.Version(t.Context(), done) })
	wantKind(t, err, port.Canceled)
}

func TestRuntimeRestart(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "cri.sock")
	entered := make(chan struct{})
	stop := serve(t, &fakeRuntime{run: func(ctx context.Context, _ *runtimeapi.RunPodSandboxRequest) (string, error) {
		close(entered)
		return "", hang(ctx)
	}}, socket)
	c := connect(t, socket, nil)
	inFlight := begin(func(done func(string, error)) {
		c.RunPodSandbox(t.Context(), port.RunPodSandbox{Pod: testPod()}, done)
	})
	check.Receive(t, entered)
	c.noStreams.Store(true)

	stop()
	wantKind(t, check.Receive(t, inFlight).err, port.Unavailable)
	if c.noStreams.Load() {
		t.Error("what the old runtime lacked is held against the new one")
	}
	start := time.Now()
	_, err := await(t, func(done func(port.RuntimeVersion, error)) { c.Version(t.Context(), done) })
	wantKind(t, err, port.Unavailable)
	if took := time.Since(start); took > time.Second {
		t.Errorf("it took %s to see that nobody is there", took)
	}

	serve(t, &fakeRuntime{}, socket)
	start = time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for conn := c.conns[0]; ; {
		state := conn.GetState()
		if state == connectivity.Ready {
			break
		}
		conn.Connect()
		if !conn.WaitForStateChange(ctx, state) {
			t.Fatal("not connected again")
		}
	}
	check.AtMost(t, time.Since(start), 3*time.Second, "connected again only after")
	if _, err := await(t, func(done func(port.RuntimeVersion, error)) { c.Version(t.Context(), done) }); err != nil {
		t.Error(err)
	}
}

func labelled(uid, container string) map[string]string {
	l := map[string]string{labels.PodUID: uid, labels.PodName: "pod-" + uid, labels.PodNamespace: "default"}
	if container != "" {
		l[labels.ContainerName] = container
	}
	return l
}

// bigList gives sandboxes of about 64 KiB each.
func bigList(n int) []*runtimeapi.PodSandbox {
	annotations := map[string]string{"note": strings.Repeat("x", 64<<10)}
	var out []*runtimeapi.PodSandbox
	for i := range n {
		out = append(out, &runtimeapi.PodSandbox{
			Id: fmt.Sprint("s", i), Labels: labelled(fmt.Sprintf("u%04d", i), ""), Annotations: annotations,
		})
	}
	return out
}

func TestList(t *testing.T) {
	containers := func(*runtimeapi.ContainerFilter) []*runtimeapi.Container {
		return []*runtimeapi.Container{{Id: "c", PodSandboxId: "s0", Labels: labelled("u0000", "app")}}
	}
	list := func(t *testing.T, c *Client) (observed.Runtime, error) {
		return await(t, func(done func(observed.Runtime, error)) { c.List(t.Context(), "", done) })
	}
	for _, streams := range []bool{false, true} {
		t.Run(fmt.Sprintf("20 MiB, streams=%v", streams), func(t *testing.T) {
			f := &fakeRuntime{
				streams:    streams,
				containers: containers,
				sandboxes:  func() ([]*runtimeapi.PodSandbox, error) { return bigList(320), nil },
			}
			c := dial(t, f, nil)
			for range 2 {
				got := check.Value(list(t, c))(t)
				if len(got.Pods) != 320 || len(got.Pods[0].Containers) != 1 {
					t.Fatalf("%d pods", len(got.Pods))
				}
			}
			want := map[string]int{"StreamPodSandboxes": 2, "StreamContainers": 2}
			if !streams { // asked for once, and then not again
				want = map[string]int{"StreamPodSandboxes": 1, "ListPodSandbox": 2, "ListContainers": 2}
			}
			for method, n := range want {
				if got := f.counted(method); got != n {
					t.Errorf("%d × %s, want %d", got, method, n)
				}
			}
		})
	}
	t.Run("too large", func(t *testing.T) {
		f := &fakeRuntime{sandboxes: func() ([]*runtimeapi.PodSandbox, error) { return bigList(20), nil }}
		c := dial(t, f, func(c *Config) { c.MaxMessageBytes = 1 << 20 })
		_, err := list(t, c)
		wantKind(t, err, port.Other)
	})
	t.Run("a stream that breaks gives nothing", func(t *testing.T) {
		f := &fakeRuntime{streams: true, sandboxes: func() ([]*runtimeapi.PodSandbox, error) {
			return bigList(3), status.Error(codes.Unavailable, "restarting")
		}}
		got, err := list(t, dial(t, f, nil))
		wantKind(t, err, port.Unavailable)
		check.Equal(t, len(got.Pods), 0, "half a list came through")
	})
}

func TestContainerStatus(t *testing.T) {
	f := &fakeRuntime{
		status: func(id string) (*runtimeapi.ContainerStatus, error) {
			s := &runtimeapi.ContainerStatus{Id: id, Labels: labelled("u1", "app")}
			if id == "foreign" {
				s.Labels = nil
			}
			return s, nil
		},
	}
	c := dial(t, f, nil)
	got, err := await(t, func(done func(observed.Container, error)) { c.ContainerStatus(t.Context(), "c1", done) })
	if err != nil || got.Name != "app" || !got.Detailed {
		t.Errorf("%+v, %v", got, err)
	}
	_, err = await(t, func(done func(observed.Container, error)) { c.ContainerStatus(t.Context(), "foreign", done) })
	wantKind(t, err, port.NotFound)
}

func TestStopContainer(t *testing.T) {
	var seconds int64
	f := &fakeRuntime{stop: func(r *runtimeapi.StopContainerRequest) error {
		seconds = r.GetTimeout()
		if r.GetContainerId() == "gone" {
			return status.Error(codes.NotFound, "not found")
		}
		return nil
	}}
	c := dial(t, f, nil)
	for grace, want := range map[time.Duration]int64{0: 0, time.Second: 1, 1200 * time.Millisecond: 2} {
		if err := await0(t, func(done func(error)) { c.StopContainer(t.Context(), "c", grace, done) }); err != nil || seconds != want {
			t.Errorf("grace %s: %d s, %v", grace, seconds, err)
		}
	}
	if err := await0(t, func(done func(error)) { c.StopContainer(t.Context(), "gone", 0, done) }); err != nil {
		t.Errorf("to stop what is gone: %v", err)
	}
}

func TestExecSyncKeepsTheHeadOfLongOutput(t *testing.T) {
	f := &fakeRuntime{exec: func(r *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error) {
		return &runtimeapi.ExecSyncResponse{ExitCode: 3, Stdout: bytes.Repeat([]byte("o"), 1<<20), Stderr: []byte(fmt.Sprint(r.GetTimeout()))}, nil
	}}
	c := dial(t, f, nil)
	got, err := await(t, func(done func(port.ExecResult, error)) {
		c.ExecSync(t.Context(), "c", port.Words("x"), 1500*time.Millisecond, done)
	})
	if err != nil || got.ExitCode != 3 || len(got.Stdout) != maxExecOutput || string(got.Stderr) != "2" {
		t.Errorf("code %d, %d bytes, %q, %v", got.ExitCode, len(got.Stdout), got.Stderr, err)
	}
}

// TestRunKeepsAll: who runs a command by the node's API gets all of its output.
func TestRunKeepsAll(t *testing.T) {
	const long = 1 << 20
	c := dial(t, &fakeRuntime{exec: func(*runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error) {
		return &runtimeapi.ExecSyncResponse{Stdout: make([]byte, long), Stderr: make([]byte, long)}, nil
	}}, nil)
	got, err := await(t, func(done func(port.ExecResult, error)) { c.Run(t.Context(), "c", port.Words("x"), done) })
	check.Fatal(t, err)
	check.Equal(t, len(got.Stdout), long, "bytes of stdout")
	check.Equal(t, len(got.Stderr), long, "bytes of stderr")
}

// TestExecAnswersComeOneByOne: an answer that is not received yet takes little memory, however long it is.
func TestExecAnswersComeOneByOne(t *testing.T) {
	const calls, long = 8, 8 << 20
	var answered, received atomic.Int64
	f := &fakeRuntime{exec: func(*runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error) {
		answered.Add(1)
		return &runtimeapi.ExecSyncResponse{Stdout: make([]byte, long)}, nil
	}}
	c := dial(t, f, func(c *Config) {
		c.Dial = []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, path string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
			return &countingConn{conn, &received}, err
		})}
	})
	c.execAnswers.wait("another") // one is being received
	done := make(chan error, calls)
	for range calls {
		c.ExecSync(t.Context(), "c", port.Words("x"), time.Minute, func(r port.ExecResult, err error) {
			if err == nil && len(r.Stdout) != maxExecOutput {
				err = fmt.Errorf("%d bytes", len(r.Stdout))
			}
			done <- err
		})
	}
	check.Until(t, "all have begun to answer", func() bool { return received.Load() >= calls*streamWindow })
	check.Equal(t, answered.Load(), calls, "answers")
	check.AtMost(t, received.Load(), 2*calls*streamWindow, "bytes of answers that wait")
	check.Equal(t, len(done), 0, "answers that did not wait")
	c.execAnswers.give()
	for range calls {
		check.Error(t, check.Receive(t, done))
	}
}

// TestExecSyncWithoutATurn: a command whose answer has no turn until its deadline has ended by that: a probe has failed.
func TestExecSyncWithoutATurn(t *testing.T) {
	answers := make(chan struct{})
	f := &fakeRuntime{begins: true, exec: func(*runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error) {
		<-answers
		return &runtimeapi.ExecSyncResponse{}, nil
	}}
	c := dial(t, f, nil)
	t.Cleanup(func() { close(answers) })
	c.execAnswers.wait("another") // one is being received
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := await(t, func(done func(port.ExecResult, error)) { c.ExecSync(ctx, "c", port.Words("x"), time.Minute, done) })
	wantKind(t, err, port.Deadline)
}

// TestAnswersThatBeginEarly: a runtime sends the header of an answer long before the answer. Commands that hang hold up
// no other one. A runtime that takes its place is a new one.
func TestAnswersThatBeginEarly(t *testing.T) {
	release := make(chan struct{})
	f := &fakeRuntime{begins: true, exec: func(r *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error) {
		if r.GetContainerId() == "hangs" {
			<-release
		}
		return &runtimeapi.ExecSyncResponse{ExitCode: 7}, nil
	}}
	socket := filepath.Join(t.TempDir(), "cri.sock")
	stop := serve(t, f, socket)
	c := connect(t, socket, nil)
	c.answerPatience = time.Millisecond
	const calls = 4
	done := make(chan error, calls)
	for range calls {
		c.ExecSync(t.Context(), "hangs", port.Words("x"), time.Minute, func(_ port.ExecResult, err error) { done <- err })
	}
	check.Until(t, "one has the turn", func() bool { return c.execAnswers.number() == answersAtOnce })
	r, err := await(t, func(done func(port.ExecResult, error)) {
		c.ExecSync(t.Context(), "c", port.Words("x"), time.Minute, done)
	})
	check.Error(t, err)
	check.Equal(t, r.ExitCode, 7, "the exit code")
	close(release)
	for range calls {
		check.Error(t, check.Receive(t, done))
	}
	check.Equal(t, c.headersFirst.Load(), true, "answers are received at once")
	stop()
	_, err = await(t, func(done func(port.RuntimeVersion, error)) { c.Version(t.Context(), done) })
	wantKind(t, err, port.Unavailable)
	check.Equal(t, c.headersFirst.Load(), false, "answers are received at once, of another runtime")
}

// countingConn counts what is read.
type countingConn struct {
	net.Conn
	received *atomic.Int64
}

func (c *countingConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.received.Add(int64(n))
	return n, err
}

// TestLongCommands: a few of those are under way at once, also if they hang, and what has no turn says nothing of its
// container.
func TestLongCommands(t *testing.T) {
	release := make(chan struct{})
	var under, most atomic.Int64
	f := &fakeRuntime{exec: func(*runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error) {
		<-release
		under.Add(-1)
		return &runtimeapi.ExecSyncResponse{}, nil
	}}
	c := dial(t, f, nil)
	long := func(room int) ([]string, error) {
		if room < containerplan.MaxExpanded {
			return nil, containerplan.ErrTooLong
		}
		most.Store(max(most.Load(), under.Add(1)))
		return []string{"x"}, nil
	}
	const calls = 6
	done := make(chan error, calls)
	for range calls {
		c.ExecSync(t.Context(), "c", long, time.Minute, func(_ port.ExecResult, err error) { done <- err })
	}
	check.Until(t, "two are under way", func() bool { return under.Load() == longCommandsAtOnce })
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := await(t, func(done func(port.ExecResult, error)) { c.ExecSync(ended, "c", long, time.Minute, done) })
	check.Equal(t, port.KindOf(err), port.Other, "one without a turn: %v", err)
	_, err = await(t, func(done func(port.ExecResult, error)) {
		c.ExecSync(t.Context(), "c", func(int) ([]string, error) { return nil, errors.New("never") }, time.Minute, done)
	})
	check.Equal(t, port.KindOf(err), port.InvalidConfig, "one that can't be made: %v", err)
	for range calls {
		release <- struct{}{}
		check.Error(t, check.Receive(t, done))
	}
	check.Equal(t, most.Load(), longCommandsAtOnce, "the most at once")
}

// TestLongCommandsAreMadeOneByOne: more run than are being made.
func TestLongCommandsAreMadeOneByOne(t *testing.T) {
	var made, making, most atomic.Int64
	f := &fakeRuntime{exec: func(*runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error) {
		return &runtimeapi.ExecSyncResponse{}, nil
	}}
	c := dial(t, f, nil)
	long := func(room int) ([]string, error) {
		if room < containerplan.MaxExpanded {
			return nil, containerplan.ErrTooLong
		}
		defer making.Add(-1)
		most.Store(max(most.Load(), making.Add(1)))
		for range 100 {
			runtime.Gosched()
		}
		made.Add(1)
		return []string{strings.Repeat("x", 1<<20)}, nil
	}
	const calls = 20
	done := make(chan error, calls)
	for range calls {
		c.ExecSync(t.Context(), "c", long, time.Minute, func(_ port.ExecResult, err error) { done <- err })
	}
	for range calls {
		check.Error(t, check.Receive(t, done))
	}
	check.Equal(t, made.Load(), calls, "how many were made")
	check.Equal(t, most.Load(), sendingAtOnce, "the most at once")
}

// TestExecSyncHasALimit: the output of a pod's command may not be as long as other answers.
func TestExecSyncHasALimit(t *testing.T) {
	f := &fakeRuntime{exec: func(*runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error) {
		return &runtimeapi.ExecSyncResponse{Stdout: make([]byte, maxExecAnswer)}, nil
	}}
	c := dial(t, f, nil)
	_, err := await(t, func(done func(port.ExecResult, error)) {
		c.ExecSync(t.Context(), "c", port.Words("x"), time.Minute, done)
	})
	check.Says(t, err, "larger than max", "an answer of more than 16 MiB")
}

func TestLogDirectoriesAreMadeFirst(t *testing.T) {
	var mu sync.Mutex
	var made []string
	f := &fakeRuntime{
		run:    func(context.Context, *runtimeapi.RunPodSandboxRequest) (string, error) { return "s", nil },
		create: func(*runtimeapi.CreateContainerRequest) (string, error) { return "c", nil },
	}
	c := dial(t, f, func(c *Config) {
		c.MakeDirectory = func(path string) error {
			mu.Lock()
			defer mu.Unlock()
			made = append(made, path)
			if strings.HasSuffix(path, "/full") {
				return &os.PathError{Op: "mkdir", Path: path, Err: errors.New("no space left on device")}
			}
			return nil
		}
	})
	pod := testPod()
	check.Value(
		await(t, func(done func(string, error)) { c.RunPodSandbox(t.Context(), port.RunPodSandbox{Pod: pod}, done) }))(t)
	create := port.CreateContainer{Pod: pod, Container: &pod.Spec.Containers[0]}
	check.Value(await(t, func(done func(string, error)) { c.CreateContainer(t.Context(), create, done) }))(t)
	check.Same(t, made, []string{"/var/log/pods/default_web_u1", "/var/log/pods/default_web_u1/app"}, "made")
	full := *pod.Spec.Containers[0].DeepCopy()
	full.Name = "full"
	create.Container = &full
	_, err := await(t, func(done func(string, error)) { c.CreateContainer(t.Context(), create, done) })
	if want := "CreateContainer default/web/full: mkdir /var/log/pods/default_web_u1/full: no space left on device"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestObserverSeesEachCall(t *testing.T) {
	seen := make(chan Call, 8)
	f := &fakeRuntime{stop: func(*runtimeapi.StopContainerRequest) error { return status.Error(codes.Unknown, "failed to kill") }}
	c := dial(t, f, func(c *Config) { c.Observe = func(k Call) { seen <- k } })
	if k := check.Receive(t, seen); k.Method != "Version" || k.Err != nil || k.Start.IsZero() {
		t.Errorf("%+v", k)
	}
	_ = await0(t, func(done func(error)) { c.StopContainer(t.Context(), anID, 0, done) })
	k := check.Receive(t, seen)
	kind, failed := k.Kind()
	if k.Method != "StopContainer" || k.Object != anID || kind != port.Other || !failed || k.Duration <= 0 {
		t.Errorf("%+v", k)
	}
}
