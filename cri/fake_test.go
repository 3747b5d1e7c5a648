package cri

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/cri/translate"
	"github.com/troupe-dev/troupe/tests/check"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds what a test waits for something that must happen.
const patience = 20 * time.Second

// fakeRuntime answers the calls that a test gives it, and no others. What the
// client makes of a stateful runtime is the contract suite's to show.
type fakeRuntime struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	runtimeapi.UnimplementedImageServiceServer

	version    func(context.Context) error
	run        func(context.Context, *runtimeapi.RunPodSandboxRequest) (string, error)
	create     func(*runtimeapi.CreateContainerRequest) (string, error)
	stop       func(*runtimeapi.StopContainerRequest) error
	status     func(id string) (*runtimeapi.ContainerStatus, error)
	exec       func(*runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error)
	begins     bool // the answer of exec begins before it is called
	sandboxes  func() ([]*runtimeapi.PodSandbox, error)
	containers func(*runtimeapi.ContainerFilter) []*runtimeapi.Container
	streams    bool // lists come as streams too
	events     func(runtimeapi.RuntimeService_GetContainerEventsServer) error
	pull       func(context.Context, *runtimeapi.PullImageRequest) (string, error)

	mu    sync.Mutex
	calls map[string]int
}

func (f *fakeRuntime) count(method string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.calls == nil {
		f.calls = map[string]int{}
	}
	f.calls[method]++
}

func (f *fakeRuntime) counted(method string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[method]
}

func (f *fakeRuntime) Version(ctx context.Context, _ *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	if f.version != nil {
		if err := f.version(ctx); err != nil {
			return nil, err
		}
	}
	return &runtimeapi.VersionResponse{RuntimeName: "fake", RuntimeVersion: "1", RuntimeApiVersion: "v1"}, nil
}

func (f *fakeRuntime) RunPodSandbox(ctx context.Context, r *runtimeapi.RunPodSandboxRequest) (*runtimeapi.RunPodSandboxResponse, error) {
	id, err := f.run(ctx, r)
	return &runtimeapi.RunPodSandboxResponse{PodSandboxId: id}, err
}

func (f *fakeRuntime) CreateContainer(_ context.Context, r *runtimeapi.CreateContainerRequest) (*runtimeapi.CreateContainerResponse, error) {
	id, err := f.create(r)
	return &runtimeapi.CreateContainerResponse{ContainerId: id}, err
}

func (f *fakeRuntime) StopContainer(_ context.Context, r *runtimeapi.StopContainerRequest) (*runtimeapi.StopContainerResponse, error) {
	return &runtimeapi.StopContainerResponse{}, f.stop(r)
}

func (f *fakeRuntime) ContainerStatus(_ context.Context, r *runtimeapi.ContainerStatusRequest) (*runtimeapi.ContainerStatusResponse, error) {
	s, err := f.status(r.GetContainerId())
	return &runtimeapi.ContainerStatusResponse{Status: s}, err
}

func (f *fakeRuntime) ExecSync(ctx context.Context, r *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error) {
	if f.begins {
		if err := grpc.SendHeader(ctx, nil); err != nil {
			return nil, err
		}
	}
	return f.exec(r)
}

func (f *fakeRuntime) ListPodSandbox(context.Context, *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error) {
	f.count("ListPodSandbox")
	items, err := f.sandboxes()
	return &runtimeapi.ListPodSandboxResponse{Items: items}, err
}

func (f *fakeRuntime) StreamPodSandboxes(r *runtimeapi.StreamPodSandboxesRequest, s runtimeapi.RuntimeService_StreamPodSandboxesServer) error {
	f.count("StreamPodSandboxes")
	if !f.streams {
		return f.UnimplementedRuntimeServiceServer.StreamPodSandboxes(r, s)
	}
	items, err := f.sandboxes()
	for _, i := range items {
		if err := s.Send(&runtimeapi.StreamPodSandboxesResponse{PodSandboxes: []*runtimeapi.PodSandbox{i}}); err != nil {
			return err
		}
	}
	return err
}

func (f *fakeRuntime) ListContainers(_ context.Context, r *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error) {
	f.count("ListContainers")
	return &runtimeapi.ListContainersResponse{Containers: f.containers(r.GetFilter())}, nil
}

func (f *fakeRuntime) StreamContainers(r *runtimeapi.StreamContainersRequest, s runtimeapi.RuntimeService_StreamContainersServer) error {
	f.count("StreamContainers")
	if !f.streams {
		return f.UnimplementedRuntimeServiceServer.StreamContainers(r, s)
	}
	return s.Send(&runtimeapi.StreamContainersResponse{Containers: f.containers(r.GetFilter())})
}

func (f *fakeRuntime) GetContainerEvents(r *runtimeapi.GetEventsRequest, s runtimeapi.RuntimeService_GetContainerEventsServer) error {
	if f.events == nil {
		return f.UnimplementedRuntimeServiceServer.GetContainerEvents(r, s)
	}
	return f.events(s)
}

func (f *fakeRuntime) PullImage(ctx context.Context, r *runtimeapi.PullImageRequest) (*runtimeapi.PullImageResponse, error) {
	ref, err := f.pull(ctx, r)
	return &runtimeapi.PullImageResponse{ImageRef: ref}, err
}

// serve serves f on socket until stop is called, which ends what is in flight.
func serve(t *testing.T, f *fakeRuntime, socket string) (stop func()) {
	t.Helper()
	listener := check.Value(net.Listen("unix", socket))(t)
	server := grpc.NewServer(grpc.MaxSendMsgSize(64 << 20))
	runtimeapi.RegisterRuntimeServiceServer(server, f)
	runtimeapi.RegisterImageServiceServer(server, f)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	stop = sync.OnceFunc(func() {
		server.Stop()
		if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Errorf("serve: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// dial serves f and connects to it.
func dial(t *testing.T, f *fakeRuntime, mutate func(*Config)) *Client {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "cri.sock")
	serve(t, f, socket)
	return connect(t, socket, mutate)
}

func connect(t *testing.T, socket string, mutate func(*Config)) *Client {
	t.Helper()
	config := testConfig(socket)
	if mutate != nil {
		mutate(&config)
	}
	c := check.Value(Dial(t.Context(), config))(t)
	t.Cleanup(c.Close)
	return c
}

func testConfig(socket string) Config {
	node := &translate.Node{PodLogs: "/var/log/pods"}
	return Config{
		Endpoint:      "unix://" + socket,
		Node:          func() *translate.Node { return node },
		MakeDirectory: func(string) error { return nil },
	}
}

type result[T any] struct {
	value T
	err   error
}

// await makes a call and waits until it is done.
func await[T any](t *testing.T, call func(done func(T, error))) (T, error) {
	t.Helper()
	r := check.Receive(t, begin(call))
	return r.value, r.err
}

// begin makes a call; a second done on it blocks, and is found as a leak.
func begin[T any](call func(done func(T, error))) <-chan result[T] {
	answer := make(chan result[T])
	first := make(chan result[T], 1)
	var once sync.Once
	call(func(v T, err error) {
		again := true
		once.Do(func() { again = false; first <- result[T]{v, err} })
		if again {
			answer <- result[T]{v, err}
		}
	})
	return first
}

func begin0(call func(done func(error))) <-chan result[struct{}] {
	return begin(func(done func(struct{}, error)) { call(func(err error) { done(struct{}{}, err) }) })
}

func await0(t *testing.T, call func(done func(error))) error {
	t.Helper()
	return check.Receive(t, begin0(call)).err
}

func wantKind(t *testing.T, err error, want port.ErrorKind) {
	t.Helper()
	if err == nil || port.KindOf(err) != want {
		t.Fatalf("error %v, want one of kind %q", err, want)
	}
}

func testPod() *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u1"},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "app", Image: "img:1"}}},
	}
}
