package port

import (
	"context"

	"github.com/troupe-dev/troupe/actors/decide/observed"
)

// LogLinks are the symlinks through which log collectors find the logs of
// containers (decide/loglinks). The calling convention is Runtime's.
type LogLinks interface {
	// LinkLog makes the link of a log, which need not be there yet. Idempotent. It
	// takes a few seconds at the most: a container waits for it.
	LinkLog(ctx context.Context, log LinkedLog, done func(error))
	// UnlinkLog removes the link, unless that of the name leads to another log. The
	// log stays. Idempotent.
	UnlinkLog(ctx context.Context, log LinkedLog, done func(error))
	// TidyLogLinks makes the links that are missing of these logs, as far as the logs
	// are there, and removes links that are dead, whoever made them. The logs are
	// those of all containers that the runtime has.
	TidyLogLinks(ctx context.Context, logs []LinkedLog, done func(error))
}

// LinkedLog is the log of one incarnation of a container, with the ID that the
// runtime gave it.
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
