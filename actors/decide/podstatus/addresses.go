package podstatus

import (
	"net/netip"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
)

// addresses fills the addresses of host and pod.
func (c *computer) addresses() {
	c.out.HostIP, c.out.HostIPs = c.prev.HostIP, c.prev.HostIPs
	if host := first2(c.in.HostIPs); len(host) > 0 &&
		!slices.EqualFunc(c.prev.HostIPs, host, func(h v1.HostIP, ip string) bool { return h.IP == ip }) {
		c.out.HostIP, c.out.HostIPs = host[0], make([]v1.HostIP, len(host))
		for i, ip := range host {
			c.out.HostIPs[i].IP = ip
		}
	}
	c.out.PodIP, c.out.PodIPs = c.prev.PodIP, c.prev.PodIPs
	ips, known := c.podIPs()
	if !known || slices.EqualFunc(c.prev.PodIPs, ips, func(p v1.PodIP, ip string) bool { return p.IP == ip }) {
		return
	}
	c.out.PodIP, c.out.PodIPs = "", nil
	if len(ips) > 0 {
		c.out.PodIP, c.out.PodIPs = ips[0], make([]v1.PodIP, len(ips))
		for i, ip := range ips {
			c.out.PodIPs[i].IP = ip
		}
	}
}

// podIPs are the pod's addresses, in the node's order of families. They are not known while no
// sandbox is up; then the last ones stay.
func (c *computer) podIPs() (ips []string, known bool) {
	if c.pod.Spec.HostNetwork {
		return c.hostNetworkIPs()
	}
	boxes := c.in.Plan.View.Sandboxes
	if len(boxes) == 0 || boxes[0].State != observed.SandboxReady || c.in.Plan.SandboxStopped[boxes[0].ID] {
		return nil, false
	}
	ips = ByFamily(boxes[0].IPs, c.in.PreferIPv6)
	return ips, len(ips) > 0
}

// hostNetworkIPs are the node's. They are set once: what clients have learned stays. Only a second family may come.
func (c *computer) hostNetworkIPs() (ips []string, known bool) {
	host, had := first2(c.in.HostIPs), c.prev.PodIPs
	switch {
	case len(had) == 0:
		return host, len(host) > 0
	case len(had) == 1 && len(host) == 2 && is4(had[0].IP) != is4(host[1]):
		return []string{had[0].IP, host[1]}, true
	}
	return nil, false
}

// ByFamily returns of a pod's addresses the first of the preferred family, and the first of the other one. That family
// is the first one of --node-ip, whatever the order in which a network plugin gives addresses.
func ByFamily(ips []string, preferIPv6 bool) []string {
	if len(ips) < 2 {
		return ips
	}
	i := slices.IndexFunc(ips, func(s string) bool { return is4(s) != preferIPv6 })
	j := slices.IndexFunc(ips, func(s string) bool { return is4(s) == preferIPv6 })
	switch {
	case i < 0:
		return ips[j : j+1]
	case j < 0:
		return ips[i : i+1]
	case i == 0 && j == 1:
		return ips[:2]
	}
	return []string{ips[i], ips[j]}
}

func is4(s string) bool {
	a, err := netip.ParseAddr(s)
	return err == nil && a.Unmap().Is4()
}

func first2(s []string) []string { return s[:min(2, len(s))] }
