package machine

import (
	"net/netip"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/nodeobject"
	"github.com/troupe-dev/troupe/actors/node"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/agent"
)

const (
	// agentVersion is what nodes say of their agent: a version of Kubernetes.
	agentVersion = "v1.36.0"
	architecture = "amd64"
	cores        = 4
)

// FactsOf is what the machine with that number is, with its address.
func FactsOf(name string, index int, capacity v1.ResourceList) *port.Machine {
	address := netip.AddrFrom4([4]byte{192, 168, byte(index >> 8), byte(index)}).String()
	return &port.Machine{
		Capacity: capacity, Allocatable: capacity,
		Addresses: []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: address}, {Type: v1.NodeHostName, Address: name}},
		Info: v1.NodeSystemInfo{
			OperatingSystem: "linux", Architecture: architecture, KernelVersion: "6.1.0", OSImage: "simulated",
			KubeletVersion: agentVersion, MachineID: name, BootID: "1",
		},
	}
}

// PodCIDR is what the pods of the machine with that number get addresses of. After 65,536 machines they start over:
// nothing routes here.
func PodCIDR(index int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(index >> 8), byte(index), 0}), 24)
}

// Agent is the daemon's default configuration of the node that own says, on this machine. The caller adds an apiserver,
// and what not every simulated machine has. There are no services.
func (m *Machine) Agent(own nodeobject.Own, runtime *simcri.Runtime, events port.Recorder) agent.Config {
	facts, c := m.Facts.Get(), agent.Default(cores)
	c.Name, c.HostIPs, c.RuntimeName = own.Name, nodeobject.IPs(facts.Addresses, nil), "simcri"
	c.Admit.Name, c.Admit.Arch, c.Admit.Labels, c.Admit.Taints = own.Name, architecture, own.Labels, own.Taints
	c.Admit.Allocatable, c.Admit.AppArmor, c.Admit.StrictGroups = facts.Allocatable, true, true
	c.Cluster.Own, c.Cluster.PodKeys, c.Cluster.Objects.NoServices = own, m.Host, true
	c.Ports = node.Ports{
		Runtime: runtime, Host: m.Host, Network: runtime.Network(), Manifests: m.Manifests,
		Checkpoints: m.Checkpoints, Events: events, Facts: m.Facts,
	}
	return c
}
