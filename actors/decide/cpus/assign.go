package cpus

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	kubelet "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/cpuset"

	"github.com/troupe-dev/troupe/actors/decide/topology"
)

// State is the CPUs that containers have alone, by the UIDs of their pods and their names. A pod's map is never
// mutated.
type State map[types.UID]map[string]cpuset.CPUSet

// Config is what the rules of a node follow from.
type Config struct {
	Machine *topology.Machine
	// Static: containers get exclusive CPUs (cpuManagerPolicy static). Otherwise the next four do not count.
	Static bool
	// Resizes: what containers have alone follows what their pod is allocated (cpuManagerPolicy dynamic, or feature gate
	// InPlacePodVerticalScalingExclusiveCPUs). Otherwise they keep what they began with.
	Resizes bool
	// Reserved are the CPUs of the system by name (reservedSystemCPUs), and ReservedMilli how many there are otherwise,
	// in thousandths (systemReserved and kubeReserved).
	Reserved      cpuset.CPUSet
	ReservedMilli int64
	// Options are cpuManagerPolicyOptions.
	Options Options
	// Topology is topologyManagerPolicy, TopologyOptions its options, and Scope topologyManagerScope.
	Topology        string
	TopologyOptions topology.Options
	Scope           string
}

// Rules assign CPUs on one machine. They are never mutated.
type Rules struct {
	machine  *topology.Machine
	static   bool
	resizes  bool
	reserved cpuset.CPUSet
	options  Options
	policy   *topology.Policy
	scope    string
}

// New makes the rules. The error names the setting that this machine can't have.
func New(c Config) (*Rules, error) {
	reserved := cpuset.New()
	if c.Static {
		err := c.Options.Fit(c.Machine, c.Topology == kubelet.SingleNumaNodeTopologyManagerPolicy)
		if err != nil {
			return nil, err
		}
		if reserved, err = Reserve(c.Machine, c.Reserved, c.ReservedMilli, c.Options); err != nil {
			return nil, err
		}
	}
	policy, err := topology.New(c.Machine, c.Topology, c.TopologyOptions)
	if err != nil {
		return nil, err
	}
	return &Rules{
		machine: c.Machine, static: c.Static, resizes: c.Static && c.Resizes, reserved: reserved, options: c.Options,
		policy: policy, scope: c.Scope,
	}, nil
}

// exclusive are all CPUs that some container has alone.
func (s State) exclusive() cpuset.CPUSet {
	out := cpuset.New()
	for _, own := range s { // order-free: a union
		for _, set := range own { // order-free: a union
			out = out.Union(set)
		}
	}
	return out
}

// Shared are the CPUs of all containers without their own. It may be empty with strict-cpu-reservation. It is empty
// if no container gets its own: then all run anywhere.
func (r *Rules) Shared(s State) cpuset.CPUSet {
	if !r.static {
		return cpuset.New()
	}
	return Shared(r.machine, r.reserved, s.exclusive(), r.options)
}

// Resizes says whether what containers have alone follows what their pod is allocated.
func (r *Rules) Resizes() bool { return r.resizes }

// Static says whether containers get exclusive CPUs.
func (r *Rules) Static() bool { return r.static }

// Aligns says whether the topology manager has to agree to what pods get.
func (r *Rules) Aligns() bool { return r.policy.Aligns() }

// OwnPerNode is how many CPUs containers have alone of each NUMA node with CPUs, by the nodes' IDs.
func (r *Rules) OwnPerNode(s State) map[int]int { return PerNode(r.machine, s.exclusive()) }

// Allocatable are the CPUs that containers may get alone.
func (r *Rules) Allocatable() cpuset.CPUSet {
	if !r.static {
		return cpuset.New()
	}
	return r.machine.All().Difference(r.reserved)
}

// Nodes are the NUMA nodes of the machine, by their IDs.
func (r *Rules) Nodes() (out []int) {
	for _, n := range r.machine.Nodes {
		out = append(out, n.ID)
	}
	return out
}

// Check says why a state that an earlier agent left can't be continued with: shared are the CPUs that it shared then.
// Containers of one pod may have the same CPUs, as init containers do.
func (r *Rules) Check(s State, shared cpuset.CPUSet) error {
	seen := cpuset.New()
	for _, uid := range slices.Sorted(maps.Keys(s)) {
		own := cpuset.New()
		for _, set := range s[uid] { // order-free: a union
			own = own.Union(set)
		}
		if twice := seen.Intersection(own); !twice.IsEmpty() {
			return fmt.Errorf("CPUs %s are in it for pod %s and for another pod", twice, uid)
		}
		if taken := own.Intersection(r.reserved); !taken.IsEmpty() {
			return fmt.Errorf("CPUs %s are reserved for the system, and are in it for pod %s", taken, uid)
		}
		seen = seen.Union(own)
	}
	if both := seen.Intersection(shared); !both.IsEmpty() {
		return fmt.Errorf("CPUs %s are in it as shared and as those of a pod", both)
	}
	if want := r.Shared(s); !shared.IsEmpty() && !shared.Equals(want) || !seen.Difference(r.machine.All()).IsEmpty() {
		return fmt.Errorf("it is for other CPUs: shared in it are %s, and should be %s: the CPUs that are online, or the "+
			"reserved ones, have changed", shared, want)
	}
	return nil
}
