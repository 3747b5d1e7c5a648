package simapi

import (
	"encoding/binary"
	"net/netip"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// servicePrefix is the range of service addresses (kubeadm's --service-cluster-ip-range),
// assigned in order: a million of them.
var servicePrefix = netip.MustParsePrefix("10.96.0.0/12")

// prepareService sets the fields of a service that pods' environments use: a type, an address and
// the protocols of its ports.
func (s *Server) prepareService(o *v1.Service) {
	if o.Spec.Type == "" {
		o.Spec.Type = v1.ServiceTypeClusterIP
	}
	if o.Spec.SessionAffinity == "" {
		o.Spec.SessionAffinity = v1.ServiceAffinityNone
	}
	o.Spec.Ports = append([]v1.ServicePort(nil), o.Spec.Ports...)
	for i := range o.Spec.Ports {
		p := &o.Spec.Ports[i]
		if p.Protocol == "" {
			p.Protocol = v1.ProtocolTCP
		}
		if p.TargetPort == (intstr.IntOrString{}) {
			p.TargetPort = intstr.FromInt32(p.Port)
		}
	}
	if o.Spec.Type == v1.ServiceTypeExternalName {
		return
	}
	if o.Spec.ClusterIP == "" {
		s.services++
		first := servicePrefix.Addr().As4()
		binary.BigEndian.PutUint32(first[:], binary.BigEndian.Uint32(first[:])+s.services)
		o.Spec.ClusterIP = netip.AddrFrom4(first).String()
	}
	o.Spec.ClusterIPs = []string{o.Spec.ClusterIP}
}
