package topology

import (
	"fmt"
	"strconv"

	v1 "k8s.io/api/core/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/troupe-dev/troupe/actors/decide/admit"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// Hint is a set of nodes that could fulfil the request for a resource.
type Hint struct {
	// Nodes are those that the resource would come from. None means any: the resource has no place.
	Nodes Nodes
	// Preferred is set if no smaller set of nodes could ever fulfil the request.
	Preferred bool
}

// Any are the hints of a resource that has no preference.
func Any() []Hint { return []Hint{{Preferred: true}} }

// Never are the hints of a resource that cannot be had from any nodes.
func Never() []Hint { return []Hint{{}} }

// Options are topologyManagerPolicyOptions.
type Options struct {
	// PreferClosest is prefer-closest-numa-nodes. It has no effect with single-numa-node.
	PreferClosest bool
	// MaxNodes is max-allowable-numa-nodes.
	MaxNodes int
}

// Names of the options.
const (
	PreferClosest = "prefer-closest-numa-nodes"
	MaxNodes      = "max-allowable-numa-nodes"
)

// defaultMaxNodes is the default, and the least, of max-allowable-numa-nodes.
const defaultMaxNodes = 8

// maxChoices is how many nodes with CPUs or memory are supported at most: hints are made for each set of them.
const maxChoices = 16

// ParseOptions parses topologyManagerPolicyOptions.
func ParseOptions(options map[string]string) (Options, error) {
	o := Options{MaxNodes: defaultMaxNodes}
	for name, value := range options { // order-free: each on its own, and any error will do
		var err error
		switch name {
		case PreferClosest:
			o.PreferClosest, err = strconv.ParseBool(value)
		case MaxNodes:
			if o.MaxNodes, err = strconv.Atoi(value); err == nil && o.MaxNodes < defaultMaxNodes {
				err = fmt.Errorf("must be at least %d", defaultMaxNodes)
			}
		default:
			err = fmt.Errorf("unknown option: must be %s or %s", PreferClosest, MaxNodes)
		}
		if err != nil {
			return o, fmt.Errorf("topologyManagerPolicyOptions %s=%s: %w", name, value, err)
		}
	}
	return o, nil
}

// Policy merges hints on one machine. It is never mutated.
type Policy struct {
	name    string
	closest bool
	nodes   Nodes
	// distance is between two nodes by their numbers.
	distance [maxNode + 1][maxNode + 1]uint16
}

// New makes the policy of a name (topologyManagerPolicy). It fails if the machine has more nodes than the options
// allow, unless the policy is none.
func New(t *Machine, name string, o Options) (*Policy, error) {
	p := &Policy{name: name, closest: o.PreferClosest && name != kubelet.SingleNumaNodeTopologyManagerPolicy}
	switch name {
	case kubelet.NoneTopologyManagerPolicy:
		return p, nil
	case kubelet.BestEffortTopologyManagerPolicy, kubelet.RestrictedTopologyManagerPolicy,
		kubelet.SingleNumaNodeTopologyManagerPolicy:
	default:
		return nil, fmt.Errorf("topologyManagerPolicy %q is unknown", name)
	}
	if n := len(t.Nodes); n > o.MaxNodes {
		return nil, fmt.Errorf("topologyManagerPolicy %s: this machine has %d NUMA nodes, and only %d are allowed: "+
			"set %s in topologyManagerPolicyOptions", name, n, o.MaxNodes, MaxNodes)
	}
	busy := map[int]bool{}
	for _, c := range t.CPUs {
		busy[c.Node] = true
	}
	for _, n := range t.Nodes {
		if n.ID < 0 || n.ID > maxNode {
			return nil, fmt.Errorf("topologyManagerPolicy %s: NUMA node %d: only 0 to %d are supported", name, n.ID, maxNode)
		}
		p.nodes |= NodesOf(n.ID)
		if n.Memory > 0 {
			busy[n.ID] = true
		}
		if p.closest && len(n.Distances) != len(t.Nodes) {
			return nil, fmt.Errorf("topologyManagerPolicyOptions %s: the distances of NUMA node %d are unknown",
				PreferClosest, n.ID)
		}
		for j, d := range n.Distances {
			if j < len(t.Nodes) && t.Nodes[j].ID <= maxNode {
				p.distance[n.ID][t.Nodes[j].ID] = uint16(d)
			}
		}
	}
	if len(busy) > maxChoices {
		return nil, fmt.Errorf("topologyManagerPolicy %s: %d NUMA nodes have CPUs or memory, and at most %d are supported",
			name, len(busy), maxChoices)
	}
	return p, nil
}

// Aligns says whether hints count. With the policy none they need not be made.
func (p *Policy) Aligns() bool { return p.name != kubelet.NoneTopologyManagerPolicy }

// OneNode says whether the policy admits only what comes from one node.
func (p *Policy) OneNode() bool { return p.name == kubelet.SingleNumaNodeTopologyManagerPolicy }

// Groups are the containers for which hints are merged together, in the order of the spec: each for itself with the
// scope container (topologyManagerScope), and all of them with the scope pod. Ephemeral containers have no resources.
func Groups(scope string, spec *v1.PodSpec) (out [][]*v1.Container) {
	for c := range podspec.Lasting(spec) {
		if scope == kubelet.PodTopologyManagerScope && len(out) > 0 {
			out[0] = append(out[0], c)
		} else {
			out = append(out, []*v1.Container{c})
		}
	}
	return out
}

// AffinityError is the reason of a [Rejection].
const AffinityError = "TopologyAffinityError"

// Rejection is that of a pod that [Policy.Merge] did not admit, as the kubelet words it. podLevel says that the pod has
// resources of its own and the feature gate PodLevelResourceManagers is on.
func Rejection(scope string, podLevel bool) *admit.Rejection {
	r := &admit.Rejection{Reason: AffinityError, Message: "Resources cannot be allocated with Topology locality"}
	switch {
	case podLevel && scope == kubelet.PodTopologyManagerScope:
		r.Message = "Pod Scope pod with pod-level resources failed admission under pod-scope topology manager"
	case podLevel:
		r.Message = "Pod Scope pod with pod-level resources failed admission with a container-level topology manager"
	}
	return r
}
