package port

import "context"

// Streams is the part of a runtime that opens streams into what runs (CRI v1 Exec, Attach and
// PortForward). The runtime does not stream through the call: it gives a URL of its own streaming
// server, which serves that one stream, once, if it is asked for soon (containerd: within a minute).
// A URL that is not used is forgotten there. All errors are *Error.
type Streams interface {
	// Exec asks for a stream to a command that is started when the stream is opened.
	Exec(ctx context.Context, r ExecStream, done func(url string, err error))
	// Attach asks for a stream to the process that the container runs.
	Attach(ctx context.Context, r AttachStream, done func(url string, err error))
	// PortForward asks for streams into the network of a sandbox.
	PortForward(ctx context.Context, r PortForwardStream, done func(url string, err error))
}

// StreamOptions says what of a process is streamed: at least one of the three. With TTY stdout and
// stderr are one, and Stderr must not be asked for.
type StreamOptions struct{ Stdin, Stdout, Stderr, TTY bool }

// ExecStream asks for a command in a running container.
type ExecStream struct {
	ContainerID string
	Command     []string
	StreamOptions
}

// AttachStream asks for the process of a running container. TTY must be as the container was made.
type AttachStream struct {
	ContainerID string
	StreamOptions
}

// PortForwardStream asks for connections to ports of a sandbox. Ports is needed by clients that can't
// name a port themselves, those of plain WebSockets; it may be empty for all others.
type PortForwardStream struct {
	SandboxID string
	Ports     []int32
}
