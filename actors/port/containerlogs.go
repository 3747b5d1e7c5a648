package port

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/logrotate"
)

// ContainerLogs are the files that the runtime writes the output of containers
// to, below podLogsDir. The calling convention is Runtime's.
type ContainerLogs interface {
	// LogSizes gives how many bytes the current file of each log has, in order;
	// less than 0 where there is none.
	LogSizes(ctx context.Context, logs []LogRef, done func([]int64, error))
	// RotatedLogs lists the logs that have files beside the current one, whoever's
	// they are, in order. The current one may be missing.
	RotatedLogs(ctx context.Context, done func([]LogRef, error))
	// LookAtLog gives what lies on the disk of a log. It is NotFound if not even its
	// directory is there.
	LookAtLog(ctx context.Context, log LogRef, done func(logrotate.Log, error))
	// StepLog does one step, any but logrotate.Reopen. No file is overwritten by it.
	// What is not there any more, or is there already, is no error.
	StepLog(ctx context.Context, log LogRef, step logrotate.Step, done func(error))
	// PruneLogs removes the logs of incarnations that came before those named, of
	// the same container.
	PruneLogs(ctx context.Context, oldest []LogRef, done func(error))
}

// LogReopener is a runtime whose logs can be rotated by others (CRI v1
// ReopenContainerLog).
type LogReopener interface {
	// ReopenContainerLog makes the runtime write what a running container says to
	// the file at the path of its log, made if it is not there. When it is done,
	// nothing more is begun to be written to the file that it wrote before.
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
