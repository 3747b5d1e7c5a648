package criproxy

import (
	"context"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/tests/check"
)

// runtime is a small stateful runtime: it numbers what it makes and remembers what it was asked.
type runtime struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	runtimeapi.UnimplementedImageServiceServer
	events chan *runtimeapi.ContainerEventResponse

	mu   sync.Mutex
	made []string
}

func (r *runtime) did(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.made = append(r.made, what)
}

func (r *runtime) has(what string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Contains(r.made, what)
}

func (r *runtime) RunPodSandbox(_ context.Context, in *runtimeapi.RunPodSandboxRequest) (*runtimeapi.RunPodSandboxResponse, error) {
	name := in.Config.Metadata.Name
	r.did("run " + name)
	return &runtimeapi.RunPodSandboxResponse{PodSandboxId: "sandbox-" + name}, nil
}

func (r *runtime) CreateContainer(_ context.Context, in *runtimeapi.CreateContainerRequest) (*runtimeapi.CreateContainerResponse, error) {
	r.did("create in " + in.PodSandboxId)
	return &runtimeapi.CreateContainerResponse{ContainerId: "container-of-" + in.PodSandboxId}, nil
}

func (r *runtime) StopContainer(_ context.Context, in *runtimeapi.StopContainerRequest) (*runtimeapi.StopContainerResponse, error) {
	r.did("stop " + in.ContainerId)
	return &runtimeapi.StopContainerResponse{}, nil
}

func (r *runtime) ContainerStatus(_ context.Context, in *runtimeapi.ContainerStatusRequest) (*runtimeapi.ContainerStatusResponse, error) {
	return nil, status.Errorf(codes.NotFound, "no container %s", in.ContainerId)
}

func (r *runtime) ListPodSandbox(context.Context, *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error) {
	return &runtimeapi.ListPodSandboxResponse{Items: []*runtimeapi.PodSandbox{
		{Id: "sandbox-old", Metadata: &runtimeapi.PodSandboxMetadata{Name: "old", Namespace: "default", Uid: "old-uid"}},
	}}, nil
}

func (r *runtime) ListContainers(context.Context, *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error) {
	return &runtimeapi.ListContainersResponse{Containers: []*runtimeapi.Container{
		{Id: "container-old", PodSandboxId: "sandbox-old", Metadata: &runtimeapi.ContainerMetadata{Name: "main"}},
	}}, nil
}

func (r *runtime) GetContainerEvents(_ *runtimeapi.GetEventsRequest, to runtimeapi.RuntimeService_GetContainerEventsServer) error {
	for {
		select {
		case e := <-r.events:
			if err := to.Send(e); err != nil {
				return err
			}
		case <-to.Context().Done():
			return to.Context().Err()
		}
	}
}

func (r *runtime) PullImage(_ context.Context, in *runtimeapi.PullImageRequest) (*runtimeapi.PullImageResponse, error) {
	r.did("pull " + in.Image.Image)
	return &runtimeapi.PullImageResponse{ImageRef: in.Image.Image}, nil
}

type setup struct {
	*runtime
	*Proxy
	client runtimeapi.RuntimeServiceClient
	images runtimeapi.ImageServiceClient
}

func start(t *testing.T, change ...func(*Config)) setup {
	t.Helper()
	dir := t.TempDir()
	target := filepath.Join(dir, "runtime.sock")
	listener := check.Value(net.Listen("unix", target))(t)
	r := &runtime{events: make(chan *runtimeapi.ContainerEventResponse, 1)}
	server := grpc.NewServer()
	runtimeapi.RegisterRuntimeServiceServer(server, r)
	runtimeapi.RegisterImageServiceServer(server, r)
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	config := Config{Socket: filepath.Join(dir, "proxy.sock"), Target: target}
	for _, c := range change {
		c(&config)
	}
	p := check.Value(Start(config))(t)
	conn := check.Value(grpc.NewClient(p.Endpoint(), grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	t.Cleanup(func() { conn.Close(); p.Close() })
	return setup{r, p, runtimeapi.NewRuntimeServiceClient(conn), runtimeapi.NewImageServiceClient(conn)}
}

func (s setup) inject(t *testing.T, f Fault) *Rule {
	t.Helper()
	return check.Value(s.Inject(f))(t)
}

func (s setup) runPod(ctx context.Context, name string) error {
	config := &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "default", Uid: name + "-uid"}}
	answer, err := s.client.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: config})
	if err != nil {
		return err
	}
	_, err = s.client.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{
		PodSandboxId: answer.PodSandboxId, SandboxConfig: config,
		Config: &runtimeapi.ContainerConfig{Metadata: &runtimeapi.ContainerMetadata{Name: "main"}},
	})
	return err
}

func (s setup) stop(ctx context.Context, id string) error {
	_, err := s.client.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: id})
	return err
}

func eventually(t *testing.T, what string, holds func() error) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(10 * time.Second); ; <-tick.C {
		err := holds()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: %v", what, err)
		}
	}
}

type notYet string

func (n notYet) Error() string { return string(n) }

func TestPassesThrough(t *testing.T) {
	s := start(t)
	check.Fatal(t, s.runPod(t.Context(), "web"))
	check.Value(
		s.images.PullImage(t.Context(), &runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: "web:v1"}}))(t)
	_, err := s.client.ContainerStatus(t.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: "none"})
	if status.Code(err) != codes.NotFound || status.Convert(err).Message() != "no container none" {
		t.Errorf("the runtime's error became: %v", err)
	}
	_, err = s.client.Version(t.Context(), &runtimeapi.VersionRequest{})
	check.Equal(t, status.Code(err), codes.Unimplemented, "what the runtime does not have: %v; want Unimplemented", err)
	calls := s.Calls()
	if calls["RunPodSandbox"] != 1 || calls["PullImage"] != 1 || calls["Version"] != 1 {
		t.Errorf("counted %v", calls)
	}
}

func TestStream(t *testing.T) {
	s := start(t)
	stream := check.Value(s.client.GetContainerEvents(t.Context(), &runtimeapi.GetEventsRequest{}))(t)
	for _, id := range []string{"a", "b"} {
		s.events <- &runtimeapi.ContainerEventResponse{ContainerId: id}
		if e, err := stream.Recv(); err != nil || e.ContainerId != id {
			t.Fatalf("event %v, %v; want %s", e, err, id)
		}
	}
}

// TestHold shows that one pod's call waits, found by an ID that the runtime gave out, that the
// other pod's goes through, and that the call is made when its caller is long gone.
func TestHold(t *testing.T) {
	s := start(t)
	for _, pod := range []string{"one-node", "two-node"} {
		check.Fatal(t, s.runPod(t.Context(), pod))
	}
	rule := s.inject(t, Fault{Method: "StopContainer", Match: OfPod("one"), Do: Hold})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := s.stop(ctx, "container-of-sandbox-one-node"); status.Code(err) != codes.DeadlineExceeded {
		t.Fatalf("a held call: %v; want it to hang", err)
	}
	check.Fatal(t, s.stop(t.Context(), "container-of-sandbox-two-node"))
	if rule.Waiting() != 1 || len(rule.Hits()) != 1 || rule.Hits()[0].PodUID != "one-node-uid" {
		t.Errorf("waiting %d, hits %+v", rule.Waiting(), rule.Hits())
	}
	if s.has("stop container-of-sandbox-one-node") {
		t.Error("the call was made while it was held")
	}
	rule.Release()
	check.Fatal(t, rule.Settle(t.Context()))
	if !s.has("stop container-of-sandbox-one-node") || rule.Waiting() != 0 {
		t.Error("the call was not made late")
	}
	if err := s.stop(t.Context(), "container-of-sandbox-one-node"); err != nil {
		t.Errorf("after the release: %v", err)
	}
}

// TestHoldAnswers shows that a caller that waited long enough gets its answer.
func TestHoldAnswers(t *testing.T) {
	for _, do := range []Action{Hold, Withhold} {
		t.Run(do.String(), func(t *testing.T) {
			s := start(t)
			rule := s.inject(t, Fault{Method: "RunPodSandbox", Match: OfPod("one"), Do: do})
			done := make(chan error, 1)
			go func() { done <- s.runPod(t.Context(), "one") }()
			eventually(t, "the call waits", func() error {
				if rule.Waiting() != 1 || s.has("run one") != (do == Withhold) {
					return notYet("it does not")
				}
				return nil
			})
			rule.Release()
			check.Fatal(t, <-done)
		})
	}
}

func TestDelay(t *testing.T) {
	s := start(t)
	const d = 150 * time.Millisecond
	s.inject(t, Fault{Method: "RunPodSandbox", Do: Delay, Delay: d, Times: 1})
	begin := time.Now()
	check.Fatal(t, s.runPod(t.Context(), "one"))
	if took := time.Since(begin); took < d {
		t.Errorf("took %s, less than the delay", took)
	}
	check.Fatal(t, s.runPod(t.Context(), "two"))
}

func TestRefuseAndLoseAnswer(t *testing.T) {
	for _, do := range []Action{Refuse, LoseAnswer} {
		t.Run(do.String(), func(t *testing.T) {
			s := start(t)
			s.inject(t, Fault{Method: "RunPodSandbox", Do: do, Code: codes.ResourceExhausted, Message: "full", Times: 2})
			for range 2 {
				err := s.runPod(t.Context(), "one")
				if status.Code(err) != codes.ResourceExhausted || status.Convert(err).Message() != "full" {
					t.Fatalf("got %v", err)
				}
			}
			check.Equal(t, s.has("run one"), (do == LoseAnswer), "made: %v", s.made)
			if err := s.runPod(t.Context(), "one"); err != nil {
				t.Errorf("the third time: %v", err)
			}
		})
	}
}

// TestLearnsFromLists shows that a pod that is older than the proxy is known by what a list said.
func TestLearnsFromLists(t *testing.T) {
	s := start(t)
	check.Value(s.client.ListPodSandbox(t.Context(), &runtimeapi.ListPodSandboxRequest{}))(t)
	check.Value(s.client.ListContainers(t.Context(), &runtimeapi.ListContainersRequest{}))(t)
	s.inject(t, Fault{Match: func(c Call) bool { return c.PodUID == "old-uid" && c.Container == "main" }, Do: Refuse})
	if err := s.stop(t.Context(), "container-old"); status.Code(err) != codes.Unavailable {
		t.Errorf("got %v; want it refused", err)
	}
	rule := s.inject(t, Fault{Method: "ListPodSandbox", Match: OfPod("old"), Do: Refuse})
	filter := &runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{labelPodUID: "old-uid"}}
	_, err := s.client.ListPodSandbox(t.Context(), &runtimeapi.ListPodSandboxRequest{Filter: filter})
	if len(rule.Hits()) != 1 || status.Code(err) != codes.Unavailable {
		t.Errorf("a list of one pod: %v, hits %v", err, rule.Hits())
	}
}

// TestStreamsUnderRules shows that a stream can be refused and held, and goes on after it.
func TestStreamsUnderRules(t *testing.T) {
	s := start(t)
	s.inject(t, Fault{Method: "GetContainerEvents", Do: Refuse, Code: codes.Unimplemented, Times: 1})
	stream, err := s.client.GetContainerEvents(t.Context(), &runtimeapi.GetEventsRequest{})
	if err == nil {
		_, err = stream.Recv()
	}
	check.Fatal(t, check.Is(status.Code(err), codes.Unimplemented, "got %v; want Unimplemented", err))
	rule := s.inject(t, Fault{Method: "GetContainerEvents", Do: Hold})
	stream = check.Value(s.client.GetContainerEvents(t.Context(), &runtimeapi.GetEventsRequest{}))(t)
	eventually(t, "the stream is held", func() error {
		if rule.Waiting() != 1 {
			return notYet("it is not")
		}
		return nil
	})
	rule.Release()
	s.events <- &runtimeapi.ContainerEventResponse{ContainerId: "a"}
	if e, err := stream.Recv(); err != nil || e.ContainerId != "a" {
		t.Fatalf("event %v, %v", e, err)
	}
}

// TestCloseWhileHeld shows that Close does not wait for what is held.
func TestCloseWhileHeld(t *testing.T) {
	s := start(t)
	rule := s.inject(t, Fault{Do: Hold})
	done := make(chan error, 1)
	go func() { done <- s.runPod(t.Context(), "one") }()
	eventually(t, "the call waits", func() error {
		if rule.Waiting() != 1 {
			return notYet("it does not")
		}
		return nil
	})
	check.Fatal(t, s.Close())
	check.Fails(t, <-done, "a call answered by a closed proxy")
	check.Fatal(t, rule.Settle(t.Context()))
}

func TestValidate(t *testing.T) {
	s := start(t)
	for _, f := range []Fault{{}, {Do: Delay}, {Do: LoseAnswer + 1}} {
		check.Fails(t, check.Err(s.Inject(f)), "%+v was taken", f)
	}
	for _, c := range []Config{{}, {Socket: "/a"}, {Socket: "/a", Target: "/a"}} {
		if p, err := Start(c); err == nil {
			t.Errorf("%+v was taken", c)
			p.Close()
		}
	}
}
