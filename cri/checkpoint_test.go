package cri

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/actors/port"
)

// CheckpointContainer takes one request only, and says of others what is different.
func (f *fakeRuntime) CheckpointContainer(_ context.Context, r *runtimeapi.CheckpointContainerRequest) (*runtimeapi.CheckpointContainerResponse, error) {
	want := runtimeapi.CheckpointContainerRequest{ContainerId: "c1", Location: "/checkpoints/c1.tar", Timeout: 2}
	switch {
	case r.GetContainerId() == "old":
		return nil, status.Error(codes.Unimplemented, "method CheckpointContainer not implemented")
	case r.String() != want.String():
		return nil, status.Error(codes.InvalidArgument, r.String())
	}
	return &runtimeapi.CheckpointContainerResponse{}, nil
}

func TestCheckpointContainer(t *testing.T) {
	c := dial(t, &fakeRuntime{}, nil)
	checkpoint := func(r port.CheckpointContainer) error {
		_, err := await(t, func(done func(struct{}, error)) {
			c.CheckpointContainer(t.Context(), r, func(err error) { done(struct{}{}, err) })
		})
		return err
	}
	if err := checkpoint(port.CheckpointContainer{ContainerID: "c1", Location: "/checkpoints/c1.tar", Timeout: 1500 * time.Millisecond}); err != nil {
		t.Error(err)
	}
	if err := checkpoint(port.CheckpointContainer{ContainerID: "old"}); port.KindOf(err) != port.Unsupported {
		t.Errorf("of a runtime that can't: %v", err)
	}
}
