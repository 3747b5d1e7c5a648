package port

import (
	"context"
	"time"
)

// Checkpointer is the part of a runtime that saves the state of a running container (CRI v1
// CheckpointContainer). The container continues. A simulated runtime has none. All errors are
// *Error. A runtime that can't do it returns Unsupported, or names what it lacks (criu).
type Checkpointer interface {
	CheckpointContainer(ctx context.Context, r CheckpointContainer, done func(error))
}

// CheckpointContainer asks for an archive of a running container, in a new file.
type CheckpointContainer struct {
	ContainerID string
	// Location is the absolute path of the archive, on the runtime's machine.
	Location string
	// Timeout bounds the call, in whole seconds; zero means the runtime's own.
	Timeout time.Duration
}
