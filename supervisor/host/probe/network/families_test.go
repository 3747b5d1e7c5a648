package network

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/troupe-dev/troupe/actors/decide/probe"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

// TestProbesOfEachFamily: a pod's address may be of either, with a loopback address of this machine for it. One without
// IPv6 has one case less.
func TestProbesOfEachFamily(t *testing.T) {
	families := 0
	for _, host := range []string{"127.0.0.1", "::1"} {
		l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
		if err != nil {
			t.Logf("this machine has no %s: %v", host, err)
			continue
		}
		families++
		_, number := hostPort(t, l.Addr().String())
		web := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, r.Host)
		})}}
		web.Start()
		a, err := probeHTTP(t.Context(), probe.HTTP{Host: host, Port: number, Path: "/"}, time.Minute)
		if err != nil || string(a.Body) != l.Addr().String() {
			t.Errorf("%s: a server was asked for %s, %v", host, a.Body, err)
		}
		check.Error(t, hosttest.Wait(func(done func(error)) {
			New().ProbeTCP(t.Context(), probe.TCP{Host: host, Port: number}, time.Minute, done)
		}))
		web.Close()

		l = check.Value(net.Listen("tcp", net.JoinHostPort(host, "0")))(t)
		_, number = hostPort(t, l.Addr().String())
		s := grpc.NewServer()
		grpc_health_v1.RegisterHealthServer(s, health.NewServer())
		ended := make(chan error, 1)
		go func() { ended <- s.Serve(l) }()
		check.Error(t, hosttest.Wait(func(done func(error)) {
			New().ProbeGRPC(t.Context(), probe.GRPC{Host: host, Port: number}, time.Minute, func(status string, err error) {
				if err == nil && status != "SERVING" {
					err = fmt.Errorf("the server is %s", status)
				}
				done(err)
			})
		}))
		s.Stop()
		check.Error(t, <-ended)
	}
	if families == 0 {
		t.Error("no family was tried")
	}
}
