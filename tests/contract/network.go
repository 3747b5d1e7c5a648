package contract

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/probe"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

// Server is where a server is to be asked, one way or another.
type Server struct {
	Host string
	// HTTP and GRPC are ports, which may be the same.
	HTTP, GRPC int
}

// NetworkSubject is one implementation of port.Network, with servers on it.
type NetworkSubject struct {
	Network port.Network
	// Serving answers well; Unready answers that it does not serve; nobody
	// listens at Closed; Silent takes connections and says nothing.
	Serving, Unready, Closed, Silent Server

	Passing
}

// networkSuite is what the tests of one subject share.
type networkSuite struct {
	*suite
	NetworkSubject
}

// Network runs the suite for port.Network. open is called once per test and
// cleans up after itself with t.Cleanup.
func Network(t *testing.T, open func(t *testing.T) NetworkSubject) {
	for _, c := range []struct {
		name string
		test func(*networkSuite)
	}{
		{"Answers", testNetworkAnswers},
		{"Refused", testNetworkRefused},
		{"Silence", testNetworkSilence},
		{"ContextEnded", testNetworkContextEnded},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := open(t)
			c.test(&networkSuite{suite: n.suite(t), NetworkSubject: n})
		})
	}
}

func (s *networkSuite) http(ctx context.Context, to Server, timeout time.Duration) *pending[port.HTTPAnswer] {
	return begin(s.suite, "ProbeHTTP", func(done func(port.HTTPAnswer, error)) {
		s.Network.ProbeHTTP(ctx, probe.HTTP{Host: to.Host, Port: to.HTTP, Path: "/ready"}, timeout, done)
	})
}

func (s *networkSuite) grpc(ctx context.Context, to Server, timeout time.Duration) *pending[string] {
	return begin(s.suite, "ProbeGRPC", func(done func(string, error)) {
		s.Network.ProbeGRPC(ctx, probe.GRPC{Host: to.Host, Port: to.GRPC}, timeout, done)
	})
}

func (s *networkSuite) tcp(ctx context.Context, to Server, timeout time.Duration) *pending[struct{}] {
	return beginErr(s.suite, "ProbeTCP", func(done func(error)) {
		s.Network.ProbeTCP(ctx, probe.TCP{Host: to.Host, Port: to.HTTP}, timeout, done)
	})
}

// get is a hook, which may ask for TLS.
func (s *networkSuite) get(ctx context.Context, to Server, tls bool) *pending[bool] {
	return begin(s.suite, "HTTPGet", func(done func(bool, error)) {
		url := probe.HTTP{TLS: tls, Host: to.Host, Port: to.HTTP, Path: "/ready"}.URL().String()
		s.Network.HTTPGet(ctx, port.HTTPGet{URL: url}, done)
	})
}

func testNetworkAnswers(s *networkSuite) {
	ctx := context.Background()
	if a := s.http(ctx, s.Serving, time.Minute).noError(); a.Status != http.StatusOK {
		s.Errorf("status %d of a server that serves", a.Status)
	}
	if a := s.http(ctx, s.Unready, time.Minute).noError(); a.Status < 400 {
		s.Errorf("status %d of a server that does not serve", a.Status)
	}
	check.Count(s, s.grpc(ctx, s.Serving, time.Minute).noError(), "SERVING", "%s of a server that serves")
	check.Count(s, s.grpc(ctx, s.Unready, time.Minute).noError(), "NOT_SERVING", "%s of a server that does not serve")
	s.tcp(ctx, s.Serving, time.Minute).noError()
	for _, tls := range []bool{false, true} { // none of the servers has a certificate
		check.Equal(s, s.get(ctx, s.Serving, tls).noError(), tls, "a hook without TLS, which was to have it: %v", tls)
	}
	s.get(ctx, s.Unready, false).noError() // it was asked
}

func testNetworkRefused(s *networkSuite) {
	ctx := context.Background()
	s.http(ctx, s.Closed, time.Minute).kind(port.Unavailable)
	s.tcp(ctx, s.Closed, time.Minute).kind(port.Unavailable)
	s.get(ctx, s.Closed, false).kind(port.Unavailable)
}

func testNetworkSilence(s *networkSuite) {
	const timeout = 300 * time.Millisecond
	begun := s.suite.Now()
	ctx := context.Background()
	a, b, c := s.http(ctx, s.Silent, timeout), s.grpc(ctx, s.Silent, timeout), s.grpc(ctx, s.Closed, timeout)
	a.kind(port.Deadline)
	b.kind(port.Deadline)
	c.kind(port.Deadline) // it is tried again until then
	if took := s.suite.Now().Sub(begun); took < timeout || took > 20*time.Second {
		s.Errorf("it took %v, want about %v", took, timeout)
	}
}

func testNetworkContextEnded(s *networkSuite) {
	ctx, cancel := s.context()
	a, b, c := s.http(ctx, s.Silent, time.Hour), s.grpc(ctx, s.Silent, time.Hour), s.get(ctx, s.Silent, false)
	s.pass(50 * time.Millisecond)
	begun := s.suite.Now()
	cancel()
	a.kind(port.Canceled)
	b.kind(port.Canceled)
	c.kind(port.Canceled)
	check.AtMost(s, s.suite.Now().Sub(begun), 20*time.Second, "it took")
	ended, cancel := s.context()
	cancel()
	s.http(ended, s.Serving, time.Minute).kind(port.Canceled)
	s.grpc(ended, s.Serving, time.Minute).kind(port.Canceled)
	s.tcp(ended, s.Serving, time.Minute).kind(port.Canceled)
}
