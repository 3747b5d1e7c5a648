package cri

import (
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/actors/decide/containerplan"
	"github.com/troupe-dev/troupe/actors/port"
)

const (
	// maxExecOutput is how much of each of the outputs of a pod's own command is kept.
	maxExecOutput = 64 << 10
	// maxExecAnswer bounds an answer: that of a pod's command need not be as long as a list of all containers. It is a
	// kubelet's limit for all answers.
	maxExecAnswer = 16 << 20
	// Of these there is one at a time: an answer takes its length, and there may be many. Of long commands two run, so
	// that one that hangs does not hold up all others. One at a time is made and encoded, which takes twice its length.
	answersAtOnce, longCommandsAtOnce, sendingAtOnce = 1, 2, 1
	// answerPatience is longer than an answer takes that has begun.
	answerPatience = 5 * time.Second
)

// ExecSync implements port.Runtime. The timeout is rounded up to whole seconds; at its end the
// runtime kills the command and the error is of kind Deadline. Zero: the command runs until ctx
// ends.
func (c *Client) ExecSync(
	ctx context.Context, containerID string, command port.Command, timeout time.Duration,
	done func(port.ExecResult, error),
) {
	c.command(ctx, containerID, command, timeout, maxExecOutput, done)
}

// Run implements port.Streams.
func (c *Client) Run(ctx context.Context, containerID string, command port.Command, done func(port.ExecResult, error)) {
	c.command(ctx, containerID, command, 0, maxExecAnswer, done)
}

// command runs a command and keeps at most so many bytes of each of its outputs.
func (c *Client) command(
	ctx context.Context, containerID string, command port.Command, timeout time.Duration, most int,
	done func(port.ExecResult, error),
) {
	k := call{"ExecSync", containerID, c.deadlines.exec(timeout)}
	run(c, ctx, k, func(ctx context.Context) (port.ExecResult, error) {
		line, err := command(containerplan.SmallExpansion)
		sent := func() {}
		if errors.Is(err, containerplan.ErrTooLong) {
			for _, of := range []turns{c.longCommands, c.sending} {
				if !of.take(ctx) {
					return port.ExecResult{}, &port.Error{Kind: port.Other, Detail: "too many long commands are under way"}
				}
				sent = sync.OnceFunc(of.give)
				defer sent()
			}
			line, err = command(containerplan.MaxExpanded)
		}
		if err != nil {
			return port.ExecResult{}, &port.Error{Kind: port.InvalidConfig, Detail: err.Error()}
		}
		return c.exec(ctx, &runtimeapi.ExecSyncRequest{
			ContainerId: containerID, Cmd: line, Timeout: wholeSeconds(timeout),
		}, most, sent)
	}, done)
}

// exec makes the call as the generated client does, but that long answers are not received all at once: until it is
// its turn, an answer waits in the runtime. It calls sent when the request was encoded, and is on its way.
func (c *Client) exec(
	ctx context.Context, r *runtimeapi.ExecSyncRequest, most int, sent func(),
) (result port.ExecResult, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // a stream that is given up has to be ended
	stream, err := c.runtimeConn.NewStream(ctx, &grpc.StreamDesc{}, runtimeapi.RuntimeService_ExecSync_FullMethodName,
		grpc.MaxCallRecvMsgSize(min(maxExecAnswer, c.config.MaxMessageBytes)), grpc.ForceCodecV2(newHeadCodec(most)))
	if err != nil {
		return result, err
	}
	if err := stream.SendMsg(r); err != nil {
		return result, err
	}
	sent()
	if _, err := stream.Header(); err != nil {
		return result, err
	}
	defer c.takeAnswer(ctx, r.GetContainerId())() // if ctx has ended, RecvMsg says how
	var answer runtimeapi.ExecSyncResponse
	err = stream.RecvMsg(&answer)
	return port.ExecResult{ExitCode: answer.GetExitCode(), Stdout: answer.GetStdout(), Stderr: answer.GetStderr()}, err
}

// turns are how many may do something at once.
type turns chan struct{}

// take waits for a turn, as long as ctx goes on.
func (t turns) take(ctx context.Context) bool {
	select {
	case t <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (t turns) give() { <-t }
