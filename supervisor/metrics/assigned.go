package metrics

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/assignments"
	"github.com/troupe-dev/troupe/actors/decide/cpus"
)

// assigned are the metrics of what containers have to themselves, under the names of the kubelet's managers.
type assigned struct {
	cpus, badCPUs, memory, badMemory, admissions, refused prometheus.Counter
	shared, own                                           prometheus.Gauge
	perNode                                               *prometheus.GaugeVec
	aligned, misaligned                                   *prometheus.CounterVec
	registered                                            *prometheus.CounterVec
	allocations                                           *prometheus.HistogramVec
	// took is in the registry only of a node that aligns: promtool refuses its unit.
	took     prometheus.Histogram
	registry *prometheus.Registry
}

func (m *Metrics) newAssigned() *assigned {
	alignment := []string{"scope", "boundary"}
	return &assigned{
		registry: m.registry,
		took: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "kubelet_topology_manager_admission_duration_ms",
			Help:    "Duration in milliseconds to serve a pod admission request.",
			Buckets: prometheus.ExponentialBuckets(.05, 2, 15),
		}),
		cpus: m.counter("kubelet_cpu_manager_pinning_requests_total",
			"The number of cpu core allocations which required pinning."),
		badCPUs: m.counter("kubelet_cpu_manager_pinning_errors_total",
			"The number of cpu core allocations which required pinning failed."),
		memory: m.counter("kubelet_memory_manager_pinning_requests_total",
			"The number of memory pages allocations which required pinning."),
		badMemory: m.counter("kubelet_memory_manager_pinning_errors_total",
			"The number of memory pages allocations which required pinning that failed."),
		admissions: m.counter("kubelet_topology_manager_admission_requests_total",
			"The number of admission requests where resources have to be aligned."),
		refused: m.counter("kubelet_topology_manager_admission_errors_total",
			"The number of admission request failures where resources could not be aligned."),
		shared: m.gauge("kubelet_cpu_manager_shared_pool_size_millicores",
			"The size of the shared CPU pool for non-guaranteed QoS pods, in millicores."),
		own: m.gauge("kubelet_cpu_manager_exclusive_cpu_allocation_count",
			"The total number of CPUs exclusively allocated to containers running on this node"),
		perNode: m.gauges("kubelet_cpu_manager_allocation_per_numa", "Number of CPUs allocated per NUMA node", "numa_node"),
		aligned: m.counters("kubelet_container_aligned_compute_resources_count",
			"Cumulative number of aligned compute resources allocated to containers by alignment type.", alignment...),
		misaligned: m.counters("kubelet_container_aligned_compute_resources_failure_count",
			"Cumulative number of failures to allocate aligned compute resources to containers by alignment type.",
			alignment...),
		registered: m.counters("kubelet_device_plugin_registration_total",
			"Cumulative number of device plugin registrations. Broken down by resource name.", "resource_name"),
		allocations: m.histograms("kubelet_device_plugin_alloc_duration_seconds",
			"Duration in seconds to serve a device plugin Allocation request. Broken down by resource name.",
			prometheus.DefBuckets, "resource_name"),
	}
}

// Registered implements devices.Counts.
func (a *assigned) Registered(resource v1.ResourceName) {
	a.registered.WithLabelValues(string(resource)).Inc()
}

// Alignments implements assignments.Counts.
func (a *assigned) Alignments(counted, refused []cpus.Alignment) {
	for _, to := range counted {
		add(a.aligned, to, 0) // so that it is there before the first
		if to.Boundary == cpus.NUMANode {
			a.registry.Register(a.took) //nolint:errcheck // it is there from the last start of the actor
		}
	}
	for _, to := range refused {
		add(a.misaligned, to, 0)
	}
}

func add(counters *prometheus.CounterVec, to cpus.Alignment, n int) {
	counters.WithLabelValues(to.Scope, string(to.Boundary)).Add(float64(n))
}

// Decided implements assignments.Counts.
func (a *assigned) Decided(d assignments.Decision) {
	a.admissions.Inc()
	a.took.Observe(float64(d.Took) / float64(time.Millisecond))
	a.cpus.Add(float64(d.CPUs))
	a.memory.Add(float64(d.Memory))
	for to, n := range d.Alignments { // order-free: sums
		add(a.aligned, to, n)
	}
	if d.Misaligned != (cpus.Alignment{}) {
		add(a.misaligned, d.Misaligned, 1)
	}
	if d.Rejected == nil {
		return
	}
	if d.Aligned {
		a.refused.Inc()
	}
	if d.Rejected.Of == v1.ResourceCPU {
		a.badCPUs.Inc()
	}
	if d.Rejected.Of == v1.ResourceMemory {
		a.badMemory.Inc()
	}
}

// Shared implements assignments.Counts.
func (a *assigned) Shared(shared int, own map[int]int) {
	all := 0
	for node, n := range own { // order-free: a sum
		all += n
		a.perNode.WithLabelValues(strconv.Itoa(node)).Set(float64(n))
	}
	a.shared.Set(float64(shared) * 1000)
	a.own.Set(float64(all))
}

// Allocated implements assignments.Counts.
func (a *assigned) Allocated(resource v1.ResourceName, took time.Duration) {
	a.allocations.WithLabelValues(string(resource)).Observe(took.Seconds())
}
