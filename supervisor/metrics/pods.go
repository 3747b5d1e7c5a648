package metrics

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/podresize"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/podstatus"
	"github.com/troupe-dev/troupe/actors/podset"
)

// counted are the metrics of what becomes of pods, under the kubelet's names.
type counted struct {
	ended, admitted, rejected *prometheus.CounterVec
	resizing, infeasible      *prometheus.CounterVec
	deferred, resizeTimes     *prometheus.HistogramVec
}

func (m *Metrics) newCounted() *counted {
	return &counted{
		ended: m.counters("kubelet_terminated_containers_total", "Cumulative number of container terminations.",
			"container_type", "exit_code", "reason"),
		admitted: m.counters("kubelet_pod_level_resources_admission_total",
			"Total number of pods admitted, by resource configuration mode (pod_and_container_level, pod_level, "+
				"container_level, or empty for none) and QoS class.", "config_mode", "qos_class"),
		rejected: m.counters("kubelet_admission_rejections_total",
			"Cumulative number of pods that were not admitted, by reason.", "reason"),
		resizing: m.counters("kubelet_container_requested_resizes_total",
			"Number of requested resizes, counted at the container level: cpu and memory, requests and limits (requirement), "+
				"add, remove, increase and decrease (operation).", "resource", "requirement", "operation"),
		infeasible: m.counters("kubelet_pod_infeasible_resizes_total", "Number of infeasible resizes for pods.",
			"reason_detail"),
		deferred: m.histograms("kubelet_pod_deferred_resize_duration_seconds",
			"Duration in seconds that a pod resize remains deferred, by how that ended: accepted, reverted or terminated.",
			[]float64{5, 10, 15, 20, 30, 45, 60, 90, 120, 150, 180, 300, 600, 1200, 1800, 3600},
			"resolution", "priority_bucket"),
		resizeTimes: m.histograms("kubelet_pod_resize_duration_milliseconds",
			"Duration in milliseconds from when a pod resize was allocated until it was done (success=true), or until a "+
				"reason was told why it is not.",
			[]float64{10, 50, 100, 500, 1000, 2000, 5000, 10000, 20000, 30000, 60000, 120000, 300000, 600000}, "success"),
	}
}

// Ended implements podset.Counts.
func (c *counted) Ended(e podstatus.Ending) {
	c.ended.WithLabelValues(typeOf(e.Kind), strconv.Itoa(int(e.Code)), e.Reason).Inc()
}

// Admitted implements podset.Counts.
func (c *counted) Admitted(p *v1.Pod) {
	mode := ""
	switch own, containers := podspec.OwnResources(p), containersAsk(&p.Spec); {
	case own && containers:
		mode = "pod_and_container_level"
	case own:
		mode = "pod_level"
	case containers:
		mode = "container_level"
	}
	c.admitted.WithLabelValues(mode, strings.ToLower(string(podspec.Class(p)))).Inc()
}

func containersAsk(spec *v1.PodSpec) bool {
	for c := range podspec.Lasting(spec) {
		if len(c.Resources.Requests)+len(c.Resources.Limits) > 0 {
			return true
		}
	}
	return false
}

// rejections are the reasons that a kubelet counts by (kubelet.go, admissionRejectionReasons): each resource and each
// predicate would be another.
var rejections = []string{
	"AppArmor", "PodOSSelectorNodeLabelDoesNotMatch", "PodOSNotSupported", "InvalidNodeInfo",
	"InitContainerRestartPolicyForbidden", "SupplementalGroupsPolicyNotSupported", "UnexpectedAdmissionError",
	"UnknownReason", "UnexpectedPredicateFailureType", "OutOfcpu", "OutOfmemory", "OutOfephemeral-storage", "OutOfpods",
	"PodLevelResourcesNotSupported", "PodFeatureUnsupported", "Evicted", "SysctlForbidden", "TopologyAffinityError",
	"NodeShutdown", volumeLimit,
}

// volumeLimit is the reason of a pod that is rejected when it has begun.
const volumeLimit = "VolumeAttachmentLimitExceeded"

// Rejected implements podset.Counts.
func (c *counted) Rejected(reason string) {
	switch {
	case slices.Contains(rejections, reason):
	case strings.HasPrefix(reason, "OutOf"):
		reason = "OutOfExtendedResources"
	default:
		reason = "Other"
	}
	c.rejected.WithLabelValues(reason).Inc()
}

// Resizing implements podset.Counts.
func (c *counted) Resizing(of podresize.Change) {
	c.resizing.WithLabelValues(string(of.Resource), of.Requirement, of.Operation).Inc()
}

// Infeasible implements podset.Counts.
func (c *counted) Infeasible(detail string) { c.infeasible.WithLabelValues(detail).Inc() }

// Undeferred implements podset.Counts.
func (c *counted) Undeferred(p *v1.Pod, how podset.Resolution, waited time.Duration) {
	c.deferred.WithLabelValues(string(how), bucket(p.Spec.Priority)).Observe(waited.Seconds())
}

// resized takes note of what an event says of a resize. One that began before this agent did is not counted.
func (m *Metrics) resized(uid types.UID, reason string, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	begun, known := m.resizes[uid]
	switch reason {
	case "ResizeStarted":
		if len(m.resizes) >= pullLimit {
			clear(m.resizes)
		}
		m.resizes[uid] = at
		return
	case "ResizeCompleted":
		delete(m.resizes, uid)
	case "ResizeError":
	default:
		return
	}
	if known {
		took := max(0, at.Sub(begun)).Milliseconds()
		m.counted.resizeTimes.WithLabelValues(strconv.FormatBool(reason == "ResizeCompleted")).Observe(float64(took))
	}
}
