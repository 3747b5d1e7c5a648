// Package metrics serves /metrics, /metrics/probes and /metrics/slis: the metrics of the kubelet under
// their usual names, and additional ones with the prefix troupe_.
//
// Counters count where calls are made: in observers of the runtime client, of the API
// client, and of pod starts. Values of actors and of the kernel are read during a scrape;
// nothing runs between two scrapes. The number of label values does not depend on the
// number of pods, except for probes, volumes and logs, whose series end with their pods.
package metrics

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"k8s.io/apimachinery/pkg/types"
)

// Config describes the node of the metrics.
type Config struct {
	Node string
	// Version is the node's shown version (v1.36.6+troupe.devel), Commit and Built are from the
	// build information.
	Version, Commit string
	CgroupV2        bool
	// Began is when the process did. Booted is when the machine did; zero if it is not known.
	Began, Booted time.Time
}

// Validate says what is missing.
func (c Config) Validate() error {
	if c.Node == "" || c.Version == "" || c.Began.IsZero() {
		return errors.New("metrics: Node, Version and Began are required")
	}
	return nil
}

// Metrics are the counters of one agent. Its methods may be called from anywhere,
// and do not block.
type Metrics struct {
	config   Config
	registry *prometheus.Registry
	slis     slis
	// These and Metrics are a node's observer (actors/node).
	*assigned
	*claims
	*counted
	podCertificates podCertificates

	// Each subject has its metrics in a file of its own, beside what counts them.
	runtimeMetrics
	podMetrics
	shutdownMetrics
	serverMetrics
	requestMetrics
	csiMetrics
	pulling       *pulling
	podResources  *podResources
	startup       startup
	droppedEvents *prometheus.CounterVec

	mu       sync.Mutex
	lastList time.Time // when the last list of the runtime was begun
	pulls    map[types.UID]*pull
	// resizes are when the allocated resizes of pods began.
	resizes map[types.UID]time.Time
	// creating are containers that are made and not yet started, by ID.
	creating map[string]creation
	// failedUsers are the sandboxes that userPodFailed has counted.
	failedUsers map[string]bool
}

// Buckets of a kubelet, so that panels and alerts that name one still fit.
var (
	runtimeBuckets = prometheus.ExponentialBuckets(.005, 2.5, 14)
	startBuckets   = []float64{0.5, 1, 2, 3, 4, 5, 6, 8, 10, 20, 30, 45, 60, 120, 180, 240, 300, 360, 480, 600, 900,
		1200, 1800, 2700, 3600}
	requestBuckets = []float64{0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0}
)

// New makes counters that are all 0.
func New(c Config) (*Metrics, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	m := &Metrics{config: c, registry: prometheus.NewRegistry(), pulls: map[types.UID]*pull{},
		resizes: map[types.UID]time.Time{}, creating: map[string]creation{}, failedUsers: map[string]bool{}}
	m.slis = newSLIs(c.Began)
	m.runtimeMetrics, m.podMetrics, m.shutdownMetrics = m.newRuntimeMetrics(), m.newPodMetrics(), m.newShutdownMetrics()
	m.serverMetrics, m.requestMetrics, m.csiMetrics = m.newServerMetrics(), m.newRequestMetrics(), m.newCSIMetrics()
	m.assigned, m.claims, m.pulling = m.newAssigned(), m.newClaims(), m.newPulling()
	m.podResources, m.counted = m.newPodResources(), m.newCounted()
	m.droppedEvents = m.counters("troupe_events_dropped_total",
		"Cumulative number of events that were not written to the apiserver, by reason: queue_full (too many events in "+
			"the queue), refused (rejected by the apiserver) or agent_ended (the agent stopped first).", "reason")
	for _, why := range []string{EventQueueFull, EventRefused, EventAgentEnded} {
		m.droppedEvents.WithLabelValues(why) // so that it is there before the first
	}

	m.info("kubelet_node_name", "The node's name. The count is always 1.", prometheus.Labels{"node": c.Node}, 1)
	version := 1.0
	if c.CgroupV2 {
		version = 2
	}
	m.info("kubelet_cgroup_version", "cgroup version on the hosts.", nil, version)
	m.info("kubernetes_build_info",
		"A metric with a constant '1' value labeled by the version in the node status and by build information.",
		buildLabels(c), 1)
	m.registry.MustRegister(contained{&m.startup},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.startup.config = c
	return m, nil
}

// Why an event was not written to the apiserver.
const (
	EventQueueFull  = "queue_full"
	EventRefused    = "refused"
	EventAgentEnded = "agent_ended"
)

// EventDropped counts an event that was not written to the apiserver.
func (m *Metrics) EventDropped(why string) { m.droppedEvents.WithLabelValues(why).Inc() }

// buildLabels are those of a Kubernetes component.
func buildLabels(c Config) prometheus.Labels {
	major, rest, _ := strings.Cut(strings.TrimPrefix(c.Version, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	return prometheus.Labels{
		"git_version": c.Version, "git_commit": c.Commit, "major": major, "minor": minor,
		"go_version": runtime.Version(), "compiler": runtime.Compiler,
		"platform": fmt.Sprintf("%s/%s", runtime.GOOS, runtime.GOARCH),
	}
}

// register adds a collector to those of the agent.
func register[C prometheus.Collector](m *Metrics, c C) C {
	m.registry.MustRegister(c)
	return c
}

func (m *Metrics) counters(name, help string, labels ...string) *prometheus.CounterVec {
	return register(m, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels))
}

func (m *Metrics) counter(name, help string) prometheus.Counter {
	return register(m, prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help}))
}

func (m *Metrics) gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return register(m, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels))
}

func (m *Metrics) gauge(name, help string) prometheus.Gauge {
	return register(m, prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help}))
}

func (m *Metrics) histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	o := prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}
	return register(m, prometheus.NewHistogramVec(o, labels))
}

func (m *Metrics) histogram(name, help string, buckets []float64) prometheus.Histogram {
	return register(m, prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}))
}

// info is a value that does not change.
func (m *Metrics) info(name, help string, labels prometheus.Labels, value float64) {
	register(m, prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels})).Set(value)
}
