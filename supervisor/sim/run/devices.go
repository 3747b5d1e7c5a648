package run

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/troupe-dev/troupe/actors/decide/cpus"
	"github.com/troupe-dev/troupe/actors/decide/topology"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/invariants"
	"github.com/troupe-dev/troupe/supervisor/sim"
	"github.com/troupe-dev/troupe/supervisor/sim/machine"
	"github.com/troupe-dev/troupe/supervisor/sim/report"
	"github.com/troupe-dev/troupe/supervisor/sim/scenario"
)

// assigns gives a node device plugins and CPUs as the scenario says.
func assigns(s *sim.NodeSpec, k *scenario.Nodes) {
	if len(k.Devices) == 0 && k.CPUManagerPolicy == "" && k.TopologyManagerPolicy == "" {
		return
	}
	nodes, n := max(1, k.NUMANodes), k.CPUs()
	s.Assign = &cpus.Config{
		// The system has a CPU of its own, as the static policy wants it.
		Machine: sim.Topology(n, nodes), ReservedMilli: 1000,
		Static:          k.CPUManagerPolicy == cpus.Static || k.CPUManagerPolicy == cpus.Dynamic,
		Resizes:         k.CPUManagerPolicy == cpus.Dynamic,
		Topology:        kubelet.NoneTopologyManagerPolicy,
		TopologyOptions: topology.Options{MaxNodes: scenario.MaxNUMANodes},
	}
	if k.TopologyManagerPolicy != "" {
		s.Assign.Topology = k.TopologyManagerPolicy
	}
	s.Devices = map[v1.ResourceName]machine.DevicePlugin{}
	for name, d := range k.Devices { // order-free: a map again
		p := machine.DevicePlugin{Devices: sim.SpreadDevices(d.Count, nodes)}
		if d.Latency != nil {
			p.Latency = d.Latency.Duration
		}
		if d.Boot != nil {
			p.Boot = d.Boot.Duration
		}
		s.Devices[v1.ResourceName(name)] = p
	}
}

// holdDevices has the run fail if two running containers of a node have the same device.
func (r *run) holdDevices(s *sim.NodeSpec) {
	if len(s.Devices) == 0 {
		return
	}
	var held invariants.Devices
	name := s.Name
	s.Transition = func(t simcri.Transition) {
		if wrong := held.Wrong(&t); wrong != "" {
			r.failures = append(r.failures, report.Failure{
				At: r.now(), Want: "each device has one owner", Got: fmt.Sprintf("pod %s: %s", t.Pod, wrong), Where: name,
			})
		}
		held.Changed(&t)
	}
}

// plugins does f to the device plugin of each node that is meant.
func (r *run) plugins(
	d *scenario.OfDevices, kind report.MarkKind, where, verb string, f func(*machine.Plugins, v1.ResourceName),
) error {
	return r.each(&d.OfNodes, kind, where, verb+" "+d.Resource+" of", r.onNode(func(n *sim.Node) {
		f(n.Machine().Plugins, v1.ResourceName(d.Resource))
	}))
}

// setHealth changes the health of devices of each node that is meant.
func (r *run) setHealth(d *scenario.OfDevices, kind report.MarkKind, where, verb string, healthy bool) error {
	return r.plugins(d, kind, where, verb, func(p *machine.Plugins, name v1.ResourceName) {
		all := p.Of(name).Devices
		if d.Devices > 0 {
			all = all[:d.Devices]
		}
		for _, of := range all {
			p.SetHealth(name, of.ID, healthy)
		}
	})
}
