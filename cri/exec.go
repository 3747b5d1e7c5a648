package cri

import (
	"context"
	"time"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/actors/port"
)

const (
	// maxExecOutput is how much of each of a command's outputs is kept.
	maxExecOutput = 64 << 10
	// maxExecAnswer bounds an answer: that of a pod's command need not be as long as a list of all containers. It is a
	// kubelet's limit for all answers.
	maxExecAnswer = 16 << 20
)

// ExecSync implements port.Runtime. The timeout is rounded up to whole seconds; at its end the
// runtime kills the command and the error is of kind Deadline. Zero: the command runs until ctx
// ends.
func (c *Client) ExecSync(
	ctx context.Context, containerID string, command []string, timeout time.Duration, done func(port.ExecResult, error),
) {
	k := call{"ExecSync", containerID, c.deadlines.exec(timeout)}
	run(c, ctx, k, func(ctx context.Context) (port.ExecResult, error) {
		answer, err := c.runtime.ExecSync(ctx, &runtimeapi.ExecSyncRequest{
			ContainerId: containerID, Cmd: command, Timeout: wholeSeconds(timeout),
		}, grpc.MaxCallRecvMsgSize(min(maxExecAnswer, c.config.MaxMessageBytes)))
		return port.ExecResult{
			ExitCode: answer.GetExitCode(),
			Stdout:   head(answer.GetStdout()),
			Stderr:   head(answer.GetStderr()),
		}, err
	}, done)
}

// head truncates output to the bound, and frees the rest.
func head(output []byte) []byte {
	if len(output) <= maxExecOutput {
		return output
	}
	return append([]byte(nil), output[:maxExecOutput]...)
}
