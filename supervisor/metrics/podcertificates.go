package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/troupe-dev/troupe/actors/apiobjects"
)

// podCertificates is the metric of pods' certificates, under the kubelet's name. It is in the registry when a pod has
// had one: only then is the feature gate PodCertificateRequest on.
type podCertificates struct {
	once   sync.Once
	states *prometheus.GaugeVec
}

// Certificates implements apiobjects.Counts.
func (m *Metrics) Certificates(counts map[apiobjects.CertificateState]int) {
	c := &m.podCertificates
	c.once.Do(func() {
		c.states = m.gauges("kubelet_podcertificate_states",
			"Projected volume sources podCertificate of pods by their signer and state.", "signer_name", "state")
	})
	c.states.Reset()
	for of, n := range counts { // order-free: a gauge each
		c.states.WithLabelValues(of.Signer, of.State).Set(float64(n))
	}
}
