package podstatus_test

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podstatus"
	"github.com/troupe-dev/troupe/tests/check"
)

func TestAddresses(t *testing.T) {
	in := baseInput()
	s := podstatus.Compute(in)
	in.Previous = &s
	sandboxDown(&in)
	check.Equal(t, podstatus.Compute(in).PodIP, "10.1.0.1", "the address of a pod whose sandbox is down")
	in = baseInput()
	in.Plan.Pod.Spec.HostNetwork, in.Plan.View.Sandboxes[0].HostNetwork, in.Plan.View.Sandboxes[0].IPs = true, true, nil
	s = podstatus.Compute(in)
	check.Equal(t, s.PodIP, "192.0.2.1", "the address of a pod on the host's network")
	in.Previous, in.HostIPs = &s, []string{"192.0.2.7"}
	if s := podstatus.Compute(in); s.PodIP != "192.0.2.1" || s.HostIP != "192.0.2.7" {
		t.Errorf("after the host's address changed: pod %q host %q", s.PodIP, s.HostIP)
	}
}

// TestFamilies: the kubelet's sortPodIPs, and what it adds to a pod on the host's network.
func TestFamilies(t *testing.T) {
	for _, c := range []struct {
		name           string
		six            bool
		host, had, ips string
		pod, hosts     string
	}{
		{"one address", false, "192.0.2.1", "", "10.1.0.1", "10.1.0.1", "192.0.2.1"},
		{"the only one is of the other family", true, "fd00::1", "", "10.1.0.1", "10.1.0.1", "fd00::1"},
		{"in order", false, "192.0.2.1 fd00::1", "", "10.1.0.1 fd01::1", "10.1.0.1 fd01::1", "192.0.2.1 fd00::1"},
		{"against the plugin's order", true, "fd00::1 192.0.2.1", "", "10.1.0.1 fd01::1", "fd01::1 10.1.0.1", "fd00::1 192.0.2.1"},
		{"not by the node's first address: a cloud gave that", false, "fd00::1 192.0.2.1", "", "fd01::1 10.1.0.1", "10.1.0.1 fd01::1", "fd00::1 192.0.2.1"},
		{"more than two", true, "fd00::1", "", "10.1.0.1 10.1.0.2 fd01::1 fd01::2", "fd01::1 10.1.0.1", "fd00::1"},
		{"two of one family", true, "fd00::1", "", "10.1.0.1 10.1.0.2", "10.1.0.1", "fd00::1"},
		{"the host's", false, "192.0.2.1 fd00::1", "", "host", "192.0.2.1 fd00::1", "192.0.2.1 fd00::1"},
		{"the host's, not sorted again", false, "fd00::1 192.0.2.1", "", "host", "fd00::1 192.0.2.1", "fd00::1 192.0.2.1"},
		{"the host has a second one now", false, "192.0.2.7 fd00::1", "192.0.2.1", "host", "192.0.2.1 fd00::1", "192.0.2.7 fd00::1"},
		{"the host has a second one, but first", false, "fd00::1 192.0.2.1", "192.0.2.1", "host", "192.0.2.1", "fd00::1 192.0.2.1"},
		{"the host's have changed", false, "192.0.2.7 fd00::7", "192.0.2.1 fd00::1", "host", "192.0.2.1 fd00::1", "192.0.2.7 fd00::7"},
	} {
		in := baseInput()
		in.PreferIPv6, in.HostIPs = c.six, strings.Fields(c.host)
		box := &in.Plan.View.Sandboxes[0]
		if box.IPs = strings.Fields(c.ips); c.ips == "host" {
			in.Plan.Pod.Spec.HostNetwork, box.HostNetwork, box.IPs = true, true, nil
		}
		in.Previous = &v1.PodStatus{}
		for i, ip := range strings.Fields(c.had) {
			if in.Previous.PodIPs = append(in.Previous.PodIPs, v1.PodIP{IP: ip}); i == 0 {
				in.Previous.PodIP = ip
			}
		}
		s := podstatus.Compute(in)
		var pod, hosts []string
		for _, ip := range s.PodIPs {
			pod = append(pod, ip.IP)
		}
		for _, ip := range s.HostIPs {
			hosts = append(hosts, ip.IP)
		}
		if strings.Join(pod, " ") != c.pod || strings.Join(hosts, " ") != c.hosts || s.PodIP != pod[0] || s.HostIP != hosts[0] {
			t.Errorf("%s: pod %s (%s), host %s (%s); want %s and %s", c.name, pod, s.PodIP, hosts, s.HostIP, c.pod, c.hosts)
		}
	}
}
