package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/assignments"
)

// assigned are the metrics of what containers have to themselves, under the names of the kubelet's managers.
type assigned struct {
	cpus, badCPUs, memory, badMemory, admissions, refused prometheus.Counter
	shared, own                                           prometheus.Gauge
	registered                                            *prometheus.CounterVec
	allocations                                           *prometheus.HistogramVec
}

func (m *Metrics) newAssigned() *assigned {
	a := &assigned{
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
		own: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "kubelet_cpu_manager_exclusive_cpu_allocation_count",
			Help: "The total number of CPUs exclusively allocated to containers running on this node",
		}),
		registered: m.counters("kubelet_device_plugin_registration_total",
			"Cumulative number of device plugin registrations. Broken down by resource name.", "resource_name"),
		allocations: m.histograms("kubelet_device_plugin_alloc_duration_seconds",
			"Duration in seconds to serve a device plugin Allocation request. Broken down by resource name.",
			prometheus.DefBuckets, "resource_name"),
	}
	m.registry.MustRegister(untyped{a.own})
	return a
}

// Assigned counts what containers get to themselves: it is what a node.Config tells.
func (m *Metrics) Assigned() assignments.Counts { return m.assigned }

// PluginRegistered counts a registration of a device plugin: it is what a node.Config tells.
func (m *Metrics) PluginRegistered(resource v1.ResourceName) {
	m.assigned.registered.WithLabelValues(string(resource)).Inc()
}

// Decided implements assignments.Counts.
func (a *assigned) Decided(d assignments.Decision) {
	a.admissions.Inc()
	a.cpus.Add(float64(d.CPUs))
	a.memory.Add(float64(d.Memory))
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
func (a *assigned) Shared(shared, own int) {
	a.shared.Set(float64(shared) * 1000)
	a.own.Set(float64(own))
}

// Allocated implements assignments.Counts.
func (a *assigned) Allocated(resource v1.ResourceName, took time.Duration) {
	a.allocations.WithLabelValues(string(resource)).Observe(took.Seconds())
}
