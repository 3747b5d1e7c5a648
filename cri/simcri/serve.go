package simcri

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/actors/port"
)

// maxRequestBytes bounds one request, as containerd does.
const maxRequestBytes = 16 << 20

// Serve serves the runtime as CRI v1, RuntimeService and ImageService, on a listener, until ctx
// ends; then it ends all calls and returns nil. The runtime's clock must advance by itself. Serve
// closes the listener. Options are further ones of the gRPC server, such as an interceptor.
//
// Sandboxes and containers made here keep their labels and annotations. Calls that need a real
// program (Exec, Attach, PortForward, checkpoints, metrics) are Unimplemented.
func Serve(ctx context.Context, listener net.Listener, r *Runtime, options ...grpc.ServerOption) error {
	g := grpc.NewServer(append(options, grpc.MaxRecvMsgSize(maxRequestBytes))...)
	s := &server{r: r}
	runtimev1.RegisterRuntimeServiceServer(g, s)
	runtimev1.RegisterImageServiceServer(g, s)
	stop := context.AfterFunc(ctx, g.Stop)
	defer stop()
	err := g.Serve(listener)
	if ctx.Err() != nil {
		g.Stop() // returns after all handlers
		return nil
	}
	return fmt.Errorf("serve the simulated runtime on %s: %w", listener.Addr(), err)
}

// server maps CRI messages to the runtime and back. An answer shows the state at the end of the
// call's latency.
type server struct {
	runtimev1.UnimplementedRuntimeServiceServer
	runtimev1.UnimplementedImageServiceServer
	r *Runtime
}

// wait makes an asynchronous call and waits for its answer, which comes at the latest when the
// call's context ends.
func wait[T any](call func(done func(T, error))) (T, error) {
	type answer struct {
		value T
		err   error
	}
	answered := make(chan answer, 1)
	call(func(v T, err error) { answered <- answer{v, err} })
	a := <-answered
	return a.value, grpcError(a.err)
}

func waitErr(call func(done func(error))) error {
	_, err := wait(func(done func(struct{}, error)) {
		call(func(err error) { done(struct{}{}, err) })
	})
	return err
}

// grpcError translates a failure as containerd does: to its code, or to its message where agents
// match that.
func grpcError(err error) error {
	if err == nil {
		return nil
	}
	e, ok := errors.AsType[*port.Error](err)
	if !ok {
		panic(fmt.Sprintf("simcri: %v is no port error", err))
	}
	detail := e.Detail
	if detail == "" {
		detail = e.Error()
	}
	switch e.Kind {
	case port.NotFound:
		return status.Error(codes.NotFound, e.Object+": "+detail)
	case port.ImageNotFound:
		return status.Error(codes.NotFound, detail)
	case port.Unavailable:
		return status.Error(codes.Unavailable, detail)
	case port.Deadline:
		return status.Error(codes.DeadlineExceeded, detail)
	case port.Canceled:
		return status.Error(codes.Canceled, detail)
	case port.InvalidConfig, port.InvalidImageName:
		return status.Error(codes.InvalidArgument, detail)
	case port.Unsupported:
		return status.Error(codes.Unimplemented, detail)
	case port.StateConflict, port.Stuck:
		return status.Error(codes.FailedPrecondition, detail)
	case port.NameReserved, port.NetworkNotReady, port.Other:
		return status.Error(codes.Unknown, detail)
	default:
		panic(fmt.Sprintf("simcri: kind %v has no gRPC code", e.Kind))
	}
}

// up refuses calls that do not reach the runtime while it is killed.
func (s *server) up() error {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	if s.r.down {
		return status.Error(codes.Unavailable, "the runtime is not running")
	}
	return nil
}

// fullID completes a truncated ID if it matches one object.
func fullID[T any](s *server, objects map[string]T, id string) string {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	if _, there := objects[id]; there || id == "" {
		return id
	}
	full := ""
	for candidate := range objects {
		if strings.HasPrefix(candidate, id) {
			if full != "" {
				return id
			}
			full = candidate
		}
	}
	if full == "" {
		return id
	}
	return full
}

func (s *server) sandboxID(id string) string   { return fullID(s, s.r.sandboxes, id) }
func (s *server) containerID(id string) string { return fullID(s, s.r.containers, id) }

func noProgram(method string) error {
	return status.Errorf(codes.Unimplemented, "%s: a simulated container has no program to connect to", method)
}

// Exec is Unimplemented.
func (s *server) Exec(context.Context, *runtimev1.ExecRequest) (*runtimev1.ExecResponse, error) {
	return nil, noProgram("Exec")
}

// Attach is Unimplemented.
func (s *server) Attach(context.Context, *runtimev1.AttachRequest) (*runtimev1.AttachResponse, error) {
	return nil, noProgram("Attach")
}

// PortForward is Unimplemented.
func (s *server) PortForward(context.Context, *runtimev1.PortForwardRequest) (*runtimev1.PortForwardResponse, error) {
	return nil, noProgram("PortForward")
}

// CheckpointContainer is Unimplemented.
func (s *server) CheckpointContainer(
	context.Context, *runtimev1.CheckpointContainerRequest,
) (*runtimev1.CheckpointContainerResponse, error) {
	return nil, noProgram("CheckpointContainer")
}
