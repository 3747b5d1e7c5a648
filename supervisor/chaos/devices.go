package chaos

import (
	"time"

	v1 "k8s.io/api/core/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/troupe-dev/troupe/actors/decide/cpus"
	"github.com/troupe-dev/troupe/actors/decide/devicestate"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/topology"
	"github.com/troupe-dev/troupe/supervisor/chaos/plan"
	"github.com/troupe-dev/troupe/supervisor/invariants"
	"github.com/troupe-dev/troupe/supervisor/sim"
	"github.com/troupe-dev/troupe/supervisor/sim/machine"
)

// A machine with devices has two NUMA nodes with so many CPUs, of which one is the system's.
const (
	numaNodes   = 2
	machineCPUs = 32
)

// equip gives a machine the devices and CPUs of the case.
func (r *runner) equip(s *sim.NodeSpec) {
	if r.c.Devices == 0 {
		return
	}
	s.Assign = &cpus.Config{
		Machine: sim.Topology(machineCPUs, numaNodes), Static: true, ReservedMilli: 1000,
		Topology: kubelet.BestEffortTopologyManagerPolicy, TopologyOptions: topology.Options{MaxNodes: numaNodes},
	}
	s.Devices = map[v1.ResourceName]machine.DevicePlugin{plan.GPU: {
		Devices: sim.SpreadDevices(r.c.Devices, numaNodes), Boot: time.Second,
	}}
}

// served notes on the disk of a machine that its device plugin was known before: pods wait for it from the start.
func (r *runner) served(m *caseNode) {
	if r.c.Devices == 0 {
		return
	}
	m.Machine().Checkpoints.Put(devicestate.Name, devicestate.Format(map[v1.ResourceName][]string{plan.GPU: nil}, nil))
}

// unplug does an operation on the device plugin of a machine.
func (r *runner) unplug(m *caseNode, o *plan.Op, wait time.Duration) {
	p := m.Machine().Plugins
	if o.Verb == plan.StopPlugin {
		p.Stop(plan.GPU)
		r.v.AfterFunc(max(wait, restartDelay), func() { p.Start(plan.GPU) })
		return
	}
	set := func(healthy bool) {
		for _, d := range p.Of(plan.GPU).Devices {
			p.SetHealth(plan.GPU, d.ID, healthy)
		}
	}
	set(false)
	r.v.AfterFunc(max(wait, restartDelay), func() { set(true) })
}

// misassigned says what is wrong with what containers have alone, on a machine at rest; empty if nothing is.
func (r *runner) misassigned(m *caseNode) string {
	if r.c.Devices == 0 || m.rules.DevicesLost() {
		return ""
	}
	return invariants.Assignments(m.Runtime(), m.Machine().Checkpoints, machineCPUs, func(ref observed.PodRef) *v1.Pod {
		return r.pod(r.podName(ref.Name)).asked
	})
}
