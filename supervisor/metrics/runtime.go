package metrics

import (
	"context"
	"errors"
	"strings"
	"time"
	"unicode"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/containerplan"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/cri"
)

// runtimeMetrics are those of calls of the runtime, and of the pods and containers that it starts.
type runtimeMetrics struct {
	runtimeCalls, operationErrors      *prometheus.CounterVec
	operationTimes, sandboxTimes       *prometheus.HistogramVec
	sandboxErrors                      *prometheus.CounterVec
	relistTimes, relistInterval        prometheus.Histogram
	relisted                           prometheus.Gauge
	losingSupport                      *prometheus.GaugeVec
	startedPods, podErrors             prometheus.Counter
	userPods, userPodErrors            prometheus.Counter
	startedContainers, containerErrors *prometheus.CounterVec
	imageVolumes, imageVolumesMounted  prometheus.Counter
	imageVolumeErrors                  prometheus.Counter
}

func (m *Metrics) newRuntimeMetrics() runtimeMetrics {
	const method, handler = "operation_type", "runtime_handler"
	return runtimeMetrics{
		runtimeCalls: m.counters("kubelet_runtime_operations_total",
			"Cumulative number of runtime operations by operation type.", method),
		operationErrors: m.counters("kubelet_runtime_operations_errors_total",
			"Cumulative number of runtime operation errors by operation type.", method),
		operationTimes: m.histograms("kubelet_runtime_operations_duration_seconds",
			"Duration in seconds of runtime operations. Broken down by operation type.", runtimeBuckets, method),
		sandboxTimes: m.histograms("kubelet_run_podsandbox_duration_seconds",
			"Duration in seconds of the run_podsandbox operations. Broken down by RuntimeClass.Handler.",
			prometheus.DefBuckets, handler),
		sandboxErrors: m.counters("kubelet_run_podsandbox_errors_total",
			"Cumulative number of the run_podsandbox operation errors by RuntimeClass.Handler.", handler),
		relistTimes: m.histogram("kubelet_pleg_relist_duration_seconds", "Duration in seconds for relisting pods in PLEG.",
			prometheus.DefBuckets),
		relistInterval: m.histogram("kubelet_pleg_relist_interval_seconds",
			"Interval in seconds between relisting in PLEG.", prometheus.DefBuckets),
		relisted: m.gauge("kubelet_pleg_last_seen_seconds", "Timestamp in seconds when PLEG was last seen active."),
		losingSupport: m.gauges("kubelet_cri_losing_support",
			"the Kubernetes version that the currently running CRI implementation will lose support on if not upgraded.",
			"version"),
		startedPods: m.counter("kubelet_started_pods_total", "Cumulative number of pods started"),
		podErrors:   m.counter("kubelet_started_pods_errors_total", "Cumulative number of errors when starting pods"),
		userPods: m.counter("kubelet_started_user_namespaced_pods_total",
			"Cumulative number of pods with user namespaces started."),
		userPodErrors: m.counter("kubelet_started_user_namespaced_pods_errors_total",
			"Cumulative number of errors when starting pods with user namespaces."),
		startedContainers: m.counters("kubelet_started_containers_total",
			"Cumulative number of containers started", "container_type"),
		containerErrors: m.counters("kubelet_started_containers_errors_total",
			"Cumulative number of errors when starting containers", "container_type", "code"),
		imageVolumes: m.counter("kubelet_image_volume_requested_total", "Number of requested image volumes."),
		imageVolumesMounted: m.counter("kubelet_image_volume_mounted_succeed_total",
			"Number of successful image volume mounts."),
		imageVolumeErrors: m.counter("kubelet_image_volume_mounted_errors_total", "Number of failed image volume mounts."),
	}
}

// lastWithout is the release of Kubernetes whose kubelet does not start any more with a runtime that does not tell its
// cgroup driver (RuntimeConfig; KEP-4033).
const lastWithout = "1.38.0"

// Runtime counts a call to the runtime: it is what a cri.Config observes with.
func (m *Metrics) Runtime(c cri.Call) {
	if c.Method == "List" { // its two halves are counted
		if c.Object == "" {
			m.relist(c)
		}
		return
	}
	name := operation(c.Method)
	m.runtimeCalls.WithLabelValues(name).Inc()
	failed := m.operationErrors.WithLabelValues(name) // there from the first call on: a rate needs a 0
	if c.Err != nil {
		failed.Inc()
	}
	if c.Method == "RuntimeConfig" && port.KindOf(c.Err) == port.Unsupported {
		m.losingSupport.WithLabelValues(lastWithout).Set(1)
	}
	if c.Method != "GetContainerEvents" { // which lasts as long as the runtime
		m.operationTimes.WithLabelValues(name).Observe(c.Duration.Seconds())
	}
}

// relist counts a list of all that the runtime has.
func (m *Metrics) relist(c cri.Call) {
	m.relistTimes.Observe(c.Duration.Seconds())
	m.relisted.Set(float64(c.Start.Add(c.Duration).UnixNano()) / 1e9)
	m.mu.Lock()
	last := m.lastList
	if c.Start.After(last) {
		m.lastList = c.Start
	}
	m.mu.Unlock()
	if !last.IsZero() && c.Start.After(last) {
		m.relistInterval.Observe(c.Start.Sub(last).Seconds())
	}
}

// operation is a method of the CRI as a kubelet counts it: RunPodSandbox is
// run_podsandbox.
func operation(method string) string {
	if method == "UpdateContainerResources" {
		return "update_container"
	}
	var b strings.Builder
	for i, r := range strings.ReplaceAll(method, "PodSandbox", "Podsandbox") {
		if unicode.IsUpper(r) {
			if i > 0 {
				b.WriteByte('_')
			}
			r = unicode.ToLower(r)
		}
		b.WriteRune(r)
	}
	return b.String()
}

// Kinds of containers, as labels have them.
const (
	mainContainer      = "container"
	initContainer      = "init_container"
	ephemeralContainer = "ephemeral_container"
)

// creatingLimit bounds how many containers are remembered between being made and
// being started: one that never is would else be remembered for ever.
const creatingLimit = 4096

// Starts is r with its starts of sandboxes and containers counted.
func (m *Metrics) Starts(r port.Runtime) port.Runtime { return &starts{Runtime: r, metrics: m} }

// starts counts. All else is the runtime's.
type starts struct {
	port.Runtime
	metrics *Metrics
}

// RunPodSandbox implements port.Runtime.
func (s *starts) RunPodSandbox(ctx context.Context, r port.RunPodSandbox, done func(string, error)) {
	m := s.metrics
	own := podspec.OwnUsers(&r.Pod.Spec)
	m.startedPods.Inc()
	if own {
		m.userPods.Inc()
	}
	begun := time.Now()
	s.Runtime.RunPodSandbox(ctx, r, func(id string, err error) {
		m.sandboxTimes.WithLabelValues(r.RuntimeHandler).Observe(time.Since(begun).Seconds())
		if err != nil {
			m.podErrors.Inc()
			m.sandboxErrors.WithLabelValues(r.RuntimeHandler).Inc()
			if own {
				m.userPodErrors.Inc()
			}
		}
		done(id, err)
	})
}

// CreateContainer implements port.Runtime.
func (s *starts) CreateContainer(ctx context.Context, r port.CreateContainer, done func(string, error)) {
	m, made := s.metrics, creation{kind: kindOf(r.Pod, r.Container.Name)}
	if r.Attempt == 0 && podspec.OwnUsers(&r.Pod.Spec) {
		made.sandbox = r.SandboxID
	}
	m.startedContainers.WithLabelValues(made.kind).Inc()
	s.Runtime.CreateContainer(ctx, r, func(id string, err error) {
		m.imageVolumesOf(r.Mounts, err)
		if err != nil {
			m.containerErrors.WithLabelValues(made.kind, "CreateContainerError").Inc()
			m.userPodFailed(made.sandbox)
		} else {
			m.remember(id, made)
		}
		done(id, err)
	})
}

// imageVolumesOf counts the images that are mounted into a container that was made, or could not be. As with a kubelet,
// they are mounted if it could not be for another reason (kuberuntime's incrementImageVolumeMetrics).
func (m *Metrics) imageVolumesOf(mounts []containerplan.Mount, err error) {
	var failed *port.Error
	mounted := m.imageVolumesMounted
	if errors.As(err, &failed) && strings.HasPrefix(failed.Detail, imageVolumeFailed) {
		mounted = m.imageVolumeErrors
	}
	volumes := map[string]bool{}
	for i := range mounts {
		if mounts[i].Image != "" {
			volumes[mounts[i].Name] = true
			mounted.Inc()
		}
	}
	m.imageVolumes.Add(float64(len(volumes)))
}

// imageVolumeFailed is how a runtime begins to say that an image can't be mounted (k8s.io/cri-api/pkg/errors).
const imageVolumeFailed = "ImageVolumeMountFailed"

// StartContainer implements port.Runtime.
func (s *starts) StartContainer(ctx context.Context, id string, done func(error)) {
	s.Runtime.StartContainer(ctx, id, func(err error) {
		made := s.metrics.recall(id)
		if err != nil {
			s.metrics.containerErrors.WithLabelValues(made.kind, "RunContainerError").Inc()
			s.metrics.userPodFailed(made.sandbox)
		}
		done(err)
	})
}

// userPodFailed counts a pod with users of its own whose first containers can't be made or started: once for its
// sandbox, as a kubelet does, since this is where most users that can't be mapped are found (kuberuntime's SyncPod).
// Without a sandbox it counts nothing.
func (m *Metrics) userPodFailed(sandbox string) {
	if sandbox == "" {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failedUsers[sandbox] {
		return
	}
	if len(m.failedUsers) >= creatingLimit {
		clear(m.failedUsers)
	}
	m.failedUsers[sandbox] = true
	m.userPodErrors.Inc()
}

// creation is a container that is made and not yet started.
type creation struct {
	kind string
	// sandbox is that of a pod with users of its own, if this is the container's first start in the pod.
	sandbox string
}

func (m *Metrics) remember(id string, made creation) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.creating) >= creatingLimit {
		clear(m.creating)
	}
	m.creating[id] = made
}

// recall forgets a container, and says what it was: if unknown, of the kind that there is most of.
func (m *Metrics) recall(id string) creation {
	m.mu.Lock()
	defer m.mu.Unlock()
	made, ok := m.creating[id]
	delete(m.creating, id)
	if !ok {
		return creation{kind: mainContainer}
	}
	return made
}

func kindOf(p *v1.Pod, name string) string {
	_, kind := podspec.Find(&p.Spec, name)
	return typeOf(kind)
}

func typeOf(kind podspec.Kind) string {
	switch kind {
	case podspec.Init, podspec.Sidecar:
		return initContainer
	case podspec.Ephemeral:
		return ephemeralContainer
	case podspec.Main:
	}
	return mainContainer
}
