package cpus

import (
	"fmt"
	"slices"

	"k8s.io/utils/cpuset"

	"github.com/troupe-dev/troupe/actors/decide/topology"
)

// Reserve are the CPUs of the system, which no container gets alone: those that are named (reservedSystemCPUs), or else
// as many as are reserved by quantity (kubeReserved and systemReserved), in thousandths of a CPU, rounded up. They are
// taken as a container's, so with cores in the order of their numbers they are the first cores of the first socket, or
// its first CPUs with distribute-cpus-across-cores.
//
// The static policy needs at least one. It fails without any, and if the machine does not have them.
func Reserve(t *topology.Machine, named cpuset.CPUSet, milli int64, o Options) (cpuset.CPUSet, error) {
	if !named.IsEmpty() {
		if missing := named.Difference(t.All()); !missing.IsEmpty() {
			return cpuset.New(), fmt.Errorf("reservedSystemCPUs %s: CPUs %s are not online: online are %s",
				named, missing, t.All())
		}
		return named, nil
	}
	if milli <= 0 {
		return cpuset.New(), fmt.Errorf("cpuManagerPolicy static or dynamic: no CPUs are reserved for the system: " +
			"set reservedSystemCPUs, or cpu in systemReserved or kubeReserved")
	}
	n := (milli + 999) / 1000
	if n > int64(len(t.CPUs)) {
		return cpuset.New(), fmt.Errorf("cpuManagerPolicy: %d CPUs are reserved, and %d are online", n, len(t.CPUs))
	}
	if o.DistributeAcrossCores { // as in a kubelet v1.37: a state file may give the others to containers
		t = &topology.Machine{Nodes: t.Nodes, CPUs: slices.Clone(t.CPUs)}
		for i := range t.CPUs {
			t.CPUs[i].Core = t.CPUs[i].ID
		}
	}
	return choose(t, t.All(), int(n), 1, o)
}

// Shared are the CPUs of all containers without their own, given the CPUs of the system and those that containers have
// alone. It is empty if strict-cpu-reservation leaves none.
func Shared(t *topology.Machine, reserved, exclusive cpuset.CPUSet, o Options) cpuset.CPUSet {
	out := t.All().Difference(exclusive)
	if o.StrictReservation {
		out = out.Difference(reserved)
	}
	return out
}
