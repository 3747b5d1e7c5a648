package metrics

import (
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/imagegc"
	"github.com/troupe-dev/troupe/actors/pods"
	"github.com/troupe-dev/troupe/actors/port"
)

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

// Preempted implements pods.Counts.
func (m *Metrics) Preempted(short v1.ResourceName) {
	m.preemptions.WithLabelValues(string(short)).Inc()
}

// ImageRemoved implements images.Counts.
func (m *Metrics) ImageRemoved(why imagegc.Reason) {
	m.imagesRemoved.WithLabelValues(string(why)).Inc()
}

// Started implements podview.Counts.
func (m *Metrics) Started(s pods.Started) {
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
