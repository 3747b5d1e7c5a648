package network

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/troupe-dev/troupe/actors/decide/probe"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/hostcall"
)

// probeAgent is how servers know a probe: many tell them from requests of users
// by its beginning.
const probeAgent = "kube-probe/1.36"

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
	u := probeURL(r)
	hostcall.Get(ctx, "ProbeHTTP", u.String(), func(ctx context.Context) (port.HTTPAnswer, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
		if err != nil {
			return port.HTTPAnswer{}, hostcall.Failf(port.InvalidConfig, "%v", err)
		}
		probeHeaders(request, r)
		client := http.Client{Transport: n.probes, CheckRedirect: sameHost, Timeout: timeout}
		response, err := client.Do(request)
		if err != nil {
			return port.HTTPAnswer{}, probeError(ctx, err)
		}
		defer response.Body.Close() //nolint:errcheck // it was read
		body, err := io.ReadAll(io.LimitReader(response.Body, bodyLimit))
		if err != nil {
			return port.HTTPAnswer{}, probeError(ctx, err)
		}
		return port.HTTPAnswer{Status: response.StatusCode, Body: body}, nil
	}, done)
}

// probeURL is where a probe goes. What its path is not in the form of a URL is
// taken as a plain path.
func probeURL(r probe.HTTP) *url.URL {
	u, err := url.Parse(r.Path)
	if err != nil {
		u = &url.URL{Path: r.Path}
	}
	if u.Scheme = "http"; r.TLS {
		u.Scheme = "https"
	}
	u.Host = net.JoinHostPort(r.Host, strconv.Itoa(r.Port))
	return u
}

// probeHeaders sets the pod's own headers and those that it doesn't. An own one
// that is empty takes that away which would be sent in its place.
func probeHeaders(request *http.Request, r probe.HTTP) {
	for _, h := range r.Headers {
		request.Header.Add(h.Name, h.Value)
	}
	if _, own := request.Header["User-Agent"]; !own {
		request.Header.Set("User-Agent", probeAgent)
	}
	if accept, own := request.Header["Accept"]; !own {
		request.Header.Set("Accept", "*/*")
	} else if accept[0] == "" {
		request.Header.Del("Accept")
	}
	if host := request.Header.Get("Host"); host != "" {
		request.Host = host
	}
}

// ProbeTCP implements port.Network.
func (n *Network) ProbeTCP(ctx context.Context, r probe.TCP, timeout time.Duration, done func(error)) {
	address := net.JoinHostPort(r.Host, strconv.Itoa(r.Port))
	hostcall.Do(ctx, "ProbeTCP", address, func(ctx context.Context) error {
		d := probeDialer()
		d.Timeout = timeout
		conn, err := d.DialContext(ctx, "tcp", address)
		if err != nil {
			return probeError(ctx, err)
		}
		return conn.Close()
	}, done)
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
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
				return probeDialer().DialContext(ctx, "tcp", address)
			}))
		if err != nil {
			return "", hostcall.Failf(port.InvalidConfig, "%v", err)
		}
		defer conn.Close() //nolint:errcheck // nothing is written through it
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
		case codes.Unavailable:
			return "", hostcall.Failf(port.Unavailable, "error: failed to connect service at %q: %s", address, s.Message())
		default:
			return "", hostcall.Failf(port.Other, "error: health rpc probe failed: %v", err)
		}
	}, done)
}

// probeError keeps the words of the network: they are what people are shown.
func probeError(ctx context.Context, err error) error {
	var timed net.Error
	switch {
	case ctx.Err() != nil:
		return ctx.Err() // the caller's, not the probe's own
	case errors.As(err, &timed) && timed.Timeout():
		return hostcall.Failf(port.Deadline, "%v", err)
	case unreachable(err):
		return hostcall.Failf(port.Unavailable, "%v", err)
	}
	return hostcall.Failf(port.Other, "%v", err)
}
