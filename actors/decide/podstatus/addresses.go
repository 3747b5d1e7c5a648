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
		if len(c.prev.PodIPs) > 0 && (len(c.prev.PodIPs) > 1 || len(c.in.HostIPs) < 2) {
			return nil, false // set once
		}
		return first2(c.in.HostIPs), len(c.in.HostIPs) > 0
	}
	boxes := c.in.Plan.View.Sandboxes
	if len(boxes) == 0 || boxes[0].State != observed.SandboxReady || c.in.Plan.SandboxStopped[boxes[0].ID] {
		return nil, false
	}
	ips = boxes[0].IPs
	if len(ips) < 2 {
		return ips, len(ips) > 0
	}
	return byFamily(ips, c.in.HostIPs), true
}

// byFamily returns the first address of the node's primary family, and the first of the other
// family.
func byFamily(ips, host []string) []string {
	four := len(host) == 0 || is4(host[0])
	i := slices.IndexFunc(ips, func(s string) bool { return is4(s) == four })
	j := slices.IndexFunc(ips, func(s string) bool { return is4(s) != four })
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
