package metrics

import "github.com/prometheus/client_golang/prometheus"

// podResources are the metrics of the podresources API, under the kubelet's names.
type podResources struct {
	all              *prometheus.CounterVec
	requests, errors map[string]*prometheus.CounterVec // by method
}

func (m *Metrics) newPodResources() *podResources {
	version := []string{"server_api_version"}
	p := &podResources{
		all: m.counters("kubelet_pod_resources_endpoint_requests_total",
			"Cumulative number of requests to the PodResource endpoint. Broken down by server api version.", version...),
		requests: map[string]*prometheus.CounterVec{}, errors: map[string]*prometheus.CounterVec{},
	}
	for _, of := range [][2]string{{"List", "list"}, {"Get", "get"}, {"GetAllocatableResources", "get_allocatable"}} {
		method, name := of[0], of[1]
		help := "Number of requests to the PodResource " + method + " endpoint"
		p.requests[method] = m.counters("kubelet_pod_resources_endpoint_requests_"+name,
			help+". Broken down by server api version.", version...)
		p.errors[method] = m.counters("kubelet_pod_resources_endpoint_errors_"+name,
			help+" which returned error. Broken down by server api version.", version...)
	}
	return p
}

// PodResourcesAsked counts a request to the podresources API: it is what a podresources.Config tells.
func (m *Metrics) PodResourcesAsked(version, method string, failed bool) {
	p := m.podResources
	p.all.WithLabelValues(version).Inc()
	if c := p.requests[method]; c != nil {
		c.WithLabelValues(version).Inc()
	}
	if c := p.errors[method]; c != nil && failed {
		c.WithLabelValues(version).Inc()
	}
}
