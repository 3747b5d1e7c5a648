package simcri

import (
	"context"
	"encoding/json"
	"maps"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/actors/decide/cpus"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/cri/labels"
)

// servedContainer is a container's configuration from gRPC. Its labels and annotations are
// returned unchanged.
type servedContainer struct {
	config *runtimev1.ContainerConfig
}

// containerOfConfig converts a configuration to a container.
func containerOfConfig(c *runtimev1.ContainerConfig) *v1.Container {
	out := &v1.Container{
		Name: c.GetMetadata().GetName(), Image: c.GetImage().GetUserSpecifiedImage(),
		Command: c.GetCommand(), Args: c.GetArgs(), WorkingDir: c.GetWorkingDir(),
		TerminationMessagePolicy: v1.TerminationMessagePolicy(c.GetAnnotations()[labels.TerminationMessagePolicy]),
	}
	if out.Image == "" {
		out.Image = c.GetImage().GetImage()
	}
	if limit := c.GetLinux().GetResources().GetMemoryLimitInBytes(); limit > 0 {
		out.Resources.Limits = v1.ResourceList{v1.ResourceMemory: *resource.NewQuantity(limit, resource.BinarySI)}
	}
	return out
}

func (s *server) CreateContainer(
	ctx context.Context, q *runtimev1.CreateContainerRequest,
) (*runtimev1.CreateContainerResponse, error) {
	config := q.GetConfig()
	if config.GetMetadata().GetName() == "" {
		return nil, status.Error(codes.InvalidArgument, "container config: metadata needs a name")
	}
	call := port.CreateContainer{
		Pod: podOfConfig(q.GetSandboxConfig()), Container: containerOfConfig(config),
		Attempt: config.GetMetadata().GetAttempt(), SandboxID: s.sandboxID(q.GetPodSandboxId()),
		ImageRef: config.GetImage().GetImage(), SpecHash: config.GetAnnotations()[labels.SpecHash],
		LogDirectory: q.GetSandboxConfig().GetLogDirectory(),
	}
	id, err := wait(func(done func(string, error)) {
		s.r.createContainer(ctx, call, &servedContainer{config}, done)
	})
	if err != nil {
		return nil, err
	}
	return &runtimev1.CreateContainerResponse{ContainerId: id}, nil
}

func (s *server) StartContainer(
	ctx context.Context, q *runtimev1.StartContainerRequest,
) (*runtimev1.StartContainerResponse, error) {
	id := s.containerID(q.GetContainerId())
	return &runtimev1.StartContainerResponse{}, waitErr(func(done func(error)) { s.r.StartContainer(ctx, id, done) })
}

func (s *server) StopContainer(
	ctx context.Context, q *runtimev1.StopContainerRequest,
) (*runtimev1.StopContainerResponse, error) {
	id, grace := s.containerID(q.GetContainerId()), time.Duration(q.GetTimeout())*time.Second
	return &runtimev1.StopContainerResponse{}, waitErr(func(done func(error)) { s.r.StopContainer(ctx, id, grace, done) })
}

func (s *server) RemoveContainer(
	ctx context.Context, q *runtimev1.RemoveContainerRequest,
) (*runtimev1.RemoveContainerResponse, error) {
	id := s.containerID(q.GetContainerId())
	return &runtimev1.RemoveContainerResponse{}, waitErr(func(done func(error)) { s.r.RemoveContainer(ctx, id, done) })
}

func (s *server) ContainerStatus(
	ctx context.Context, q *runtimev1.ContainerStatusRequest,
) (*runtimev1.ContainerStatusResponse, error) {
	id := s.containerID(q.GetContainerId())
	if _, err := wait(func(done func(observed.Container, error)) { s.r.ContainerStatus(ctx, id, done) }); err != nil {
		return nil, err
	}
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	c := s.r.containers[id]
	if c == nil {
		return nil, status.Error(codes.NotFound, id+": no such container")
	}
	return &runtimev1.ContainerStatusResponse{Status: c.status()}, nil
}

func (s *server) ExecSync(ctx context.Context, q *runtimev1.ExecSyncRequest) (*runtimev1.ExecSyncResponse, error) {
	id, timeout := s.containerID(q.GetContainerId()), time.Duration(q.GetTimeout())*time.Second
	result, err := wait(func(done func(port.ExecResult, error)) {
		s.r.ExecSync(ctx, id, port.Words(q.GetCmd()...), timeout, done)
	})
	if err != nil {
		return nil, err
	}
	return &runtimev1.ExecSyncResponse{ExitCode: result.ExitCode, Stdout: result.Stdout, Stderr: result.Stderr}, nil
}

func (s *server) listContainers(ctx context.Context, f *runtimev1.ContainerFilter) ([]*runtimev1.Container, error) {
	if _, err := s.list(ctx, f.GetLabelSelector()); err != nil {
		return nil, err
	}
	var out []*runtimev1.Container
	s.eachContainer(f.GetId(), f.GetPodSandboxId(), f.GetLabelSelector(), func(c *container) {
		if f.GetState() != nil && f.GetState().GetState() != c.criState() {
			return
		}
		st := c.status()
		out = append(out, &runtimev1.Container{
			Id: st.Id, PodSandboxId: c.sandbox.id, Metadata: st.Metadata, Image: st.Image, ImageRef: st.ImageRef,
			ImageId: st.ImageId, State: st.State, CreatedAt: st.CreatedAt, Labels: st.Labels, Annotations: st.Annotations,
		})
	})
	return out, nil
}

// eachContainer calls f under the lock for the matching containers, ordered by pod.
func (s *server) eachContainer(id, sandboxID string, selector map[string]string, f func(*container)) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	for _, p := range s.r.sortedPods() {
		for c := p.containers; c != nil; c = c.next {
			if c.state != containerMaking && strings.HasPrefix(c.id, id) &&
				strings.HasPrefix(c.sandbox.id, sandboxID) && selected(c.labels(), selector) {
				f(c)
			}
		}
	}
}

func (s *server) ListContainers(
	ctx context.Context, q *runtimev1.ListContainersRequest,
) (*runtimev1.ListContainersResponse, error) {
	items, err := s.listContainers(ctx, q.GetFilter())
	return &runtimev1.ListContainersResponse{Containers: items}, err
}

func (s *server) StreamContainers(
	q *runtimev1.StreamContainersRequest, stream grpc.ServerStreamingServer[runtimev1.StreamContainersResponse],
) error {
	items, err := s.listContainers(stream.Context(), q.GetFilter())
	return inPieces(items, err, func(some []*runtimev1.Container) error {
		return stream.Send(&runtimev1.StreamContainersResponse{Containers: some})
	})
}

// UpdateContainerResources: the limit for the script's memory stays that of the start.
func (s *server) UpdateContainerResources(
	ctx context.Context, q *runtimev1.UpdateContainerResourcesRequest,
) (*runtimev1.UpdateContainerResourcesResponse, error) {
	l := q.GetLinux()
	u := port.UpdateContainer{ID: s.containerID(q.GetContainerId()), To: observed.Resources{
		CPUShares: l.GetCpuShares(), CPUQuota: max(l.GetCpuQuota(), 0), CPUPeriod: l.GetCpuPeriod(),
		Memory: max(l.GetMemoryLimitInBytes(), 0),
	}}
	if l.GetCpuShares() == 0 && (l.GetCpusetCpus() != "" || l.GetCpusetMems() != "") {
		u.Placement = &cpus.ContainerPlacement{CPUs: l.GetCpusetCpus(), Mems: l.GetCpusetMems()}
	}
	return &runtimev1.UpdateContainerResourcesResponse{},
		waitErr(func(done func(error)) { s.r.UpdateContainer(ctx, u, done) })
}

// ReopenContainerLog has nothing to reopen: no line is stored.
func (s *server) ReopenContainerLog(
	context.Context, *runtimev1.ReopenContainerLogRequest,
) (*runtimev1.ReopenContainerLogResponse, error) {
	return &runtimev1.ReopenContainerLogResponse{}, s.up()
}

func (c *container) criState() runtimev1.ContainerState {
	switch c.observedState() {
	case observed.ContainerCreated:
		return runtimev1.ContainerState_CONTAINER_CREATED
	case observed.ContainerRunning:
		return runtimev1.ContainerState_CONTAINER_RUNNING
	case observed.ContainerExited:
		return runtimev1.ContainerState_CONTAINER_EXITED
	default:
		return runtimev1.ContainerState_CONTAINER_UNKNOWN
	}
}

// labels are those it was made with, or those that an agent would have set.
func (c *container) labels() map[string]string {
	if c.served != nil {
		return c.served.config.GetLabels()
	}
	l := map[string]string{labels.ContainerName: c.spec.Name}
	namePod(l, c.sandbox.pod.ref)
	return l
}

// annotations are those it was made with, or those that an agent would have set.
func (c *container) annotations() map[string]string {
	if c.served != nil {
		return c.served.config.GetAnnotations()
	}
	seen := c.observe(true)
	a := map[string]string{
		labels.RestartCount:             strconv.FormatUint(uint64(c.attempt), 10),
		labels.TerminationMessagePath:   c.spec.TerminationMessagePath,
		labels.TerminationMessagePolicy: seen.TerminationMessagePolicy,
		labels.TerminationGracePeriod:   strconv.FormatInt(seen.GraceSeconds, 10),
	}
	for key, value := range map[string]string{labels.SpecHash: c.specHash, labels.PreStopHandler: seen.PreStop} {
		if value != "" {
			a[key] = value
		}
	}
	return a
}

func (c *container) status() *runtimev1.ContainerStatus {
	has := c.observe(true).Resources
	return &runtimev1.ContainerStatus{
		Id:       c.id,
		Metadata: &runtimev1.ContainerMetadata{Name: c.spec.Name, Attempt: c.attempt},
		State:    c.criState(), CreatedAt: c.createdAt, StartedAt: c.startedAt, FinishedAt: c.finishedAt,
		ExitCode: c.exitCode, Reason: c.reason.String(), Message: c.message,
		Image:    &runtimev1.ImageSpec{Image: c.image.name, UserSpecifiedImage: c.spec.Image},
		ImageRef: c.image.digest, ImageId: c.image.id,
		Labels: maps.Clone(c.labels()), Annotations: maps.Clone(c.annotations()), LogPath: c.logPath(),
		User: &runtimev1.ContainerUser{Linux: &runtimev1.LinuxContainerUser{
			Uid: root.UID, Gid: root.GID, SupplementalGroups: root.SupplementalGroups,
		}},
		Resources: &runtimev1.ContainerResources{Linux: &runtimev1.LinuxContainerResources{
			CpuShares: has.CPUShares, CpuQuota: has.CPUQuota, CpuPeriod: has.CPUPeriod, MemoryLimitInBytes: has.Memory,
		}},
	}
}

// graceSeconds is the grace period of the container's pod: of a running deletion first, the API's
// default last.
func (c *container) graceSeconds() int64 {
	if c.served != nil {
		for _, key := range []string{labels.DeletionGracePeriod, labels.TerminationGracePeriod} {
			if n, err := strconv.ParseInt(c.served.config.GetAnnotations()[key], 10, 64); err == nil && n >= 0 {
				return n
			}
		}
		return defaultGraceSeconds
	}
	return c.sandbox.of.graceSeconds
}

// defaultGraceSeconds is core/v1's terminationGracePeriodSeconds.
const defaultGraceSeconds = 30

// preStop is the container's preStop hook as JSON, empty if it has none.
func (c *container) preStop() string {
	if c.served != nil {
		return c.served.config.GetAnnotations()[labels.PreStopHandler]
	}
	if c.spec.Lifecycle == nil || c.spec.Lifecycle.PreStop == nil {
		return ""
	}
	hook, err := json.Marshal(c.spec.Lifecycle.PreStop)
	if err != nil {
		panic("simcri: preStop of container " + c.id + ": " + err.Error())
	}
	return string(hook)
}
