package tracing

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/rs/zerolog"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthapi "google.golang.org/grpc/health/grpc_health_v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	api "k8s.io/component-base/tracing/api/v1"

	"github.com/troupe-dev/troupe/actors/podset"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/fakecollector"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, endpoint string, rate int32) *Tracing {
	t.Helper()
	out := check.Value(Start(t.Context(), Config{
		Settings: &api.TracingConfiguration{Endpoint: &endpoint, SamplingRatePerMillion: &rate},
		Node:     "n1", Version: "v1", Log: zerolog.Nop(),
	}))(t)
	return out
}

var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// work makes one span of each kind.
func work(t *testing.T, tr *Tracing, endpoint string) {
	t.Helper()
	tr.PodStarted(podset.Started{
		Pod:  &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u1"}},
		Seen: began, At: began.Add(3 * time.Second),
	})
	conn, err := grpc.NewClient(endpoint, append(tr.Dial(), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // a test
	check.Value(healthapi.NewHealthClient(conn).Check(t.Context(), &healthapi.HealthCheckRequest{}))(t)
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		// The server sets deadlines, and streams flush.
		c := http.NewResponseController(w)
		check.Error(t, c.SetWriteDeadline(time.Now().Add(time.Minute)))
		check.Error(t, c.Flush())
		io.WriteString(w, "ok") //nolint:errcheck // the client checks
	})
	server := httptest.NewServer(tr.Around()(h, func(*http.Request) string { return "GET /pods" }))
	defer server.Close()
	r := check.Value(http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/pods", nil))(t)
	r.Header.Set("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	answer := check.Value(server.Client().Do(r))(t)
	defer answer.Body.Close() //nolint:errcheck // it is read
	check.Equal(t, string(check.Value(io.ReadAll(answer.Body))(t)), "ok", "it")
}

// TestSpans: all kinds of spans come to the collector before the end.
func TestSpans(t *testing.T) {
	c := fakecollector.Start(t)
	tr := start(t, c.Endpoint, 1_000_000)
	work(t, tr, c.Endpoint)
	tr.Close()
	of := c.Resource()
	if of["service.name"] != "kubelet" || of["host.name"] != "n1" || of["service.version"] != "v1" {
		t.Errorf("resource %v", of)
	}
	one := func(name string) *otlp.Span {
		found := c.Spans(name)
		if len(found) != 1 {
			t.Fatalf("%d spans are %s, want 1 of %v", len(found), name, c.Spans(""))
		}
		return found[0]
	}
	pod, call, request := one("syncPod"), one("grpc.health.v1.Health/Check"), one("GET /pods")
	if time.Duration(pod.EndTimeUnixNano-pod.StartTimeUnixNano) != 3*time.Second ||
		pod.StartTimeUnixNano != uint64(began.UnixNano()) {
		t.Errorf("syncPod is from %d to %d", pod.StartTimeUnixNano, pod.EndTimeUnixNano)
	}
	attributes := fakecollector.Attributes(pod)
	for key, want := range map[string]string{
		"k8s.pod": "default/web", "k8s.pod.name": "web", "k8s.namespace.name": "default", "k8s.pod.uid": "u1",
		"k8s.pod.update_type": "create",
	} {
		check.Equal(t, attributes[key], want, "%s", key)
	}
	// Who calls is not trusted with the choice of the trace: a link, as the kubelet's.
	if len(request.ParentSpanId) != 0 || len(request.Links) != 1 {
		t.Errorf("parent %x, %d links", request.ParentSpanId, len(request.Links))
	}
	if request.Kind != otlp.Span_SPAN_KIND_SERVER || call.Kind != otlp.Span_SPAN_KIND_CLIENT {
		t.Errorf("kinds %v, %v", request.Kind, call.Kind)
	}
}

// TestRateZero: nothing is sampled that nobody asks for.
func TestRateZero(t *testing.T) {
	c := fakecollector.Start(t)
	tr := start(t, c.Endpoint, 0)
	work(t, tr, c.Endpoint)
	tr.Close()
	check.None(t, c.Spans(""), "spans")
}

// TestDeadCollector: spans cost no time, however many there are, and the end waits no longer than its limit.
func TestDeadCollector(t *testing.T) {
	closed := check.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	closed.Close() //nolint:errcheck // nobody listens there
	for name, endpoint := range map[string]string{
		"nobody listens": closed.Addr().String(), "it does not answer": fakecollector.Hanging(t).Endpoint,
	} {
		t.Run(name, func(t *testing.T) {
			tr := start(t, endpoint, 1_000_000)
			pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
			// The queue has room for 2048, and is emptied once in many seconds: if spans waited for it, these would
			// take minutes.
			before := time.Now()
			for range 20_000 {
				tr.PodStarted(podset.Started{Pod: pod, Seen: began, At: began})
			}
			check.AtMost(t, time.Since(before), time.Minute, "the spans took")
			before = time.Now()
			tr.Close()
			check.AtMost(t, time.Since(before), flushLimit+3*time.Second, "the end took")
		})
	}
}

// TestOff: without settings there is nothing that could cost something.
func TestOff(t *testing.T) {
	tr, err := Start(t.Context(), Config{})
	if tr != nil || err != nil {
		t.Fatalf("%v, %v", tr, err)
	}
	if tr.Dial() != nil || tr.Around() != nil {
		t.Error("there is an interceptor or a handler")
	}
	started := podset.Started{Pod: &v1.Pod{}}
	check.Count(t, testing.AllocsPerRun(100, func() { tr.PodStarted(started) }), 0, "%v allocations of a pod's start")
	tr.Close()
}
