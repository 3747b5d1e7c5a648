// Package tracing exports spans of the agent to an OTLP collector (KubeletConfiguration's tracing, KEP-2831):
// calls to the runtime, requests to the servers of the node, and starts of pods. The names are the kubelet's.
//
// A collector that does not answer costs nothing but spans: they wait in a queue with a limit, and what does not
// fit is dropped.
package tracing

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	api "k8s.io/component-base/tracing/api/v1"

	"github.com/troupe-dev/troupe/actors/podset"
)

const (
	// service is the service.name of the kubelet, which dashboards look for.
	service = "kubelet"
	scope   = "github.com/troupe-dev/troupe"
	// flushLimit bounds how long the end of the agent waits for the collector.
	flushLimit = 2 * time.Second
	// quietTime is between two log lines about a collector that does not answer.
	quietTime = 10 * time.Minute
)

// Config says what to export and where.
type Config struct {
	// Settings are KubeletConfiguration's. nil is off.
	Settings *api.TracingConfiguration
	// Node and Version go with each span.
	Node, Version string
	Log           zerolog.Logger
}

// Tracing makes and exports spans. A nil *Tracing is off, and costs nothing.
type Tracing struct {
	provider    *sdk.TracerProvider
	exporter    sdk.SpanExporter
	propagators propagation.TextMapPropagator
	tracer      trace.Tracer
}

// Start begins to export. It does not wait for the collector.
func Start(ctx context.Context, c Config) (*Tracing, error) {
	s := c.Settings
	if s == nil {
		return nil, nil
	}
	options := []otlptracegrpc.Option{otlptracegrpc.WithInsecure()}
	if s.Endpoint != nil {
		options = append(options, otlptracegrpc.WithEndpoint(*s.Endpoint))
	}
	exporter, err := otlptracegrpc.New(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	// Without a rate, nothing: callers are not trusted with the choice, see Around.
	sampler := sdk.NeverSample()
	if s.SamplingRatePerMillion != nil && *s.SamplingRatePerMillion > 0 {
		sampler = sdk.TraceIDRatioBased(float64(*s.SamplingRatePerMillion) / 1e6)
	}
	otel.SetErrorHandler(&quiet{log: c.Log})
	t := &Tracing{
		exporter: exporter,
		provider: sdk.NewTracerProvider(
			sdk.WithSampler(sdk.ParentBased(sampler)),
			sdk.WithBatcher(exporter),
			sdk.WithResource(resource.NewSchemaless(
				attribute.String("service.name", service), attribute.String("service.version", c.Version),
				attribute.String("host.name", c.Node),
			)),
		),
		propagators: propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{}),
	}
	t.tracer = t.provider.Tracer(scope)
	return t, nil
}

// Close exports what is left, and waits for that no longer than 2 s.
func (t *Tracing) Close() {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushLimit)
	defer cancel()
	// The provider leaves the connection open if the collector does not take the spans in time.
	if t.provider.Shutdown(ctx) != nil {
		t.exporter.Shutdown(ctx) //nolint:errcheck // nobody is left to tell
	}
}

// Dial are the options of a connection to the runtime: a span for each call.
func (t *Tracing) Dial() []grpc.DialOption {
	if t == nil {
		return nil
	}
	return []grpc.DialOption{grpc.WithStatsHandler(otelgrpc.NewClientHandler(
		otelgrpc.WithTracerProvider(t.provider), otelgrpc.WithPropagators(t.propagators),
	))}
}

// Around is the Around of a serve.Config: a span for each request, linked to the caller's. nil if tracing is off.
func (t *Tracing) Around() func(http.Handler, func(*http.Request) string) http.Handler {
	if t == nil {
		return nil
	}
	return func(h http.Handler, name func(*http.Request) string) http.Handler {
		return otelhttp.NewHandler(h, service,
			otelhttp.WithTracerProvider(t.provider), otelhttp.WithPropagators(t.propagators),
			otelhttp.WithPublicEndpointFn(func(*http.Request) bool { return true }),
			otelhttp.WithSpanNameFormatter(func(_ string, r *http.Request) string { return name(r) }))
	}
}

// PodStarted is the span of the start of a pod: from when the node knew of it until all its containers had started.
func (t *Tracing) PodStarted(s podset.Started) {
	if t == nil {
		return
	}
	_, span := t.tracer.Start(context.Background(), "syncPod", trace.WithTimestamp(s.Seen), trace.WithAttributes(
		attribute.String("k8s.pod.uid", string(s.Pod.UID)), attribute.String("k8s.pod", s.Pod.Namespace+"/"+s.Pod.Name),
		attribute.String("k8s.pod.name", s.Pod.Name), attribute.String("k8s.namespace.name", s.Pod.Namespace),
		attribute.String("k8s.pod.update_type", "create"),
	))
	span.End(trace.WithTimestamp(s.At))
}

// quiet logs one of many errors of the exporter.
type quiet struct {
	log zerolog.Logger

	mu   sync.Mutex
	last time.Time
}

// Handle implements otel.ErrorHandler.
func (q *quiet) Handle(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if now := time.Now(); q.last.IsZero() || now.Sub(q.last) >= quietTime {
		q.last = now
		q.log.Warn().Str("error", err.Error()).Msg("cannot export spans (tracing.endpoint); they are dropped")
	}
}
