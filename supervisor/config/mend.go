package config

import (
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubelet "k8s.io/kubelet/config/v1beta1"
	netutils "k8s.io/utils/net"
)

// mender goes over a defaulted configuration before it is validated. What a kubelet starts with although it can't do
// what it says is put right here, and is a warning: a node that starts with a kubelet starts with this agent
// (docs/decisions/0081).
type mender struct {
	validator
	standalone bool
}

// mend changes the configuration, but nothing that its lists and maps share with others.
func mend(c *kubelet.KubeletConfiguration, gates Gates, standalone bool) field.ErrorList {
	m := &mender{validator: validator{KubeletConfiguration: c, gates: gates}, standalone: standalone}
	m.durations()
	m.network()
	m.certificate()
	m.manifests()
	m.registration()
	m.rest()
	return m.errs
}

func (m *mender) durations() {
	for _, s := range settings {
		if s.rule == nil || !s.rule.mended {
			continue
		}
		given, usual := s.value(m.KubeletConfiguration), s.value(defaults())
		n, wrong := number(given), ""
		switch {
		case n < 0:
			wrong = "cannot be negative"
		case n < s.rule.least:
			wrong = "must be above 0"
		default:
			continue
		}
		m.invalid(at(s.path), shown(n, given.Type()), "%s: the default, %v, is used", wrong,
			shown(number(usual), usual.Type()))
		given.Set(usual)
	}
	m.ShutdownGracePeriodByPodPriority = slices.Clone(m.ShutdownGracePeriodByPodPriority)
	for i := range m.ShutdownGracePeriodByPodPriority {
		if p := &m.ShutdownGracePeriodByPodPriority[i]; p.ShutdownGracePeriodSeconds < 0 {
			m.invalid(at("shutdownGracePeriodByPodPriority").Index(i).Child("shutdownGracePeriodSeconds"),
				p.ShutdownGracePeriodSeconds, "cannot be negative: 0 is used")
			p.ShutdownGracePeriodSeconds = 0
		}
	}
}

func (m *mender) network() {
	usual := defaults()
	for _, a := range []struct{ given, usual *string }{
		{&m.Address, &usual.Address}, {&m.HealthzBindAddress, &usual.HealthzBindAddress},
	} {
		// Zeros in front of a number are left out, as a kubelet does: 010.0.0.1 is 10.0.0.1.
		if ip, ok := sloppyIP(*a.given); ok {
			*a.given = ip.String()
		}
		if *a.given == "" { // of an empty flag
			*a.given = *a.usual
		}
	}
	var servers []string
	for i, text := range m.ClusterDNS {
		if ip, ok := sloppyIP(text); ok && ip.Zone() == "" {
			servers = append(servers, ip.String())
		} else {
			m.invalid(at("clusterDNS").Index(i), text, "must be an IP address: it is left out")
		}
	}
	m.ClusterDNS = servers
	if m.ClusterDomain != "" {
		reasons := validation.IsDNS1123Subdomain(strings.TrimSuffix(m.ClusterDomain, "."))
		m.reasons(at("clusterDomain"), m.ClusterDomain, reasons)
	}
}

// sloppyIP reads an IP address as a kubelet does: ::ffff:10.0.0.1 is 10.0.0.1. One with a zone, which a kubelet can't
// read, is good only to listen on.
func sloppyIP(text string) (netip.Addr, bool) {
	if ip, err := netip.ParseAddr(text); err == nil {
		return ip.Unmap(), true
	}
	ip := net.IP(netutils.ParseIPSloppy(text))
	address, ok := netip.AddrFromSlice(ip)
	return address.Unmap(), ok
}

// certificate: with half a pair a kubelet starts, and then can't be reached.
func (m *mender) certificate() {
	const instead = "is set without %s: a certificate that the node signs itself is used"
	cert, key := m.TLSCertFile, m.TLSPrivateKeyFile
	switch {
	case cert != "" && key == "":
		m.invalid(at("tlsCertFile"), cert, instead, "tlsPrivateKeyFile")
	case key != "" && cert == "":
		m.invalid(at("tlsPrivateKeyFile"), key, instead, "tlsCertFile")
	default:
		return
	}
	m.TLSCertFile, m.TLSPrivateKeyFile = "", ""
}

func (m *mender) manifests() {
	if m.StaticPodURL != "" {
		const nothing = ": no pod can be fetched from it"
		u, err := url.Parse(m.StaticPodURL)
		switch {
		case err != nil:
			// The error repeats the URL, which may hold a password.
			m.invalid(at("staticPodURL"), "(hidden: it may hold a password)", "cannot be parsed"+nothing)
		case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
			m.invalid(at("staticPodURL"), u.Redacted(), "must be an http or https URL"+nothing)
		}
	}
	for name := range m.StaticPodURLHeader { // order-free: sorted by the caller
		m.reasons(at("staticPodURLHeader").Key(name), name, validation.IsHTTPHeaderName(name))
	}
}

func (m *mender) registration() {
	var taints []string
	kept := m.RegisterWithTaints[:0:0]
	for i, taint := range m.RegisterWithTaints {
		key := taint.Key + ":" + string(taint.Effect)
		if slices.Contains(taints, key) {
			m.invalid(at("registerWithTaints").Index(i), key, "given twice: the first one counts")
			continue
		}
		taints, kept = append(taints, key), append(kept, taint)
	}
	m.RegisterWithTaints = kept
}

func (m *mender) rest() {
	if q, err := resource.ParseQuantity(m.ContainerLogMaxSize); err == nil && q.IsZero() {
		usual := defaults().ContainerLogMaxSize
		m.invalid(at("containerLogMaxSize"), m.ContainerLogMaxSize,
			"must be above 0, or negative for no rotation: the default, %s, is used", usual)
		m.ContainerLogMaxSize = usual
	}
	if m.CgroupDriver != "cgroupfs" && m.CgroupDriver != "systemd" {
		m.invalid(at("cgroupDriver"), m.CgroupDriver,
			"must be cgroupfs or systemd: cgroupfs is used, unless the container runtime has another one")
		m.CgroupDriver = "cgroupfs"
	}
	// Without a cluster nobody asks for ConfigMaps and Secrets.
	if s := &m.ConfigMapAndSecretChangeDetectionStrategy; m.standalone && !slices.Contains(detectionStrategies, *s) {
		m.invalid(at("configMapAndSecretChangeDetectionStrategy"), *s, "has no such value")
		*s = kubelet.WatchChangeDetectionStrategy
	}
}
