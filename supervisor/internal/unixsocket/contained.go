package unixsocket

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/troupe-dev/troupe/actors/rescue"
)

// Contained is an interceptor for gRPC servers: a panic of a handler is the answer of its call. gRPC itself, other than
// net/http, has it end the process.
func Contained(
	ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler,
) (answer any, err error) {
	defer rescue.Call(ctx, func(reason string) { answer, err = nil, status.Error(codes.Internal, reason) })
	return handle(ctx, request)
}
