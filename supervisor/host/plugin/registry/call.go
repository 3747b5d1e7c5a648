package registry

import (
	"context"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc"
	grpcbackoff "google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/troupe-dev/troupe/actors/port"
)

// messageLimit bounds what a plugin says at once, as for a kubelet: in memory it may take 40 times as much.
const messageLimit = 4 << 20

// Dial makes a connection to a plugin. It is made when it is first used.
func Dial(endpoint string, options ...grpc.DialOption) (*grpc.ClientConn, error) {
	var dialer net.Dialer
	return grpc.NewClient("passthrough:///"+endpoint, append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, path string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", path)
		}),
		grpc.WithAuthority("localhost"), grpc.WithIdleTimeout(0), grpc.WithDisableServiceConfig(), grpc.WithDisableRetry(),
		grpc.WithNoProxy(), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(messageLimit)),
	}, options...)...)
}

// Reconnect is for connections that can't be made. A driver that has restarted is soon there.
var Reconnect = grpc.ConnectParams{
	Backoff: grpcbackoff.Config{
		BaseDelay: 100 * time.Millisecond, Multiplier: 2, Jitter: 0.2, MaxDelay: 5 * time.Second,
	},
	MinConnectTimeout: 5 * time.Second,
}

// maxDetail bounds the plugin's message, which goes into a pod's status.
const maxDetail = 2048

// Bounded is a text of a plugin as people see it: short, and valid UTF-8.
func Bounded(text string) string {
	if len(text) > maxDetail {
		return strings.ToValidUTF8(text[:maxDetail], "") + "…"
	}
	return strings.ToValidUTF8(text, "�")
}

// Failure is the error of a call of a plugin.
func Failure(ctx context.Context, verb, object string, err error) error {
	e := &port.Error{Kind: port.Other, Verb: verb, Object: object, Detail: err.Error()}
	s, is := status.FromError(err)
	if is {
		e.Detail = s.Message()
	}
	e.Detail = Bounded(e.Detail)
	switch s.Code() { //nolint:exhaustive // the others are the plugin's own
	case codes.Unavailable, codes.Canceled: // also if the connection was closed because the plugin has gone
		e.Kind = port.Unavailable
	case codes.DeadlineExceeded:
		e.Kind = port.Deadline
	case codes.Unimplemented:
		e.Kind = port.Unsupported
	}
	if ctx.Err() != nil {
		e.Kind = port.Canceled
	}
	return e
}
