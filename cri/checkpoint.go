package cri

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/actors/port"
)

var _ port.Checkpointer = (*Client)(nil)

// CheckpointContainer implements port.Checkpointer. Who gives it no time lets it
// have that of any call; the runtime is given a moment more than its own.
func (c *Client) CheckpointContainer(ctx context.Context, r port.CheckpointContainer, done func(error)) {
	deadline := c.deadlines.request
	if r.Timeout > 0 {
		deadline = r.Timeout + execSlack
	}
	run0(c, ctx, call{"CheckpointContainer", r.ContainerID, deadline}, func(ctx context.Context) error {
		_, err := c.runtime.CheckpointContainer(ctx, &runtimeapi.CheckpointContainerRequest{
			ContainerId: r.ContainerID, Location: r.Location, Timeout: wholeSeconds(r.Timeout),
		})
		return err
	}, done)
}
