package translate

import (
	"net/netip"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Limits of a resolver file that libc and the API (core/v1 PodDNSConfig) hold:
// what is beyond is left out.
const (
	maxNameservers     = 3
	maxSearches        = 32
	maxSearchLine      = 2048 // characters, with spaces
	maxSearchDomain    = 253
	clusterFirstOption = "ndots:5"
)

// dnsConfig gives the resolver of a pod: its policy's, with dnsConfig merged in.
func dnsConfig(n *Node, pod *v1.Pod) *runtimeapi.DNSConfig {
	c := policyConfig(n, pod)
	if extra := pod.Spec.DNSConfig; extra != nil {
		c.Servers = unique(append(c.Servers, extra.Nameservers...))
		c.Searches = unique(append(c.Searches, extra.Searches...))
		for _, o := range extra.Options {
			text := o.Name
			if o.Value != nil && *o.Value != "" {
				text += ":" + *o.Value
			}
			c.Options = setOption(c.Options, text)
		}
	}
	c.Servers = c.Servers[:min(len(c.Servers), maxNameservers)]
	c.Searches = fitSearches(c.Searches)
	return c
}

func policyConfig(n *Node, pod *v1.Pod) *runtimeapi.DNSConfig {
	cluster := false
	switch pod.Spec.DNSPolicy {
	case v1.DNSNone:
		return &runtimeapi.DNSConfig{}
	case v1.DNSDefault:
	case v1.DNSClusterFirstWithHostNet:
		cluster = true
	default: // ClusterFirst, also by default; on the host's network it means Default
		cluster = !pod.Spec.HostNetwork
	}
	host := hostResolver(n)
	if !cluster || len(n.ClusterDNS) == 0 {
		return host
	}
	c := &runtimeapi.DNSConfig{Servers: slices.Clone(n.ClusterDNS), Options: []string{clusterFirstOption}}
	if n.LocalResolver {
		host.Searches = nil
	}
	if n.ClusterDomain != "" {
		services := "svc." + n.ClusterDomain
		c.Searches = []string{pod.Namespace + "." + services, services, n.ClusterDomain}
	}
	c.Searches = unique(append(c.Searches, host.Searches...))
	return c
}

func hostResolver(n *Node) *runtimeapi.DNSConfig {
	if !n.LocalResolver {
		return parseResolvConf(n.ResolvConf)
	}
	local := "127.0.0.1"
	if ip := n.primaryIPv6Only(); ip {
		local = "::1"
	}
	return &runtimeapi.DNSConfig{Servers: []string{local}, Searches: []string{"."}}
}

// primaryIPv6Only says that the cluster's DNS is reached by IPv6 alone, and so
// the pods' own addresses are of that family.
func (n *Node) primaryIPv6Only() bool {
	for _, s := range n.ClusterDNS {
		if a, err := netip.ParseAddr(s); err != nil || a.Is4() {
			return false
		}
	}
	return len(n.ClusterDNS) > 0
}

// parseResolvConf reads a resolver file: nameservers add up, the last search
// line counts, options add up and replace those of the same name (resolv.conf(5)).
func parseResolvConf(content string) *runtimeapi.DNSConfig {
	c := &runtimeapi.DNSConfig{}
	for line := range strings.Lines(content) {
		fields := strings.Fields(line)
		if len(fields) < 2 || strings.HasPrefix(fields[0], "#") || strings.HasPrefix(fields[0], ";") {
			continue
		}
		switch fields[0] {
		case "nameserver":
			c.Servers = append(c.Servers, fields[1])
		case "search":
			c.Searches = nil
			for _, s := range fields[1:] {
				if s != "." {
					s = strings.TrimSuffix(s, ".")
				}
				c.Searches = append(c.Searches, s)
			}
		case "options":
			for _, o := range fields[1:] {
				c.Options = setOption(c.Options, o)
			}
		}
	}
	return c
}

// setOption adds an option, or replaces the one of the same name.
func setOption(options []string, option string) []string {
	name, _, _ := strings.Cut(option, ":")
	for i, o := range options {
		if had, _, _ := strings.Cut(o, ":"); had == name {
			options[i] = option
			return options
		}
	}
	return append(options, option)
}

func fitSearches(searches []string) []string {
	var out []string
	length := -1 // no space before the first
	for _, s := range searches {
		if len(s) > maxSearchDomain {
			continue
		}
		if length += 1 + len(s); length > maxSearchLine || len(out) == maxSearches {
			break
		}
		out = append(out, s)
	}
	return out
}

func unique(list []string) []string {
	var out []string
	for _, s := range list {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}
