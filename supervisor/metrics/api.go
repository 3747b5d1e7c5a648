package metrics

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/apiclient/kube"
)

// requestMetrics are those of requests to the apiserver.
type requestMetrics struct {
	requests     *prometheus.CounterVec
	requestTimes *prometheus.HistogramVec
}

func (m *Metrics) newRequestMetrics() requestMetrics {
	return requestMetrics{
		requests: m.counters("rest_client_requests_total",
			"Number of HTTP requests, partitioned by status code, method, and host.", "code", "host", "method"),
		requestTimes: m.histograms("rest_client_request_duration_seconds",
			"Request latency in seconds until the response starts. Broken down by verb, and host.",
			requestBuckets, "host", "verb"),
	}
}

// Request counts a request to the apiserver: it is what a kube.Config observes with.
func (m *Metrics) Request(r kube.Request) {
	code := "<error>" // as client-go has it
	if r.Code != 0 {
		code = strconv.Itoa(r.Code)
	}
	m.requests.WithLabelValues(code, r.Host, r.Method).Inc()
	m.requestTimes.WithLabelValues(r.Host, r.Method).Observe(r.Took.Seconds())
}

// API wraps a and records the startup times of the node.
func (m *Metrics) API(a port.API) port.API { return &api{API: a, startup: &m.startup} }

type api struct {
	port.API
	startup *startup
}

// Create implements port.API.
func (a *api) Create(ctx context.Context, o port.APIObject, done func(port.APIObject, error)) {
	if _, is := o.(*v1.Node); !is {
		a.API.Create(ctx, o, done)
		return
	}
	a.startup.begin()
	a.API.Create(ctx, o, func(got port.APIObject, err error) {
		a.startup.wrote(got, err, true)
		done(got, err)
	})
}

// Patch implements port.API.
func (a *api) Patch(ctx context.Context, p port.APIPatch, done func(port.APIObject, error)) {
	if p.Key.Kind != port.NodeKind {
		a.API.Patch(ctx, p, done)
		return
	}
	a.startup.begin()
	a.API.Patch(ctx, p, func(got port.APIObject, err error) {
		a.startup.wrote(got, err, false)
		done(got, err)
	})
}

// startup is how long it took the node to be there. It is a collector of four gauges, and of the sum of the last
// three, each there once it is known, of a Node that this agent has made.
type startup struct {
	config Config
	mu     sync.Mutex
	// asked is when it was first asked for to be registered, registered when it was,
	// ready when it first showed itself ready.
	asked, registered, ready time.Time
}

func (s *startup) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked.IsZero() {
		s.asked = time.Now()
	}
}

// wrote takes note of an answer. Of a Node that was there before the agent, nothing is told: it did not start up.
func (s *startup) wrote(o port.APIObject, err error, made bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, is := o.(*v1.Node)
	if err != nil || !is || !s.ready.IsZero() {
		return
	}
	now := time.Now()
	switch {
	case !s.registered.IsZero():
	case made:
		s.registered = now
	default:
		return
	}
	for i := range n.Status.Conditions {
		if c := &n.Status.Conditions[i]; c.Type == v1.NodeReady && c.Status == v1.ConditionTrue {
			s.ready = now
		}
	}
}

var (
	preAgent = prometheus.NewDesc("kubelet_node_startup_pre_kubelet_duration_seconds",
		"Duration in seconds of node startup before kubelet starts.", nil, nil)
	preRegistration = prometheus.NewDesc("kubelet_node_startup_pre_registration_duration_seconds",
		"Duration in seconds of node startup before registration.", nil, nil)
	registration = prometheus.NewDesc("kubelet_node_startup_registration_duration_seconds",
		"Duration in seconds of node startup during registration.", nil, nil)
	postRegistration = prometheus.NewDesc("kubelet_node_startup_post_registration_duration_seconds",
		"Duration in seconds of node startup after registration.", nil, nil)
	wholeStartup = prometheus.NewDesc("kubelet_node_startup_duration_seconds",
		"Duration in seconds of node startup in total, from the start of the process.", nil, nil)
)

// Describe implements prometheus.Collector.
func (s *startup) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{preAgent, preRegistration, registration, postRegistration, wholeStartup} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (s *startup) Collect(to chan<- prometheus.Metric) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.registered.IsZero() {
		return
	}
	for _, v := range []struct {
		desc        *prometheus.Desc
		since, till time.Time
	}{
		{preAgent, s.config.Booted, s.config.Began},
		{preRegistration, s.config.Began, s.asked}, {registration, s.asked, s.registered},
		{postRegistration, s.registered, s.ready}, {wholeStartup, s.config.Began, s.ready},
	} {
		if !v.since.IsZero() && !v.till.IsZero() {
			to <- prometheus.MustNewConstMetric(v.desc, prometheus.GaugeValue, v.till.Sub(v.since).Seconds())
		}
	}
}
