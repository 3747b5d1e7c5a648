package port

import "context"

// Streams is the part of a runtime that opens streams into containers and sandboxes (CRI v1 Exec,
// Attach and PortForward). The call itself does not stream: it returns a URL of the runtime's
// streaming server, which serves that one stream, once, if it is opened soon (containerd: within a
// minute). An unused URL expires. All errors are *Error.
type Streams interface {
	// Exec asks for a stream to a command that is started when the stream is opened.
	Exec(ctx context.Context, r ExecStream, done func(url string, err error))
	// Attach asks for a stream to the process that the container runs.
	Attach(ctx context.Context, r AttachStream, done func(url string, err error))
	// PortForward asks for streams into the network of a sandbox.
	PortForward(ctx context.Context, r PortForwardStream, done func(url string, err error))
	// Run is Runtime.ExecSync without a timeout for a client of the node, who gets all of the output: its limit is that
	// of the runtime's answers.
	Run(ctx context.Context, containerID string, command Command, done func(ExecResult, error))
}

// StreamOptions says which streams of a process are opened: at least one of the three. With TTY,
// stdout and stderr are one stream, and Stderr must be false.
type StreamOptions struct{ Stdin, Stdout, Stderr, TTY bool }

// ExecStream asks for a command in a running container.
type ExecStream struct {
	ContainerID string
	Command     []string
	StreamOptions
}

// AttachStream asks for the process of a running container. TTY must be the container's own.
type AttachStream struct {
	ContainerID string
	StreamOptions
}

// PortForwardStream asks for connections to ports of a sandbox. Ports is needed by clients of plain
// WebSockets, which can't name a port themselves; otherwise it may be empty.
type PortForwardStream struct {
	SandboxID string
	Ports     []int32
}
