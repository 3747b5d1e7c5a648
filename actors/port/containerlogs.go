package port

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/containerlogs"
)

// ContainerLogs are the files, below podLogsDir, to which the runtime writes the output of
// containers. The calling convention is Runtime's.
type ContainerLogs interface {
	// LogSizes returns the size in bytes of the current file of each log, in order; less than 0 if
	// there is none.
	LogSizes(ctx context.Context, logs []LogRef, done func([]int64, error))
	// RotatedLogs lists all logs with other files beside the current one, in order. The current one
	// may be missing.
	RotatedLogs(ctx context.Context, done func([]LogRef, error))
	// LookAtLog returns the files of a log. It fails with NotFound if even its directory is missing.
	LookAtLog(ctx context.Context, log LogRef, done func(containerlogs.Log, error))
	// StepLog does one step, except containerlogs.Reopen. It never overwrites a file. It is no error if a
	// file is already gone, or already there.
	StepLog(ctx context.Context, log LogRef, step containerlogs.Step, done func(error))
	// PruneLogs removes the logs of incarnations older than those named, of the same containers.
	PruneLogs(ctx context.Context, oldest []LogRef, done func(error))
}

// LogReopener is a runtime that lets others rotate its logs (CRI v1 ReopenContainerLog).
type LogReopener interface {
	// ReopenContainerLog makes the runtime write the output of a running container to the path of its
	// log, which it creates if missing. After that the runtime begins no more writes to the previous
	// file.
	ReopenContainerLog(ctx context.Context, id string, done func(error))
}

// LogRef names the log of one incarnation of a container.
type LogRef struct {
	Namespace, Pod string
	UID            types.UID
	Container      string
	Attempt        uint32
}

// String is the path of the current file, below podLogsDir.
func (r LogRef) String() string {
	return fmt.Sprintf("%s_%s_%s/%s/%d.log", r.Namespace, r.Pod, r.UID, r.Container, r.Attempt)
}
