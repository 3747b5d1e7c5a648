package config

import (
	"errors"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubelet "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/cpuset"

	"github.com/troupe-dev/troupe/actors/decide/cpus"
	"github.com/troupe-dev/troupe/actors/decide/topology"
)

// StaticCPUs says whether containers get exclusive CPUs (cpuManagerPolicy static or dynamic).
func (c Config) StaticCPUs() bool {
	return c.kubelet.CPUManagerPolicy == cpus.Static || c.kubelet.CPUManagerPolicy == cpus.Dynamic
}

// resizesCPUs says whether a resize changes which CPUs containers have alone.
func (c Config) resizesCPUs() bool {
	return c.kubelet.CPUManagerPolicy == cpus.Dynamic || c.gates.Enabled("InPlacePodVerticalScalingExclusiveCPUs")
}

// NoQuotaOfOwnCPUs says whether such containers have no CPU quota (feature gate DisableCPUQuotaWithExclusiveCPUs).
func (c Config) NoQuotaOfOwnCPUs() bool {
	return c.StaticCPUs() && c.gates.Enabled("DisableCPUQuotaWithExclusiveCPUs")
}

// Assign is how containers get exclusive CPUs, but for the machine.
func (c Config) Assign() cpus.Config {
	k := c.kubelet
	named, err := cpuset.Parse(k.ReservedSystemCPUs)
	own, more := cpuOptions(&k, c.gates)
	near, third := topologyOptions(&k)
	if err = errors.Join(err, more, third); err != nil {
		panic("config: policies checked before: " + err.Error())
	}
	a := cpus.Config{
		Static: c.StaticCPUs(), Resizes: c.resizesCPUs(),
		Reserved: named, Options: own,
		Topology: k.TopologyManagerPolicy, TopologyOptions: near, Scope: k.TopologyManagerScope,
	}
	system, kube := c.Reserved()
	for _, list := range [...]v1.ResourceList{system, kube} {
		a.ReservedMilli += list.Cpu().MilliValue()
	}
	return a
}

func cpuOptions(k *kubelet.KubeletConfiguration, gates Gates) (cpus.Options, error) {
	return cpus.ParseOptions(k.CPUManagerPolicyOptions, gates.Enabled("CPUManagerPolicyAlphaOptions"),
		gates.Enabled("CPUManagerPolicyBetaOptions"))
}

// topologyOptions are those of topologyManagerPolicy. Without a policy nobody reads them.
func topologyOptions(k *kubelet.KubeletConfiguration) (topology.Options, error) {
	if k.TopologyManagerPolicy == kubelet.NoneTopologyManagerPolicy {
		return topology.ParseOptions(nil)
	}
	return topology.ParseOptions(k.TopologyManagerPolicyOptions)
}

// reserveNamed counts the CPUs that are reserved by name (reservedSystemCPUs) as those of the system, instead of the
// quantities.
func reserveNamed(system, kube v1.ResourceList, named string) v1.ResourceList {
	set, err := cpuset.Parse(named)
	if err != nil || set.IsEmpty() {
		return system
	}
	if system == nil {
		system = v1.ResourceList{}
	}
	system[v1.ResourceCPU] = resource.MustParse(strconv.Itoa(set.Size()))
	delete(kube, v1.ResourceCPU)
	return system
}
