package port

import (
	"context"
	"time"
)

// Checkpointer is the part of a runtime that writes down what a container is just
// then (CRI v1 CheckpointContainer), which continues running. A simulated runtime has
// none. All errors are *Error; a runtime that can't says Unsupported, or what it
// lacks (criu).
type Checkpointer interface {
	CheckpointContainer(ctx context.Context, r CheckpointContainer, done func(error))
}

// CheckpointContainer asks for an archive of a running container in a file that is
// not there yet.
type CheckpointContainer struct {
	ContainerID string
	// Location is the absolute path of the archive, on the runtime's machine.
	Location string
	// Timeout is how long it may take, in whole seconds; the runtime's own if zero.
	Timeout time.Duration
}
