package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/cri/labels"
	"github.com/troupe-dev/troupe/cri/readback"
	"github.com/troupe-dev/troupe/cri/simcri"
)

// realRuntime is the runtime, past the proxy. It tells of every change of the sandboxes and
// containers of a namespace, in order: from the runtime's events, and from lists, for what an
// event does not tell.
type realRuntime struct {
	namespace string
	conn      *grpc.ClientConn
	client    runtimeapi.RuntimeServiceClient
	images    runtimeapi.ImageServiceClient
	// changed is told of each change. cause says why a container has ended.
	changed func(simcri.Transition)
	cause   func(id, sandbox string, code int32) simcri.Cause

	mu         sync.Mutex
	sandboxes  map[string]*seenSandbox
	containers map[string]*seenContainer
	// gone are the IDs of those that are gone. What events say of them comes late: a list has overtaken it.
	gone map[string]bool
}

type seenSandbox struct {
	simcri.Transition
	ready, stopped bool
}

type seenContainer struct {
	simcri.Transition
	state observed.ContainerState
}

func newRuntime(socket, namespace string) (*realRuntime, error) {
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(32<<20)))
	if err != nil {
		return nil, err
	}
	return &realRuntime{
		namespace: namespace, conn: conn,
		client: runtimeapi.NewRuntimeServiceClient(conn), images: runtimeapi.NewImageServiceClient(conn),
		sandboxes: map[string]*seenSandbox{}, containers: map[string]*seenContainer{},
		gone: map[string]bool{},
	}, nil
}

const (
	// callTimeout bounds calls that take no time in a runtime that is well.
	callTimeout = 30 * time.Second
	// execSeconds bounds a command in a container.
	execSeconds = 25
)

// follow reads events until ctx ends, and looks at lists where there may be something that they
// did not tell: at the begin of the stream, and each second.
func (r *realRuntime) follow(ctx context.Context) {
	go func() {
		for ctx.Err() == nil {
			_ = r.stream(ctx) // a runtime that was killed comes back
			_ = pause(ctx, 200*time.Millisecond)
		}
	}()
	go func() {
		for pause(ctx, time.Second) == nil {
			_ = r.look(ctx) // again in a second
		}
	}()
}

func (r *realRuntime) stream(ctx context.Context) error {
	stream, err := r.client.GetContainerEvents(ctx, &runtimeapi.GetEventsRequest{})
	if err != nil {
		return err
	}
	for {
		e, err := stream.Recv()
		if err != nil {
			return err
		}
		r.event(e)
	}
}

// event takes in what an event tells of its own sandbox or container.
func (r *realRuntime) event(e *runtimeapi.ContainerEventResponse) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := e.GetContainerId()
	s := e.GetPodSandboxStatus()
	deleted := e.GetContainerEventType() == runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT
	switch {
	case r.gone[id]:
	case deleted && r.containers[id] != nil:
		r.containerGone(id)
	case deleted && r.sandboxes[id] != nil:
		r.sandboxGone(id)
	case deleted:
	case s.GetId() == id:
		ref, ours := readback.Pod(s.GetLabels())
		if ours && ref.Namespace == r.namespace {
			of := simcri.Transition{Pod: ref, ID: id, Sandbox: id, Attempt: s.GetMetadata().GetAttempt()}
			r.sandbox(of, s.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY)
		}
	default:
		for _, c := range e.GetContainersStatuses() {
			if c.GetId() == id {
				r.status(c, s.GetId())
			}
		}
	}
}

// status takes in the inspection of a container.
func (r *realRuntime) status(c *runtimeapi.ContainerStatus, sandbox string) {
	got, ours := readback.Container(c)
	if !ours || got.Pod.Namespace != r.namespace {
		return
	}
	of := simcri.Transition{
		Pod: got.Pod, ID: got.ID, Sandbox: sandbox, Container: got.Name, Attempt: got.Attempt, ExitCode: got.ExitCode,
	}
	r.container(of, got.State, !got.StartedAt.IsZero(), got.FinishedAt)
}

// sandbox takes in the state of a sandbox.
func (r *realRuntime) sandbox(of simcri.Transition, ready bool) {
	s := r.sandboxes[of.ID]
	if s == nil {
		s = &seenSandbox{Transition: of}
		r.sandboxes[of.ID] = s
		r.tell(of, observed.ContainerCreatedEvent)
	}
	switch {
	case ready && !s.ready && !s.stopped:
		s.ready = true
		r.tell(of, observed.ContainerStartedEvent)
	case !ready && s.ready:
		s.ready, s.stopped = false, true
		r.tell(of, observed.ContainerStoppedEvent)
	}
}

// container takes in the state of a container: each state that it came through is told.
func (r *realRuntime) container(of simcri.Transition, to observed.ContainerState, started bool, ended time.Time) {
	c := r.containers[of.ID]
	if c == nil {
		c = &seenContainer{Transition: of, state: observed.ContainerCreated}
		r.containers[of.ID] = c
		r.tell(of, observed.ContainerCreatedEvent)
	}
	if c.state == observed.ContainerCreated && to != observed.ContainerCreated && started {
		c.state = observed.ContainerRunning
		r.tell(of, observed.ContainerStartedEvent)
	}
	if c.state != observed.ContainerExited && to == observed.ContainerExited {
		c.ExitCode = of.ExitCode
		c.At = ended // its backoff counts from then
		r.containerEnded(c)
	}
}

func (r *realRuntime) containerEnded(c *seenContainer) {
	c.Cause = simcri.NeverStarted
	if c.state == observed.ContainerRunning {
		c.Cause = r.cause(c.ID, c.Sandbox, c.ExitCode)
	}
	c.state = observed.ContainerExited
	r.tell(c.Transition, observed.ContainerStoppedEvent)
	c.At = time.Time{}
}

func (r *realRuntime) containerGone(id string) {
	c := r.containers[id]
	if c.state == observed.ContainerRunning {
		r.containerEnded(c)
	}
	delete(r.containers, id)
	r.gone[id] = true
	r.tell(c.Transition, observed.ContainerDeletedEvent)
}

func (r *realRuntime) sandboxGone(id string) {
	s := r.sandboxes[id]
	for _, of := range r.of(id) {
		r.containerGone(of)
	}
	if s.ready {
		r.sandbox(s.Transition, false)
	}
	delete(r.sandboxes, id)
	r.gone[id] = true
	r.tell(s.Transition, observed.ContainerDeletedEvent)
}

// of are the containers of a sandbox, oldest first.
func (r *realRuntime) of(sandbox string) (ids []string) {
	for id, c := range r.containers {
		if c.Sandbox == sandbox {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b string) int { return int(r.containers[a].Attempt) - int(r.containers[b].Attempt) })
	return ids
}

func (r *realRuntime) tell(t simcri.Transition, kind observed.EventKind) {
	if t.Kind = kind; t.At.IsZero() {
		t.At = time.Now()
	}
	r.changed(t)
}

// look compares what is known with the runtime's lists.
func (r *realRuntime) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	r.mu.Lock()
	defer r.mu.Unlock()
	sandboxes, err := r.client.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{
		LabelSelector: map[string]string{labels.PodNamespace: r.namespace},
	}})
	if err != nil {
		return err
	}
	containers, err := r.client.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{
		LabelSelector: map[string]string{labels.PodNamespace: r.namespace},
	}})
	if err != nil {
		return err
	}
	// What is gone, or has ended, comes before what was made since.
	there := map[string]bool{}
	for _, c := range containers.GetContainers() {
		there[c.GetId()] = true
		if known := r.containers[c.GetId()]; known != nil {
			r.inspect(ctx, c, known)
		}
	}
	for id := range r.containers {
		if !there[id] {
			r.containerGone(id)
		}
	}
	for _, s := range sandboxes.GetItems() {
		there[s.GetId()] = true
	}
	for id := range r.sandboxes {
		if !there[id] {
			r.sandboxGone(id)
		}
	}
	for _, s := range sandboxes.GetItems() {
		if ref, ours := readback.Pod(s.GetLabels()); ours {
			of := simcri.Transition{Pod: ref, ID: s.GetId(), Sandbox: s.GetId(), Attempt: s.GetMetadata().GetAttempt()}
			r.sandbox(of, s.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY)
		}
	}
	slices.SortFunc(containers.Containers, func(a, b *runtimeapi.Container) int { return int(a.CreatedAt - b.CreatedAt) })
	for _, c := range containers.GetContainers() {
		if r.containers[c.GetId()] == nil {
			r.inspect(ctx, c, nil)
		}
	}
	return nil
}

// inspect asks for the details of a container that has changed.
func (r *realRuntime) inspect(ctx context.Context, c *runtimeapi.Container, known *seenContainer) {
	listed, ours := readback.ListedContainer(c)
	if !ours || known != nil && known.state == listed.State {
		return
	}
	got, err := r.client.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: c.GetId()})
	if err != nil {
		return // it is gone by now: the next list says so
	}
	r.status(got.GetStatus(), c.GetPodSandboxId())
}

// exec runs a command in a container. What it ends can't answer.
func (r *realRuntime) exec(ctx context.Context, id string, command []string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := r.client.ExecSync(ctx, &runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: command, Timeout: execSeconds})
	return err
}

// killSandbox kills the process that holds a sandbox, as its death does.
func (r *realRuntime) killSandbox(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	got, err := r.client.PodSandboxStatus(ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: id, Verbose: true})
	if err != nil {
		return err
	}
	var details struct {
		PID int `json:"pid"`
	}
	if err := json.Unmarshal([]byte(got.GetInfo()["info"]), &details); err != nil || details.PID == 0 {
		return errors.Join(fmt.Errorf("the runtime's status of sandbox %s has no PID", id), err)
	}
	return syscall.Kill(details.PID, syscall.SIGKILL)
}

// withdraw removes the image of cases, so that the next pod pulls it.
func (r *realRuntime) withdraw(ctx context.Context, images ...string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	for _, i := range images {
		_, err := r.images.RemoveImage(ctx, &runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: i}})
		if err != nil {
			return fmt.Errorf("remove image %s: %w", i, err)
		}
	}
	return nil
}

// pull pulls an image and gives the name that it has by its content.
func (r *realRuntime) pull(ctx context.Context, image string) (byContent string, err error) {
	spec := &runtimeapi.ImageSpec{Image: image}
	if _, err := r.images.PullImage(ctx, &runtimeapi.PullImageRequest{Image: spec}); err != nil {
		return "", fmt.Errorf("pull image %s: %w", image, err)
	}
	got, err := r.images.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: spec})
	if err != nil {
		return "", fmt.Errorf("look at image %s: %w", image, err)
	}
	if names := got.GetImage().GetRepoDigests(); len(names) > 0 {
		return names[0], nil
	}
	return "", fmt.Errorf("the runtime shows no digest of image %s", image)
}

// clear stops and removes everything of the namespace, for the end of a case that did not.
func (r *realRuntime) clear(ctx context.Context) error {
	r.mu.Lock()
	ids := make([]string, 0, len(r.sandboxes))
	for id := range r.sandboxes {
		ids = append(ids, id)
	}
	r.mu.Unlock()
	var errs []error
	for _, id := range ids {
		_, err := r.client.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: id})
		if err == nil {
			_, err = r.client.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: id})
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// objects is how many sandboxes and containers there are.
func (r *realRuntime) objects() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.sandboxes) + len(r.containers)
}
