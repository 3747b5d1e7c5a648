package simcri

import (
	"context"

	"google.golang.org/grpc"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/port"
)

// cgroupDriver is for RuntimeConfig: cgroupfs works for an agent on any host.
const cgroupDriver = runtimev1.CgroupDriver_CGROUPFS

// pendingEvents bounds the queue for a slow reader of events; events beyond it are lost, as the
// CRI allows.
const pendingEvents = 1024

func (s *server) Version(ctx context.Context, _ *runtimev1.VersionRequest) (*runtimev1.VersionResponse, error) {
	v, err := wait(func(done func(port.RuntimeVersion, error)) { s.r.Version(ctx, done) })
	if err != nil {
		return nil, err
	}
	return &runtimev1.VersionResponse{
		Version: "0.1.0", RuntimeName: v.Name, RuntimeVersion: v.Version, RuntimeApiVersion: v.APIVersion,
	}, nil
}

func (s *server) Status(ctx context.Context, _ *runtimev1.StatusRequest) (*runtimev1.StatusResponse, error) {
	st, err := wait(func(done func(port.RuntimeStatus, error)) { s.r.Status(ctx, done) })
	if err != nil {
		return nil, err
	}
	out := &runtimev1.StatusResponse{
		Status:          &runtimev1.RuntimeStatus{},
		RuntimeHandlers: []*runtimev1.RuntimeHandler{{Features: &runtimev1.RuntimeHandlerFeatures{}}},
		Features:        &runtimev1.RuntimeFeatures{},
	}
	for _, c := range st.Conditions {
		out.Status.Conditions = append(out.Status.Conditions, &runtimev1.RuntimeCondition{
			Type: c.Type, Status: c.Status, Reason: c.Reason, Message: c.Message,
		})
	}
	return out, nil
}

func (s *server) RuntimeConfig(
	context.Context, *runtimev1.RuntimeConfigRequest,
) (*runtimev1.RuntimeConfigResponse, error) {
	return &runtimev1.RuntimeConfigResponse{Linux: &runtimev1.LinuxRuntimeConfiguration{CgroupDriver: cgroupDriver}},
		s.up()
}

// UpdateRuntimeConfig ignores the pod CIDR: Config.PodCIDR is used.
func (s *server) UpdateRuntimeConfig(
	context.Context, *runtimev1.UpdateRuntimeConfigRequest,
) (*runtimev1.UpdateRuntimeConfigResponse, error) {
	return &runtimev1.UpdateRuntimeConfigResponse{}, s.up()
}

func (s *server) GetContainerEvents(
	_ *runtimev1.GetEventsRequest, stream grpc.ServerStreamingServer[runtimev1.ContainerEventResponse],
) error {
	events := make(chan port.RuntimeEvent, pendingEvents)
	ended := make(chan error, 1)
	s.r.subscribe(stream.Context(), true, func() {}, func(e port.RuntimeEvent) {
		select {
		case events <- e:
		default:
		}
	}, func(err error) { ended <- err })
	for {
		select {
		case err := <-ended:
			return grpcError(err)
		case e := <-events:
			if err := stream.Send(s.event(e)); err != nil {
				return err
			}
		}
	}
}

var eventTypes = map[observed.EventKind]runtimev1.ContainerEventType{
	observed.ContainerCreatedEvent: runtimev1.ContainerEventType_CONTAINER_CREATED_EVENT,
	observed.ContainerStartedEvent: runtimev1.ContainerEventType_CONTAINER_STARTED_EVENT,
	observed.ContainerStoppedEvent: runtimev1.ContainerEventType_CONTAINER_STOPPED_EVENT,
	observed.ContainerDeletedEvent: runtimev1.ContainerEventType_CONTAINER_DELETED_EVENT,
}

// event adds the state of its pod to an event: the newest sandbox and its containers, when the
// event is sent.
func (s *server) event(e port.RuntimeEvent) *runtimev1.ContainerEventResponse {
	out := &runtimev1.ContainerEventResponse{
		ContainerId: e.ContainerID, ContainerEventType: eventTypes[e.Kind], CreatedAt: e.At.UnixNano(),
	}
	r := s.r
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.pods[podKey(e.Pod)]
	if p == nil {
		return out
	}
	newest := p.sandboxes
	for newest != nil && newest.state == sandboxMaking {
		newest = newest.next
	}
	if newest == nil {
		return out
	}
	out.PodSandboxStatus = newest.status(r)
	for c := p.containers; c != nil; c = c.next {
		if c.sandbox == newest && c.state != containerMaking {
			out.ContainersStatuses = append(out.ContainersStatuses, c.status())
		}
	}
	return out
}
