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
	// Began is when the process did.
	Began time.Time
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

	operations, operationErrors *prometheus.CounterVec
	operationTimes              *prometheus.HistogramVec
	sandboxTimes                *prometheus.HistogramVec
	sandboxErrors               *prometheus.CounterVec
	relistTimes, relistInterval prometheus.Histogram
	relisted                    prometheus.Gauge
	losingSupport               *prometheus.GaugeVec

	startedPods, podErrors             prometheus.Counter
	userPods, userPodErrors            prometheus.Counter
	startedContainers, containerErrors *prometheus.CounterVec
	startTimes                         prometheus.Histogram
	sliTimes, totalTimes               prometheus.Histogram
	workerTimes                        *prometheus.HistogramVec
	evictions, imagesRemoved           *prometheus.CounterVec
	preemptions                        *prometheus.CounterVec
	plainHooks                         prometheus.Counter
	evictionAges, volumeTimes          *prometheus.HistogramVec
	containersPerPod                   prometheus.Histogram
	shutdownBegan, shutdownEnded       prometheus.Gauge
	pullTimes                          *prometheus.HistogramVec
	pulling                            *pulling
	podResources                       *podResources
	csiCalls, storageTimes             *prometheus.HistogramVec

	served      *prometheus.CounterVec
	servedTimes *prometheus.HistogramVec
	inflight    *prometheus.GaugeVec

	requests     *prometheus.CounterVec
	requestTimes *prometheus.HistogramVec
	startup      startup

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
	operation := []string{"operation_type"}
	m.operations = m.counters("kubelet_runtime_operations_total",
		"Cumulative number of runtime operations by operation type.", operation...)
	m.operationErrors = m.counters("kubelet_runtime_operations_errors_total",
		"Cumulative number of runtime operation errors by operation type.", operation...)
	m.operationTimes = m.histograms("kubelet_runtime_operations_duration_seconds",
		"Duration in seconds of runtime operations. Broken down by operation type.", runtimeBuckets, operation...)
	m.sandboxTimes = m.histograms("kubelet_run_podsandbox_duration_seconds",
		"Duration in seconds of the run_podsandbox operations. Broken down by RuntimeClass.Handler.",
		prometheus.DefBuckets, "runtime_handler")
	m.sandboxErrors = m.counters("kubelet_run_podsandbox_errors_total",
		"Cumulative number of the run_podsandbox operation errors by RuntimeClass.Handler.", "runtime_handler")
	m.relistTimes = m.histogram("kubelet_pleg_relist_duration_seconds", "Duration in seconds for relisting pods in PLEG.",
		prometheus.DefBuckets)
	m.relistInterval = m.histogram("kubelet_pleg_relist_interval_seconds",
		"Interval in seconds between relisting in PLEG.", prometheus.DefBuckets)
	m.relisted = m.gauge("kubelet_pleg_last_seen_seconds", "Timestamp in seconds when PLEG was last seen active.")
	m.losingSupport = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "kubelet_cri_losing_support",
		Help: "the Kubernetes version that the currently running CRI implementation will lose support on if not upgraded.",
	}, []string{"version"})
	m.registry.MustRegister(m.losingSupport)

	m.startedPods = m.counter("kubelet_started_pods_total", "Cumulative number of pods started")
	m.podErrors = m.counter("kubelet_started_pods_errors_total", "Cumulative number of errors when starting pods")
	m.userPods = m.counter("kubelet_started_user_namespaced_pods_total",
		"Cumulative number of pods with user namespaces started.")
	m.userPodErrors = m.counter("kubelet_started_user_namespaced_pods_errors_total",
		"Cumulative number of errors when starting pods with user namespaces.")
	m.startedContainers = m.counters("kubelet_started_containers_total",
		"Cumulative number of containers started", "container_type")
	m.containerErrors = m.counters("kubelet_started_containers_errors_total",
		"Cumulative number of errors when starting containers", "container_type", "code")
	m.startTimes = m.histogram("kubelet_pod_start_duration_seconds",
		"Duration in seconds from kubelet seeing a pod for the first time to the pod starting to run", startBuckets)
	m.sliTimes = m.histogram("kubelet_pod_start_sli_duration_seconds",
		"Duration in seconds to start a pod, excluding time to pull images and run init containers, measured from pod "+
			"creation timestamp to when all its containers are reported as started", startBuckets)
	m.totalTimes = m.histogram("kubelet_pod_start_total_duration_seconds",
		"Duration in seconds to start a pod since creation, including time to pull images and run init containers, "+
			"measured from pod creation timestamp to when all its containers are reported as started", startBuckets)
	m.workerTimes = m.histograms("kubelet_pod_worker_duration_seconds",
		"Duration in seconds to start a single pod: from when its actor received it until all its containers have "+
			"started. The only operation type is create.", prometheus.DefBuckets, operation...)
	m.evictions = m.counters("kubelet_evictions", "Cumulative number of pod evictions by eviction signal",
		"eviction_signal")
	m.preemptions = m.counters("kubelet_preemptions", "Cumulative number of pod preemptions by preemption resource",
		"preemption_signal")
	m.plainHooks = m.counter("kubelet_lifecycle_handler_http_fallbacks_total",
		"Number of lifecycle hooks with scheme HTTPS whose server answered without TLS.")
	m.evictionAges = m.histograms("kubelet_eviction_stats_age_seconds",
		"Time between when stats are collected, and when pod is evicted based on those stats by eviction signal",
		prometheus.DefBuckets, "eviction_signal")
	m.volumeTimes = m.histograms("kubelet_volume_metric_collection_duration_seconds",
		"Duration in seconds to calculate volume stats", prometheus.DefBuckets, "metric_source")
	m.shutdownBegan = m.gauge("kubelet_graceful_shutdown_start_time_seconds",
		"Last graceful shutdown start time since unix epoch in seconds")
	m.shutdownEnded = m.gauge("kubelet_graceful_shutdown_end_time_seconds",
		"Last graceful shutdown end time since unix epoch in seconds")
	m.imagesRemoved = m.counters("kubelet_image_garbage_collected_total",
		"Total number of images garbage collected by the kubelet, whether through disk usage or image age.", "reason")
	m.containersPerPod = m.histogram("kubelet_containers_per_pod_count", "The number of containers per pod.",
		prometheus.ExponentialBuckets(1, 2, 5))
	m.pullTimes = m.histograms("kubelet_image_pull_duration_seconds", "Duration in seconds to pull an image.", pullBuckets,
		"image_size_in_bytes")

	m.assigned, m.claims, m.pulling, m.csiCalls = m.newAssigned(), m.newClaims(), m.newPulling(), m.newCSICalls()
	m.storageTimes, m.podResources, m.counted = m.newStorage(), m.newPodResources(), m.newCounted()

	request := []string{"method", "path", "server_type", "long_running"}
	m.served = m.counters("kubelet_http_requests_total",
		"Number of the http requests received since the server started", request...)
	m.servedTimes = m.histograms("kubelet_http_requests_duration_seconds", "Duration in seconds to serve http requests",
		prometheus.DefBuckets, request...)
	m.inflight = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "kubelet_http_inflight_requests",
		Help: "Number of the inflight http requests"}, request)
	m.registry.MustRegister(m.inflight)

	m.requests = m.counters("rest_client_requests_total",
		"Number of HTTP requests, partitioned by status code, method, and host.", "code", "host", "method")
	m.requestTimes = m.histograms("rest_client_request_duration_seconds",
		"Request latency in seconds until the response starts. Broken down by verb, and host.",
		requestBuckets, "host", "verb")
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

func (m *Metrics) counters(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	m.registry.MustRegister(c)
	return c
}

func (m *Metrics) counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	m.registry.MustRegister(c)
	return c
}

func (m *Metrics) gauge(name, help string) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	m.registry.MustRegister(g)
	return g
}

func (m *Metrics) histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	m.registry.MustRegister(h)
	return h
}

func (m *Metrics) histogram(name, help string, buckets []float64) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
	m.registry.MustRegister(h)
	return h
}

// info is a value that does not change.
func (m *Metrics) info(name, help string, labels prometheus.Labels, value float64) {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels})
	g.Set(value)
	m.registry.MustRegister(g)
}
