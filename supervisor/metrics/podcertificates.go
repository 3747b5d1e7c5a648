package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/troupe-dev/troupe/actors/objects"
)

// podCertificates is the metric of pods' certificates, under the kubelet's name.
type podCertificates struct{ states *prometheus.GaugeVec }

// Certified counts the certificates of pods: it is what a node.Config tells. Only a node with the feature gate
// PodCertificateRequest has the metric, so this must be called at most once.
func (m *Metrics) Certified() objects.CertificateCounts {
	c := &podCertificates{prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "kubelet_podcertificate_states",
		Help: "Projected volume sources podCertificate of pods by their signer and state.",
	}, []string{"signer_name", "state"})}
	m.registry.MustRegister(c.states)
	return c
}

// Certificates implements objects.CertificateCounts.
func (c *podCertificates) Certificates(counts map[objects.CertificateState]int) {
	c.states.Reset()
	for of, n := range counts { // order-free: a gauge each
		c.states.WithLabelValues(of.Signer, of.State).Set(float64(n))
	}
}
