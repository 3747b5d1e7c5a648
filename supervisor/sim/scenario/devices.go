package scenario

import (
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/troupe-dev/troupe/actors/decide/cpus"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// Limits of what a machine has.
const (
	MaxDevices   = 1024
	MaxNUMANodes = 16
)

// devices checks what the machines have for containers alone.
func (c *checker) devices(n *Nodes) {
	for name, d := range sorted(n.Devices) {
		at := "nodes.devices[" + name + "]"
		if !podspec.IsExtended(v1.ResourceName(name)) {
			c.add(at, "must be an extended resource, like example.com/gpu")
		}
		c.count(at+".count", d.Count, 1, MaxDevices)
		if d.Latency != nil {
			c.duration(at+".latency", *d.Latency, time.Millisecond)
		}
		if d.Boot != nil {
			c.duration(at+".boot", *d.Boot, 0)
		}
	}
	if n.NUMANodes != 0 {
		c.count("nodes.numaNodes", n.NUMANodes, 1, MaxNUMANodes)
		if cpus := n.CPUs(); n.NUMANodes > cpus {
			c.add("nodes.numaNodes", "%d: there are only %d CPUs", n.NUMANodes, cpus)
		}
	}
	c.oneOf("nodes.cpuManagerPolicy", n.CPUManagerPolicy, cpus.None, cpus.Static, cpus.Dynamic)
	c.oneOf("nodes.topologyManagerPolicy", n.TopologyManagerPolicy, kubelet.NoneTopologyManagerPolicy,
		kubelet.BestEffortTopologyManagerPolicy, kubelet.RestrictedTopologyManagerPolicy,
		kubelet.SingleNumaNodeTopologyManagerPolicy)
}

func (c *checker) oneOf(field, value string, may ...string) {
	if value != "" && !slices.Contains(may, value) {
		c.add(field, "%q: must be one of %s", value, strings.Join(may, ", "))
	}
}

// served reports whether the machines have devices of that name.
func (c *checker) served(field, name string) bool {
	_, is := c.kind.Devices[name]
	if !is {
		c.add(field, "%q: no device plugin serves it: name it in nodes.devices", name)
	}
	return is
}

func (c *checker) ofDevices(at string, d *OfDevices, some bool) {
	c.ofNodes(at, &d.OfNodes)
	is := c.served(at+".resource", d.Resource)
	switch {
	case d.Devices == 0 || !is:
	case !some:
		c.add(at+".devices", "a plugin has all its devices: leave it out")
	default:
		c.count(at+".devices", d.Devices, 1, c.kind.Devices[d.Resource].Count)
	}
}

// CPUs are those of a machine.
func (n *Nodes) CPUs() int {
	if n.CPU == nil {
		return DefaultCPUs
	}
	return max(1, int(n.CPU.Value()))
}

// DefaultCPUs are those of a machine if nodes.cpu does not say.
const DefaultCPUs = 32
