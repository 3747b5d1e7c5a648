// Package fakecollector is an OTLP collector of spans for tests.
package fakecollector

import (
	"context"
	"maps"
	"net"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthapi "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/troupe-dev/troupe/tests/check"
)

// Collector keeps the spans that it is sent. It serves gRPC's health service too, as a server to make calls to.
type Collector struct {
	collector.UnimplementedTraceServiceServer

	// Endpoint is its address.
	Endpoint string
	hang     bool

	mu    sync.Mutex
	spans []*otlp.Span
	of    map[string]string
}

// Start runs a collector until the test ends.
func Start(t *testing.T) *Collector { return start(t, false) }

// Hanging runs a collector that answers no export.
func Hanging(t *testing.T) *Collector { return start(t, true) }

func start(t *testing.T, hang bool) *Collector {
	t.Helper()
	listener := check.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	c := &Collector{Endpoint: listener.Addr().String(), hang: hang, of: map[string]string{}}
	server := grpc.NewServer()
	collector.RegisterTraceServiceServer(server, c)
	healthapi.RegisterHealthServer(server, health.NewServer())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		check.Error(t, <-ended)
	})
	return c
}

// Export implements collector.TraceServiceServer.
func (c *Collector) Export(ctx context.Context, r *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	if c.hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, rs := range r.ResourceSpans {
		for _, a := range rs.Resource.Attributes {
			c.of[a.Key] = a.Value.GetStringValue()
		}
		for _, ss := range rs.ScopeSpans {
			c.spans = append(c.spans, ss.Spans...)
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

// Spans are those of a name that have come so far, in that order; with an empty name all.
func (c *Collector) Spans(name string) (out []*otlp.Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if name == "" || s.Name == name {
			out = append(out, s)
		}
	}
	return out
}

// Resource are the attributes of who sent them.
func (c *Collector) Resource() map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.of)
}

// Attributes are those of a span that are text.
func Attributes(s *otlp.Span) map[string]string {
	out := map[string]string{}
	for _, a := range s.Attributes {
		out[a.Key] = a.Value.GetStringValue()
	}
	return out
}
