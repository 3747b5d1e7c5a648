package translate

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Limits of libc and the API for a resolver file (core/v1 PodDNSConfig): more is cut off.
const (
	maxNameservers     = 3
	maxSearches        = 32
	maxSearchLine      = 2048 // characters, with spaces
	maxSearchDomain    = 253
	clusterFirstOption = "ndots:5"
	clusterSearches    = 3 // that ClusterFirst puts before the node's
)

// Notice is a problem of a running pod that its owner should see: an event of this reason. OfNode is
// the message of the same event of the Node, empty for none.
type Notice struct {
	Reason, Message, OfNode string
}

// DNSNotices are the differences between a pod's resolver and its spec.
func DNSNotices(n *Node, pod *v1.Pod) []Notice {
	_, notices := resolver(n, pod)
	return notices
}

func dnsConfig(n *Node, pod *v1.Pod) *runtimeapi.DNSConfig {
	c, _ := resolver(n, pod)
	return c
}

// resolver is the resolver of a pod: its policy's, with dnsConfig merged in. Users know the
// messages of the notices from the kubelet.
func resolver(n *Node, pod *v1.Pod) (c *runtimeapi.DNSConfig, notices []Notice) {
	if wantsCluster(pod) && len(n.ClusterDNS) == 0 {
		text := fmt.Sprintf("kubelet does not have ClusterDNS IP configured and cannot create Pod using %q policy. "+
			"Falling back to %q policy.", v1.DNSClusterFirst, v1.DNSDefault)
		notices = append(notices, Notice{
			Reason: "MissingClusterDNS", Message: fmt.Sprintf("pod: %q. %s", podDescription(pod), text), OfNode: text,
		})
	}
	c, scoped := policyConfig(n, pod)
	if len(scoped) > 0 {
		notices = append(notices, Notice{Reason: dnsForming,
			Message: "Nameservers of an interface of the node cannot be reached from the network of a pod " +
				"and have been omitted: " + strings.Join(scoped, " ")})
	}
	if extra := pod.Spec.DNSConfig; extra != nil {
		c.Servers = unique(append(c.Servers, extra.Nameservers...))
		c.Searches = unique(append(c.Searches, extra.Searches...))
		options := make([]string, len(extra.Options))
		for i, o := range extra.Options {
			if options[i] = o.Name; o.Value != nil && *o.Value != "" {
				options[i] += ":" + *o.Value
			}
		}
		c.Options = setOptions(c.Options, options)
	}
	if len(c.Servers) > maxNameservers {
		c.Servers = c.Servers[:maxNameservers]
		notices = append(notices, Notice{Reason: dnsForming,
			Message: "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: " +
				strings.Join(c.Servers, " ")})
	}
	if fit := fitSearches(c.Searches); len(fit) < len(c.Searches) {
		c.Searches = fit
		notices = append(notices, Notice{Reason: dnsForming,
			Message: "Search Line limits were exceeded, some search paths have been omitted, the applied search line is: " +
				strings.Join(fit, " ")})
	}
	return c, notices
}

const dnsForming = "DNSConfigForming"

// ResolvConfTrouble is what pods will not get of the node's own resolver file, at path; empty if
// they get all of it.
func ResolvConfTrouble(n *Node, path string) string {
	searches, most := parseResolvConf(n.ResolvConf).Searches, maxSearches
	if n.ClusterDomain != "" {
		most -= clusterSearches
	}
	switch {
	case n.NoResolvConf != nil:
		return n.NoResolvConf.Error()
	case len(searches) > most:
		return fmt.Sprintf("Resolv.conf file '%s' contains search line consisting of more than %d domains!", path, most)
	case slices.ContainsFunc(searches, func(s string) bool { return len(s) > maxSearchDomain }):
		return fmt.Sprintf("Resolv.conf file %q contains a search path which length is more than allowed %d chars!",
			path, maxSearchDomain)
	case len(strings.Join(searches, " ")) > maxSearchLine:
		return fmt.Sprintf("Resolv.conf file '%s' contains search line which length is more than allowed %d chars!",
			path, maxSearchLine)
	}
	return ""
}

// wantsCluster reports whether a pod uses the cluster's DNS.
func wantsCluster(pod *v1.Pod) bool {
	switch pod.Spec.DNSPolicy {
	case v1.DNSNone, v1.DNSDefault:
		return false
	case v1.DNSClusterFirstWithHostNet:
		return true
	default: // ClusterFirst is the default; on the host's network it means Default
		return !pod.Spec.HostNetwork
	}
}

// policyConfig is the resolver of a pod's policy, and which servers of the node it does not have: see withoutScoped.
func policyConfig(n *Node, pod *v1.Pod) (c *runtimeapi.DNSConfig, scoped []string) {
	if pod.Spec.DNSPolicy == v1.DNSNone {
		return &runtimeapi.DNSConfig{}, nil
	}
	host := hostResolver(n)
	if !wantsCluster(pod) || len(n.ClusterDNS) == 0 {
		if !pod.Spec.HostNetwork {
			host.Servers, scoped = withoutScoped(host.Servers)
		}
		return host, scoped
	}
	c = &runtimeapi.DNSConfig{Servers: slices.Clone(n.ClusterDNS), Options: []string{clusterFirstOption}}
	if n.LocalResolver {
		host.Searches = nil
	}
	if n.ClusterDomain != "" {
		services := "svc." + n.ClusterDomain
		c.Searches = []string{pod.Namespace + "." + services, services, n.ClusterDomain}
	}
	c.Searches = unique(append(c.Searches, host.Searches...))
	return c, nil
}

func hostResolver(n *Node) *runtimeapi.DNSConfig {
	if !n.LocalResolver {
		return parseResolvConf(n.ResolvConf)
	}
	local := &runtimeapi.DNSConfig{Searches: []string{"."}}
	for _, ip := range n.NodeIPs {
		if ip.Is6() {
			local.Servers = append(local.Servers, "::1")
		} else {
			local.Servers = append(local.Servers, "127.0.0.1")
		}
	}
	if len(local.Servers) == 0 {
		local.Servers = []string{"127.0.0.1"}
	}
	return local
}

// withoutScoped leaves out of a node's servers those at an address of one of its interfaces (fe80::1%eth0): in a pod
// with a network of its own that interface is another one, or none. They stay if there are no others: without any,
// programs ask their own machine (resolv.conf(5)), and a DNS server that forwards to those of its file may not start.
func withoutScoped(servers []string) (usable, scoped []string) {
	for _, s := range servers {
		if strings.Contains(s, "%") {
			scoped = append(scoped, s)
		} else {
			usable = append(usable, s)
		}
	}
	if len(usable) == 0 {
		return servers, nil
	}
	return usable, scoped
}

// parseResolvConf parses a resolver file: nameservers add up, the last search line counts,
// options add up and replace those of the same name (resolv.conf(5)).
func parseResolvConf(content string) *runtimeapi.DNSConfig {
	c, options := &runtimeapi.DNSConfig{}, []string(nil)
	for line := range strings.Lines(content) {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") || strings.HasPrefix(fields[0], ";") {
			continue
		}
		switch fields[0] {
		case "nameserver":
			c.Servers = append(c.Servers, fields[1:min(2, len(fields))]...)
		case "search":
			c.Searches = nil
			for _, s := range fields[1:] {
				if s != "." { // the root is searched anyway
					c.Searches = append(c.Searches, strings.TrimSuffix(s, "."))
				}
			}
		case "options":
			options = append(options, fields[1:]...)
		}
	}
	c.Options = setOptions(nil, options)
	return c
}

// setOptions adds options, each in the place of the one of the same name.
func setOptions(options, more []string) []string {
	at := map[string]int{} // of a pod there may be tens of thousands
	name := func(option string) string {
		name, _, _ := strings.Cut(option, ":")
		return name
	}
	for i, o := range options {
		at[name(o)] = i
	}
	for _, o := range more {
		i, there := at[name(o)]
		if !there {
			i = len(options)
			at[name(o)], options = i, append(options, "")
		}
		options[i] = o
	}
	return options
}

func fitSearches(searches []string) []string {
	var out []string
	length := -1 // no space before the first
	for _, s := range searches[:min(len(searches), maxSearches)] {
		if len(s) > maxSearchDomain {
			continue
		}
		if length += 1 + len(s); length > maxSearchLine {
			break
		}
		out = append(out, s)
	}
	return out
}

func unique(list []string) []string {
	var out []string
	has := make(map[string]bool, len(list)) // the node's file may be long
	for _, s := range list {
		if !has[s] {
			has[s] = true
			out = append(out, s)
		}
	}
	return out
}
