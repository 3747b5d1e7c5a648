package metrics

import (
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/imagecache"
	"github.com/troupe-dev/troupe/actors/podset"
	"github.com/troupe-dev/troupe/actors/port"
)

// podMetrics are those of starts of pods, and of what is done for all of them.
type podMetrics struct {
	startTimes, sliTimes, totalTimes       prometheus.Histogram
	workerTimes, evictionAges, volumeTimes *prometheus.HistogramVec
	evictions, imagesRemoved, preemptions  *prometheus.CounterVec
	plainHooks                             prometheus.Counter
	containersPerPod                       prometheus.Histogram
}

func (m *Metrics) newPodMetrics() podMetrics {
	return podMetrics{
		startTimes: m.histogram("kubelet_pod_start_duration_seconds",
			"Duration in seconds from kubelet seeing a pod for the first time to the pod starting to run", startBuckets),
		sliTimes: m.histogram("kubelet_pod_start_sli_duration_seconds",
			"Duration in seconds to start a pod, excluding time to pull images and run init containers, measured from pod "+
				"creation timestamp to when all its containers are reported as started", startBuckets),
		totalTimes: m.histogram("kubelet_pod_start_total_duration_seconds",
			"Duration in seconds to start a pod since creation, including time to pull images and run init containers, "+
				"measured from pod creation timestamp to when all its containers are reported as started", startBuckets),
		workerTimes: m.histograms("kubelet_pod_worker_duration_seconds",
			"Duration in seconds to start a single pod: from when its actor received it until all its containers have "+
				"started. The only operation type is create.", prometheus.DefBuckets, "operation_type"),
		evictions: m.counters("kubelet_evictions", "Cumulative number of pod evictions by eviction signal",
			"eviction_signal"),
		preemptions: m.counters("kubelet_preemptions", "Cumulative number of pod preemptions by preemption resource",
			"preemption_signal"),
		plainHooks: m.counter("kubelet_lifecycle_handler_http_fallbacks_total",
			"Number of lifecycle hooks with scheme HTTPS whose server answered without TLS."),
		evictionAges: m.histograms("kubelet_eviction_stats_age_seconds",
			"Time between when stats are collected, and when pod is evicted based on those stats by eviction signal",
			prometheus.DefBuckets, "eviction_signal"),
		volumeTimes: m.histograms("kubelet_volume_metric_collection_duration_seconds",
			"Duration in seconds to calculate volume stats", prometheus.DefBuckets, "metric_source"),
		imagesRemoved: m.counters("kubelet_image_garbage_collected_total",
			"Total number of images garbage collected by the kubelet, whether through disk usage or image age.", "reason"),
		containersPerPod: m.histogram("kubelet_containers_per_pod_count", "The number of containers per pod.",
			prometheus.ExponentialBuckets(1, 2, 5)),
	}
}

// pull is when the images of a pod were pulled.
type pull struct{ begun, ended time.Time }

// pullLimit is how many pods that pull or are resized are remembered, so that pods that never start do not add up. If a
// pod was forgotten, the duration of its start includes its pull.
const pullLimit = 1024

// Events wraps r and records pulls, hooks, resizes and rejected pods.
func (m *Metrics) Events(r port.Recorder) port.Recorder { return recorder{r, m} }

type recorder struct {
	to      port.Recorder
	metrics *Metrics
}

// Record implements port.Recorder.
func (r recorder) Record(e port.Event) {
	if e.Pod != nil && (e.Reason == "Pulling" || e.Reason == "Pulled") {
		r.metrics.pulled(e.Pod.UID, e.Reason == "Pulled", e.At)
	}
	if e.Pod != nil && strings.HasPrefix(e.Reason, "Resize") {
		r.metrics.resized(e.Pod.UID, e.Reason, e.At)
	}
	switch e.Reason {
	case "LifecycleHTTPFallback":
		r.metrics.plainHooks.Inc()
	case volumeLimit:
		r.metrics.Rejected(e.Reason)
	}
	r.to.Record(e)
}

func (m *Metrics) pulled(uid types.UID, ended bool, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.pulls[uid]
	switch {
	case p == nil && ended:
		return // the image was there
	case p == nil:
		if len(m.pulls) >= pullLimit {
			clear(m.pulls)
		}
		m.pulls[uid] = &pull{begun: at}
	case ended:
		p.ended = at
	}
}

// Evicted implements eviction.Counts.
func (m *Metrics) Evicted(signal string) { m.evictions.WithLabelValues(signal).Inc() }

// StatsAge implements eviction.Counts.
func (m *Metrics) StatsAge(signal string, age time.Duration) {
	m.evictionAges.WithLabelValues(signal).Observe(age.Seconds())
}

// VolumeMeasured takes note of how a volume was measured and how long that took: it is what a host.Config tells.
func (m *Metrics) VolumeMeasured(source string, took time.Duration) {
	m.volumeTimes.WithLabelValues(source).Observe(took.Seconds())
}

// Preempted implements podset.Counts.
func (m *Metrics) Preempted(short v1.ResourceName) {
	m.preemptions.WithLabelValues(string(short)).Inc()
}

// ImageRemoved implements images.Counts.
func (m *Metrics) ImageRemoved(why imagecache.Reason) {
	m.imagesRemoved.WithLabelValues(string(why)).Inc()
}

// Started implements podview.Counts.
func (m *Metrics) Started(s podset.Started) {
	m.mu.Lock()
	var pulling time.Duration
	if p := m.pulls[s.Pod.UID]; p != nil {
		delete(m.pulls, s.Pod.UID)
		pulling = max(0, p.ended.Sub(p.begun))
	}
	m.mu.Unlock()
	seen := s.At.Sub(s.Seen).Seconds()
	m.startTimes.Observe(seen)
	m.containersPerPod.Observe(float64(len(s.Pod.Spec.Containers)))
	m.workerTimes.WithLabelValues("create").Observe(seen)
	created := s.Pod.CreationTimestamp.Time
	if created.IsZero() { // a static pod: its creation time is unknown
		return
	}
	total := s.At.Sub(created)
	m.totalTimes.Observe(total.Seconds())
	if !stateful(&s.Pod.Spec) {
		m.sliTimes.Observe(max(0, total-pulling-initializing(s.Status)).Seconds())
	}
}

// stateful says whether a pod has a volume that its node can't make by itself: the objective for starts does not count
// it (sig-scalability, "Pod startup latency SLI").
func stateful(spec *v1.PodSpec) bool {
	return slices.ContainsFunc(spec.Volumes, func(v v1.Volume) bool {
		return v.Secret == nil && v.ConfigMap == nil && v.DownwardAPI == nil && v.EmptyDir == nil && v.Projected == nil
	})
}

// initializing is how long init containers that ended ran, one after the other.
func initializing(s *v1.PodStatus) (sum time.Duration) {
	for i := range s.InitContainerStatuses {
		if t := s.InitContainerStatuses[i].State.Terminated; t != nil {
			sum += max(0, t.FinishedAt.Sub(t.StartedAt.Time))
		}
	}
	return sum
}
