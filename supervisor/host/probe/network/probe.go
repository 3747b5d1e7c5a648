package network

import (
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/troupe-dev/troupe/actors/decide/probe"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/internal/hostcall"
)

// probeDialer leaves no socket behind for a minute after each probe, as TCP
// would: there are many of them (kubernetes/kubernetes#89898).
func probeDialer() *net.Dialer {
	return &net.Dialer{
		KeepAlive: -1,
		Control: func(_, _ string, c syscall.RawConn) error {
			var err error
			if e := c.Control(func(fd uintptr) {
				err = syscall.SetsockoptLinger(int(fd), syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{Onoff: 1, Linger: 1})
			}); e != nil {
				return e
			}
			return err
		},
	}
}

// ProbeHTTP implements port.Network.
func (n *Network) ProbeHTTP(
	ctx context.Context, r probe.HTTP, timeout time.Duration, done func(port.HTTPAnswer, error),
) {
	u := r.URL()
	hostcall.Get(ctx, "ProbeHTTP", u.String(), func(ctx context.Context) (port.HTTPAnswer, error) {
		request, err := newRequest(ctx, u.String(), r.Headers, probeAgent)
		if err != nil {
			return port.HTTPAnswer{}, err
		}
		client := http.Client{Transport: n.probes, CheckRedirect: sameHost, Timeout: timeout}
		response, err := client.Do(request)
		if err != nil {
			return port.HTTPAnswer{}, networkError(ctx, u.String(), err)
		}
		defer response.Body.Close() //nolint:errcheck // it was read
		answer := port.HTTPAnswer{Status: response.StatusCode}
		if answer.Body, err = io.ReadAll(io.LimitReader(response.Body, bodyLimit)); err != nil {
			answer.Unread = err.Error()
		}
		return answer, nil
	}, done)
}

// ProbeTCP implements port.Network.
func (n *Network) ProbeTCP(ctx context.Context, r probe.TCP, timeout time.Duration, done func(error)) {
	address := net.JoinHostPort(r.Host, strconv.Itoa(r.Port))
	hostcall.Do(ctx, "ProbeTCP", address, func(ctx context.Context) error {
		d := probeDialer()
		d.Timeout = timeout
		conn, err := d.DialContext(ctx, "tcp", address)
		if err != nil {
			return networkError(ctx, "", err)
		}
		return conn.Close()
	}, done)
}

// connectAgain is how often a connection is tried within the timeout of a gRPC probe: a server that begins to listen in
// that time is healthy.
var connectAgain = grpc.ConnectParams{
	Backoff: backoff.Config{
		BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second,
	},
	MinConnectTimeout: 20 * time.Second,
}

// connected waits for a connection until ctx ends.
func connected(ctx context.Context, conn *grpc.ClientConn) bool {
	for {
		conn.Connect()
		state := conn.GetState()
		if state == connectivity.Ready {
			return true
		}
		if !conn.WaitForStateChange(ctx, state) {
			return false
		}
	}
}

// ProbeGRPC implements port.Network.
func (n *Network) ProbeGRPC(ctx context.Context, r probe.GRPC, timeout time.Duration, done func(string, error)) {
	address := net.JoinHostPort(r.Host, strconv.Itoa(r.Port))
	hostcall.Get(ctx, "ProbeGRPC", address, func(ctx context.Context) (string, error) {
		timed, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		conn, err := grpc.NewClient("passthrough:///"+address,
			grpc.WithUserAgent(probeAgent),
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithConnectParams(connectAgain),
			grpc.WithMaxHeaderListSize(headerLimit), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(headerLimit)),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
				return probeDialer().DialContext(ctx, "tcp", address)
			}))
		if err != nil {
			return "", hostcall.Failf(port.InvalidConfig, "%v", err)
		}
		defer conn.Close() //nolint:errcheck // nothing is written through it
		if !connected(timed, conn) {
			if ctx.Err() != nil {
				return "", ctx.Err()
			}
			return "", hostcall.Failf(port.Deadline, "timeout: failed to connect service %q within %v: %v", address, timeout,
				timed.Err())
		}
		answer, err := grpc_health_v1.NewHealthClient(conn).Check(timed,
			&grpc_health_v1.HealthCheckRequest{Service: r.Service})
		if err == nil {
			return answer.GetStatus().String(), nil
		}
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		s, _ := status.FromError(err)
		switch s.Code() {
		case codes.Unimplemented:
			return "", hostcall.Failf(port.Unsupported,
				"error: this server does not implement the grpc health protocol (grpc.health.v1.Health): %s", s.Message())
		case codes.DeadlineExceeded:
			return "", hostcall.Failf(port.Deadline, "timeout: health rpc did not complete within %v", timeout)
		default:
			return "", hostcall.Failf(port.Other, "error: health rpc probe failed: %v", err)
		}
	}, done)
}
