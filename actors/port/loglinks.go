package port

import (
	"context"

	"github.com/troupe-dev/troupe/actors/decide/observed"
)

// LogLinks are the symlinks through which log collectors find the logs of
// containers (decide/containerlogs). The calling convention is Runtime's.
type LogLinks interface {
	// LinkLog makes the link of a log. The log need not exist yet. Idempotent. It takes a few seconds
	// at most, because a container waits for it.
	LinkLog(ctx context.Context, log LinkedLog, done func(error))
	// UnlinkLog removes the link, unless it leads to another log. The log stays. Idempotent.
	UnlinkLog(ctx context.Context, log LinkedLog, done func(error))
	// TidyLogLinks makes missing links of those logs that exist, and removes dead links, no matter who
	// made them. logs are the logs of all containers of the runtime.
	TidyLogLinks(ctx context.Context, logs []LinkedLog, done func(error))
}

// LinkedLog is the log of one incarnation of a container, with the container's ID.
type LinkedLog struct {
	LogRef
	ID string
}

// LinkedLogOf is the log of a container of a pod.
func LinkedLogOf(pod observed.PodRef, c *observed.Container) LinkedLog {
	return LinkedLog{
		LogRef: LogRef{Namespace: pod.Namespace, Pod: pod.Name, UID: pod.UID, Container: c.Name, Attempt: c.Attempt},
		ID:     c.ID,
	}
}
