package contract_test

import (
	"context"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/host/probe/network"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/contract"
)

// TestRealNetwork runs the suite on this machine's own.
func TestRealNetwork(t *testing.T) {
	contract.Network(t, func(t *testing.T) contract.NetworkSubject {
		return contract.NetworkSubject{
			Network: network.New(), Passing: contract.Really(),
			Serving: realServer(t, true), Unready: realServer(t, false), Closed: closedServer(t), Silent: silentServer(t),
		}
	})
}

func realServer(t *testing.T, serving bool) contract.Server {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !serving {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(web.Close)
	l := listen(t)
	state, s, ended := health.NewServer(), grpc.NewServer(), make(chan struct{})
	if !serving {
		state.SetServingStatus("", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	}
	grpc_health_v1.RegisterHealthServer(s, state)
	go func() {
		defer close(ended)
		s.Serve(l)
	}()
	t.Cleanup(func() {
		s.Stop()
		<-ended
	})
	return contract.Server{Host: "127.0.0.1", HTTP: portOf(web.Listener), GRPC: portOf(l)}
}

func closedServer(t *testing.T) contract.Server {
	l := listen(t)
	n := portOf(l)
	l.Close()
	return contract.Server{Host: "127.0.0.1", HTTP: n, GRPC: n}
}

func silentServer(t *testing.T) contract.Server {
	l, ended := listen(t), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-ended
	})
	return contract.Server{Host: "127.0.0.1", HTTP: portOf(l), GRPC: portOf(l)}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	return check.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
}

func portOf(l net.Listener) int {
	_, p, _ := net.SplitHostPort(l.Addr().String())
	n, _ := strconv.Atoi(p)
	return n
}

// TestSimulatedNetwork runs the suite on that of a simulated runtime.
func TestSimulatedNetwork(t *testing.T) {
	contract.Network(t, func(t *testing.T) contract.NetworkSubject {
		clock, passing := contract.Virtually()
		r, err := simcri.New(simcri.Config{Clock: clock, Rand: func(string) *rand.Rand { return rand.New(rand.NewPCG(1, 1)) }})
		if err != nil {
			t.Fatal(err)
		}
		r.MakeImagePresent(appImage, simcri.RegistryImage{})
		server := func(name string, annotations ...string) contract.Server {
			ip := simulatedPod(t, r, passing.Step, name, annotations)
			return contract.Server{Host: ip, HTTP: 80, GRPC: 81}
		}
		return contract.NetworkSubject{
			Network: r.Network(), Passing: passing,
			Serving: server("serving"), Unready: server("unready", "unhealthy-after", "0s"),
			Closed: server("closed", "startup-time", "1h"), Silent: server("silent", "probe-hang", "true"),
		}
	})
}

// simulatedPod makes a pod that is probed run, and gives its address.
func simulatedPod(t *testing.T, r *simcri.Runtime, step func() bool, name string, annotations []string) (ip string) {
	t.Helper()
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name), Annotations: map[string]string{}}}
	for i := 0; i < len(annotations); i += 2 {
		p.Annotations[simcri.AnnotationPrefix+annotations[i]] = annotations[i+1]
	}
	p.Spec.Containers = []v1.Container{{
		Name: "app", Image: appImage,
		ReadinessProbe: &v1.Probe{ProbeHandler: v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Path: "/ready", Port: intstr.FromInt32(80)}}},
	}}
	answered := 0
	await := func(n int) {
		for answered < n {
			if !step() {
				t.Fatal("no answer came")
			}
		}
	}
	ctx := context.Background()
	var box, id string
	got := func(to *string) func(string, error) {
		return func(v string, err error) {
			if err != nil {
				t.Fatal(err)
			}
			*to = v
			answered++
		}
	}
	r.RunPodSandbox(ctx, port.RunPodSandbox{Pod: p}, got(&box))
	await(1)
	r.CreateContainer(ctx, port.CreateContainer{Pod: p, Container: &p.Spec.Containers[0], SandboxID: box, ImageRef: appImage}, got(&id))
	await(2)
	r.StartContainer(ctx, id, func(err error) { got(&id)(id, err) })
	await(3)
	for _, seen := range r.Truth().Runtime.Pods {
		if seen.Ref.Name == name {
			ip = seen.Sandboxes[0].IPs[0]
		}
	}
	return ip
}
