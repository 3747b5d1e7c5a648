package cri

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/actors/port"
)

var _ port.Streams = (*Client)(nil)

// Exec implements port.Streams.
func (c *Client) Exec(ctx context.Context, r port.ExecStream, done func(string, error)) {
	k := call{"Exec", r.ContainerID, c.deadlines.request}
	run(c, ctx, k, func(ctx context.Context) (string, error) {
		answer, err := c.runtime.Exec(ctx, &runtimeapi.ExecRequest{
			ContainerId: r.ContainerID, Cmd: r.Command, Tty: r.TTY, Stdin: r.Stdin, Stdout: r.Stdout, Stderr: r.Stderr,
		})
		return answer.GetUrl(), err
	}, done)
}

// Attach implements port.Streams.
func (c *Client) Attach(ctx context.Context, r port.AttachStream, done func(string, error)) {
	k := call{"Attach", r.ContainerID, c.deadlines.request}
	run(c, ctx, k, func(ctx context.Context) (string, error) {
		answer, err := c.runtime.Attach(ctx, &runtimeapi.AttachRequest{
			ContainerId: r.ContainerID, Tty: r.TTY, Stdin: r.Stdin, Stdout: r.Stdout, Stderr: r.Stderr,
		})
		return answer.GetUrl(), err
	}, done)
}

// PortForward implements port.Streams.
func (c *Client) PortForward(ctx context.Context, r port.PortForwardStream, done func(string, error)) {
	k := call{"PortForward", r.SandboxID, c.deadlines.request}
	run(c, ctx, k, func(ctx context.Context) (string, error) {
		answer, err := c.runtime.PortForward(ctx, &runtimeapi.PortForwardRequest{PodSandboxId: r.SandboxID, Port: r.Ports})
		return answer.GetUrl(), err
	}, done)
}
