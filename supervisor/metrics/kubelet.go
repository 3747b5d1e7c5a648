package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/podview"
	"github.com/troupe-dev/troupe/actors/probes"
)

var (
	runningPods = described("kubelet_running_pods",
		"Number of running pods: the phase is Running, or at least one container is running.")
	runningContainers = described("kubelet_running_containers",
		"Number of containers by state: running, exited (ran before and stopped) or created (not started yet).",
		"container_state")
	desiredPods = described("kubelet_desired_pods",
		"The number of pods the kubelet is being instructed to run. static is true if the pod is not from the apiserver.",
		"static")
	activePods = described("kubelet_active_pods",
		"The number of pods the kubelet considers active and which are being considered when admitting new pods. static "+
			"is true if the pod is not from the apiserver.", "static")
	mirrorPods = described("kubelet_mirror_pods",
		"The number of mirror pods the kubelet will try to create (one per admitted static pod)")
	workingPods = described("kubelet_working_pods",
		"Number of pods the kubelet is actually running, broken down by lifecycle phase, whether the pod is desired, "+
			"orphaned, or runtime only (also orphaned), and whether the pod is static. An orphaned pod has been removed from "+
			"local configuration or force deleted in the API.", "lifecycle", "config", "static")
	pendingResizes = described("kubelet_pod_pending_resizes",
		"Number of pending resizes for pods, by reason (deferred, infeasible) and priority_bucket (system-critical, high "+
			"from 100000, medium, normal for 0, low, very-low to -1000).", "reason", "priority_bucket")
	resizing  = described("kubelet_pod_in_progress_resizes", "Number of in-progress resizes for pods.")
	debugging = described("kubelet_managed_ephemeral_containers",
		"Current number of ephemeral containers in pods managed by this kubelet.")

	readyPods = described("troupe_pods_ready", "Number of pods that are ready.")
	problems  = described("troupe_manifest_problems", "Number of problems in manifests of static pods.")
	synced    = described("troupe_ready", "1 after every pod source was read and the runtime was listed, 0 before.")
	noAnswer  = described("troupe_scrape_error",
		"1 if the podview actor did not answer this scrape in time or volumes could not be read, 0 otherwise.")
)

// static as a label of a kubelet has it.
func static(o podspec.Origin) string {
	if o.Static() {
		return "true"
	}
	return ""
}

// runtimeOnly is the config label of pods that only the runtime has.
const runtimeOnly = "runtime_only"

// podCounts are what is counted of a view.
type podCounts struct {
	running, ready         int
	created, alive, exited int
	desired, active        map[string]int
	working                map[[3]string]int
	// pending are resizes by reason and bucket of their priority.
	pending  map[[2]string]int
	resizing int
	// ephemeral are containers of all pods, also of those that have ended.
	ephemeral int
}

// count is pure: what gauges show of the pods of a node.
func count(v podview.View) podCounts {
	c := podCounts{
		desired: map[string]int{"": 0, "true": 0}, active: map[string]int{"": 0, "true": 0},
		working: map[[3]string]int{}, pending: map[[2]string]int{},
	}
	for _, lifecycle := range []string{"sync", "terminating", "terminated"} {
		for _, config := range []string{"desired", "orphan"} {
			for _, static := range []string{"", "true"} {
				c.working[[3]string{lifecycle, config, static}] = 0
			}
		}
		c.working[[3]string{lifecycle, runtimeOnly, "unknown"}] = 0
	}
	for i := range v.Pods {
		c.add(&v.Pods[i])
	}
	return c
}

func (c *podCounts) add(p *podview.Pod) {
	runs := p.Phase == string(v1.PodRunning)
	for _, k := range p.Containers {
		switch {
		case k.State == "running":
			c.alive++
			runs = true
		case k.State == "terminated" || k.Last != nil:
			c.exited++
		case k.ID != "":
			c.created++
		}
		if k.Kind == podspec.Ephemeral.String() {
			c.ephemeral++
		}
	}
	if runs {
		c.running++
	}
	if p.Ready {
		c.ready++
	}
	if p.ResizePending != "" {
		c.pending[[2]string{strings.ToLower(p.ResizePending), bucket(p.Priority)}]++
	}
	if p.Resizing {
		c.resizing++
	}
	config, of := "desired", static(p.Source)
	switch {
	case p.Source == podspec.Orphan: // the runtime does not know whether it was static
		config, of = runtimeOnly, "unknown"
	case p.Removed:
		config = "orphan"
	default:
		c.desired[of]++
	}
	lifecycle := ""
	switch p.Life {
	case "Syncing", "Running":
		lifecycle = "sync"
	case "Terminating":
		lifecycle = "terminating"
	case "Terminated", "Finished", "Collecting":
		lifecycle = "terminated"
	default: // it waits, or was rejected: nothing works on it
		return
	}
	c.working[[3]string{lifecycle, config, of}]++
	if config == "desired" && lifecycle != "terminated" && !podspec.Terminal(v1.PodPhase(p.Phase)) {
		c.active[of]++
	}
}

// bucket is the class of a pod's priority, as a kubelet names it.
func bucket(priority *int32) string {
	const high, veryLow = 100_000, -1000
	switch p := ptr.Deref(priority, 0); {
	case p >= podspec.SystemCritical:
		return "system-critical"
	case p >= high:
		return "high"
	case p > 0:
		return "medium"
	case p == 0:
		return "normal"
	case p > veryLow:
		return "low"
	default:
		return "very-low"
	}
}

// podsCollector is what a view counts, as a collector.
type podsCollector struct {
	podCounts
	problems, mirrors int
	synced            bool
}

// collected is made where the scrape is served: prometheus collects on a goroutine of its own, where a panic
// would end the process.
func collected(v podview.View) podsCollector {
	return podsCollector{count(v), len(v.Problems), v.Mirrors, v.Ready}
}

// Describe implements prometheus.Collector.
func (podsCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (p podsCollector) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v int, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), labels...)
	}
	c := p.podCounts
	gauge(runningPods, c.running)
	gauge(readyPods, c.ready)
	gauge(runningContainers, c.alive, "running")
	gauge(runningContainers, c.exited, "exited")
	gauge(runningContainers, c.created, "created")
	for of, n := range c.desired { // order-free: sorted as they are written
		gauge(desiredPods, n, of)
		gauge(activePods, c.active[of], of)
	}
	for key, n := range c.working { // order-free: sorted as they are written
		gauge(workingPods, n, key[0], key[1], key[2])
	}
	for key, n := range c.pending { // order-free: sorted as they are written
		gauge(pendingResizes, n, key[0], key[1])
	}
	gauge(mirrorPods, p.mirrors)
	gauge(resizing, c.resizing)
	gauge(debugging, c.ephemeral)
	gauge(problems, p.problems)
	ready := 0
	if p.synced {
		ready = 1
	}
	gauge(synced, ready)
}

var (
	probesTotal = described("prober_probe_total",
		"Cumulative number of a liveness, readiness or startup probe for a container by result.",
		"probe_type", "result", "container", "pod", "namespace", "pod_uid")
	probeTimes = described("prober_probe_duration_seconds",
		"Duration in seconds for a probe response, from when it was due.", "probe_type", "container", "pod", "namespace")
)

// probesCollector is of the probes of living containers.
type probesCollector struct{ tallies []probes.Tally }

// Describe implements prometheus.Collector.
func (probesCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c probesCollector) Collect(to chan<- prometheus.Metric) {
	// Two pods of one name, one of them stopping, have the same series: there is no UID. The last
	// one counts.
	last := map[[3]string]int{}
	for i := range c.tallies {
		t := &c.tallies[i]
		last[[3]string{t.Namespace, t.Pod, t.Container + "/" + t.Kind.String()}] = i
	}
	for i := range c.tallies {
		t := &c.tallies[i]
		// order-free: sorted as they are written
		for result, n := range map[string]uint64{"successful": t.Passed, "failed": t.Failed, "unknown": t.Errored} {
			if n > 0 {
				to <- prometheus.MustNewConstMetric(probesTotal, prometheus.CounterValue, float64(n),
					t.Kind.String(), result, t.Container, t.Pod, t.Namespace, string(t.UID))
			}
		}
		if last[[3]string{t.Namespace, t.Pod, t.Container + "/" + t.Kind.String()}] != i {
			continue
		}
		buckets := map[float64]uint64{}
		var sum uint64
		for j, limit := range probes.Buckets {
			sum += t.Within[j]
			buckets[limit.Seconds()] = sum
		}
		to <- prometheus.MustNewConstHistogram(probeTimes, t.Passed+t.Failed+t.Errored, t.Total.Seconds(), buckets,
			t.Kind.String(), t.Container, t.Pod, t.Namespace)
	}
}
