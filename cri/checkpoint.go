package cri

import (
	"context"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/actors/port"
)

var _ port.Checkpointer = (*Client)(nil)

// checkpointSlack is how much longer than its timeout the runtime may take to answer.
const checkpointSlack = 15 * time.Second

// CheckpointContainer implements port.Checkpointer. Without a timeout it has the deadline of any
// call; otherwise the call may take a moment longer than the runtime's timeout.
func (c *Client) CheckpointContainer(ctx context.Context, r port.CheckpointContainer, done func(error)) {
	deadline := c.deadlines.request
	if r.Timeout > 0 {
		deadline = r.Timeout + checkpointSlack
	}
	run0(c, ctx, call{checkpointContainer, r.ContainerID, deadline}, func(ctx context.Context) error {
		_, err := c.runtime.CheckpointContainer(ctx, &runtimeapi.CheckpointContainerRequest{
			ContainerId: r.ContainerID, Location: r.Location, Timeout: wholeSeconds(r.Timeout),
		})
		return err
	}, done)
}
