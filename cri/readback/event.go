package readback

import (
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/port"
)

// Event converts an event. ok is false for an unknown kind, or for a pod of another client. When
// a sandbox is gone its event may have no pod at all: then the result has none either.
func Event(e *runtimeapi.ContainerEventResponse) (port.RuntimeEvent, bool) {
	out := port.RuntimeEvent{ContainerID: e.GetContainerId(), At: nanoseconds(e.GetCreatedAt())}
	switch e.GetContainerEventType() {
	case runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT:
		out.Kind = observed.ContainerCreatedEvent
	case runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT:
		out.Kind = observed.ContainerStartedEvent
	case runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT:
		out.Kind = observed.ContainerStoppedEvent
	case runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT:
		out.Kind = observed.ContainerDeletedEvent
	default:
		return port.RuntimeEvent{}, false
	}
	ref, ours, known := eventPod(e)
	out.Pod = ref
	return out, ours || !known
}

// eventPod finds the pod in the event's statuses; known is false if there are none.
func eventPod(e *runtimeapi.ContainerEventResponse) (ref observed.PodRef, ours, known bool) {
	if s := e.GetPodSandboxStatus(); s != nil {
		ref, ours = Pod(s.GetLabels())
		return ref, ours, true
	}
	for _, c := range e.GetContainersStatuses() {
		ref, ours = Pod(c.GetLabels())
		return ref, ours, true
	}
	return observed.PodRef{}, false, false
}
