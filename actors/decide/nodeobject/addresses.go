package nodeobject

import (
	v1 "k8s.io/api/core/v1"
	netutils "k8s.io/utils/net"
)

// addresses are those that a node shows. Those of a cloud's node are its controller's to change.
func (o *Own) addresses(machine, have []v1.NodeAddress) []v1.NodeAddress {
	if o.Cloud && len(have) > 0 {
		return have
	}
	return machine
}

// IPs are the addresses that pods have of a node from Shown, and at if there are none: its first one, and the first one
// of the other family. Those that the cluster reaches it by come before those of the world.
func IPs(list []v1.NodeAddress, at []string) []string {
	var out []string
	for _, kind := range [...]v1.NodeAddressType{v1.NodeInternalIP, v1.NodeExternalIP} {
		for _, a := range list {
			ip := netutils.ParseIPSloppy(a.Address)
			if a.Type != kind || ip == nil {
				continue
			}
			if len(out) == 0 || len(out) == 1 && netutils.IsIPv6(ip) != netutils.IsIPv6String(out[0]) {
				out = append(out, ip.String())
			}
		}
	}
	if len(out) == 0 {
		return at
	}
	return out
}
