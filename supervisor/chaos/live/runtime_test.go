package live

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/cri/labels"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/chaos/plan"
	"github.com/troupe-dev/troupe/tests/check"
)

// fakeRuntime has sandboxes and containers of pod a, and keeps the commands that were run in them.
type fakeRuntime struct {
	runtimeapi.RuntimeServiceClient
	sandboxes  []*runtimeapi.PodSandbox
	containers []*runtimeapi.ContainerStatus
	ran        []string
}

var ofPodA = map[string]string{labels.PodName: "a", labels.PodNamespace: "ns", labels.PodUID: "u", labels.ContainerName: "app"}

func (f *fakeRuntime) ListPodSandbox(
	context.Context, *runtimeapi.ListPodSandboxRequest, ...grpc.CallOption,
) (*runtimeapi.ListPodSandboxResponse, error) {
	return &runtimeapi.ListPodSandboxResponse{Items: f.sandboxes}, nil
}

func (f *fakeRuntime) ListContainers(
	context.Context, *runtimeapi.ListContainersRequest, ...grpc.CallOption,
) (*runtimeapi.ListContainersResponse, error) {
	r := &runtimeapi.ListContainersResponse{}
	for _, c := range f.containers {
		r.Containers = append(r.Containers, &runtimeapi.Container{
			Id: c.Id, PodSandboxId: "s", Metadata: c.Metadata, State: c.State, Labels: c.Labels,
		})
	}
	return r, nil
}

func (f *fakeRuntime) ContainerStatus(
	_ context.Context, r *runtimeapi.ContainerStatusRequest, _ ...grpc.CallOption,
) (*runtimeapi.ContainerStatusResponse, error) {
	i := slices.IndexFunc(f.containers, func(c *runtimeapi.ContainerStatus) bool { return c.Id == r.ContainerId })
	return &runtimeapi.ContainerStatusResponse{Status: f.containers[i]}, nil
}

func (f *fakeRuntime) ExecSync(
	_ context.Context, r *runtimeapi.ExecSyncRequest, _ ...grpc.CallOption,
) (*runtimeapi.ExecSyncResponse, error) {
	f.ran = append(f.ran, r.ContainerId)
	return &runtimeapi.ExecSyncResponse{}, nil
}

// running is an incarnation of the container of pod a that runs.
func running(id string, attempt uint32) *runtimeapi.ContainerStatus {
	return &runtimeapi.ContainerStatus{
		Id: id, Metadata: &runtimeapi.ContainerMetadata{Name: "app", Attempt: attempt}, Labels: ofPodA,
		State: runtimeapi.ContainerState_CONTAINER_RUNNING, CreatedAt: 1, StartedAt: 2,
	}
}

// session is one with a runtime, in which a case runs.
func session(t *testing.T, f *fakeRuntime, text string) *liveRun {
	t.Helper()
	w := testWorld(t, text)
	w.s.runtime = &realRuntime{
		namespace: "ns", client: f, sandboxes: map[string]*seenSandbox{}, containers: map[string]*seenContainer{},
		gone: map[string]bool{}, changed: w.s.changed, cause: w.s.cause,
	}
	w.s.cur = w
	return &liveRun{Session: w.s, world: w}
}

// TestEndsWhatRuns: a container is ended that runs, although no event has told of its start yet.
func TestEndsWhatRuns(t *testing.T) {
	for _, verb := range []string{"exit a/app code=3", "oom a/app"} {
		f := &fakeRuntime{containers: []*runtimeapi.ContainerStatus{running("c", 0)}}
		l := session(t, f, "create a main=app; "+verb)
		check.Fatal(t, l.do(t.Context(), &l.world.c.Ops[1]))
		check.Same(t, f.ran, []string{"c"}, "%s: containers", verb)
	}
}

// TestLateEvents: what events say of a container that is gone by a list is no news, and the one after it runs on.
func TestLateEvents(t *testing.T) {
	f := &fakeRuntime{containers: []*runtimeapi.ContainerStatus{running("old", 0)}}
	l := session(t, f, "create a main=app")
	var told []string
	l.runtime.changed = func(c simcri.Transition) {
		told = append(told, fmt.Sprint(c.ID, " ", c.Kind))
		l.changed(c)
	}
	check.Fatal(t, l.runtime.look(t.Context()))
	f.containers = []*runtimeapi.ContainerStatus{running("new", 1)}
	check.Fatal(t, l.runtime.look(t.Context()))
	check.Equal(t, len(told), 6, "old and new are made and start, and old ends and goes: %v", told)
	late := running("old", 0)
	l.runtime.event(&runtimeapi.ContainerEventResponse{
		ContainerId: "old", ContainerEventType: runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT,
		PodSandboxStatus: &runtimeapi.PodSandboxStatus{Id: "s"}, ContainersStatuses: []*runtimeapi.ContainerStatus{late},
	})
	l.runtime.event(&runtimeapi.ContainerEventResponse{
		ContainerId: "old", ContainerEventType: runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT,
	})
	check.Equal(t, len(told), 6, "nothing is told of old: %v", told)
	check.Equal(t, l.world.history.RunningID(plan.Role{Pod: "a", Container: "app"}), "new", "what runs")
}
