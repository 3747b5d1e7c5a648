package memory

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	kubelet "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/cpuset"

	"github.com/troupe-dev/troupe/actors/decide/topology"
)

// Restricted is a policy of this agent: as Static, and a container whose memory would come from more nodes than it
// needs on a node without others is refused, whatever topologyManagerPolicy says.
const Restricted = "Restricted"

// maxChoices is how many nodes with memory are supported at most: all sets of them are tried.
const maxChoices = 16

// Block is memory of one kind that a container has.
type Block struct {
	// Nodes are those that it comes from.
	Nodes topology.Nodes
	// Type is memory or hugepages-SIZE.
	Type v1.ResourceName
	// Size is in bytes. That of an init container is what no later container of its pod uses again.
	Size uint64
}

// State is what containers have, by the UIDs of their pods and their names. A pod's map is never mutated.
type State map[types.UID]map[string][]Block

// Bank is how much of one kind of memory a node has, in bytes.
type Bank struct {
	// Total is all, System what is reserved for the system (reservedMemory), Allocatable what containers can have.
	Total, System, Allocatable uint64
}

// Banks are those of a machine, by the numbers of the nodes.
type Banks map[int]map[v1.ResourceName]Bank

// Config is what the rules of a node follow from.
type Config struct {
	Machine *topology.Machine
	// Policy is memoryManagerPolicy.
	Policy string
	// Reserved is reservedMemory. Reservation is what the node keeps from pods in all, of memory and huge pages
	// (systemReserved, kubeReserved and evictionHard).
	Reserved    []kubelet.MemoryReservation
	Reservation v1.ResourceList
}

// Rules assign memory on one machine. They are never mutated. Nil: no container gets memory of its own.
type Rules struct {
	banks Banks
	nodes []int
	// sets are all sets of nodes that have something to give: the smaller ones first, and of these the lower numbers.
	sets       []topology.Nodes
	restricted bool
}

// New makes the rules, nil with the policy None. The error names the setting that this machine can't have.
func New(c Config) (*Rules, error) {
	if c.Policy != kubelet.StaticMemoryManagerPolicy && c.Policy != Restricted {
		return nil, nil
	}
	reserved, err := reservations(&c)
	if err != nil {
		return nil, fmt.Errorf("reservedMemory: %w", err)
	}
	r := &Rules{banks: Banks{}, restricted: c.Policy == Restricted}
	for i := range c.Machine.Nodes {
		n := &c.Machine.Nodes[i]
		if topology.Possible([]int{n.ID}) == 0 {
			return nil, fmt.Errorf("memoryManagerPolicy %s: NUMA node %d: only 0 to 63 are supported", c.Policy, n.ID)
		}
		if r.banks[n.ID], err = banks(n, reserved[n.ID]); err != nil {
			return nil, fmt.Errorf("reservedMemory: %w", err)
		}
		r.nodes = append(r.nodes, n.ID)
	}
	ids := r.choices()
	if n := len(ids); n > maxChoices {
		return nil, fmt.Errorf("memoryManagerPolicy %s: %d NUMA nodes have memory, and at most %d are supported", c.Policy, n,
			maxChoices)
	}
	r.sets = sets(ids)
	return r, nil
}

// reservations is what is reserved on each node. In all it must be what the node keeps from pods: the scheduler goes by
// that, and would send more pods than the nodes have memory for, or fewer.
func reservations(c *Config) (map[int]map[v1.ResourceName]uint64, error) {
	out, sums := map[int]map[v1.ResourceName]uint64{}, map[v1.ResourceName]*resource.Quantity{}
	sum := func(name v1.ResourceName) *resource.Quantity {
		if sums[name] == nil {
			sums[name] = resource.NewQuantity(0, resource.BinarySI)
		}
		return sums[name]
	}
	for _, r := range c.Reserved {
		id := int(r.NumaNode)
		if _, has := c.Machine.Node(id); !has {
			return nil, fmt.Errorf("this machine has no NUMA node %d: it has %s", id, list(c.Machine))
		}
		if out[id] == nil {
			out[id] = map[v1.ResourceName]uint64{}
		}
		for name, q := range r.Limits { // order-free: sums
			out[id][name] += uint64(q.Value())
			sum(name).Add(q)
		}
	}
	names := map[v1.ResourceName]bool{}
	for name := range sums { // order-free: a set
		names[name] = true
	}
	for name := range c.Reservation { // order-free: a set
		names[name] = names[name] || Is(name)
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		want := c.Reservation[name]
		if got := sum(name); names[name] && got.Cmp(want) != 0 {
			return nil, fmt.Errorf("it reserves %s of %s on all NUMA nodes, and must reserve %s: what systemReserved, "+
				"kubeReserved and evictionHard keep from pods", got, name, &want)
		}
	}
	if sum(v1.ResourceMemory).IsZero() {
		return nil, fmt.Errorf("it must reserve some memory for the system with memoryManagerPolicy %s", c.Policy)
	}
	return out, nil
}

func list(m *topology.Machine) string {
	var out []string
	for i := range m.Nodes {
		out = append(out, fmt.Sprint(m.Nodes[i].ID))
	}
	return strings.Join(out, ", ")
}

// banks are those of one node.
func banks(n *topology.Node, reserved map[v1.ResourceName]uint64) (map[v1.ResourceName]Bank, error) {
	out, paged := map[v1.ResourceName]Bank{}, uint64(0)
	for size, count := range n.HugePages { // order-free: a map again, and a sum
		total := size * count
		paged += total
		out[PagesOf(size)] = Bank{Total: total}
	}
	out[v1.ResourceMemory] = Bank{Total: n.Memory}
	for _, name := range slices.Sorted(maps.Keys(reserved)) {
		if _, has := out[name]; !has {
			return nil, fmt.Errorf("NUMA node %d has no %s", n.ID, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(out)) {
		b := out[name]
		b.System = reserved[name]
		taken := b.System
		if name == v1.ResourceMemory {
			taken += paged
		}
		if taken > b.Total {
			return nil, fmt.Errorf("NUMA node %d has %s of %s, and %s are reserved or in huge pages", n.ID,
				quantity(b.Total), name, quantity(taken))
		}
		b.Allocatable = b.Total - taken
		out[name] = b
	}
	return out, nil
}

func quantity(n uint64) *resource.Quantity { return resource.NewQuantity(int64(n), resource.BinarySI) }

// PagesOf is the resource of huge pages of a size in bytes.
func PagesOf(size uint64) v1.ResourceName {
	return v1.ResourceName(v1.ResourceHugePagesPrefix + quantity(size).String())
}

// Is says whether a resource is a kind of memory.
func Is(name v1.ResourceName) bool {
	return name == v1.ResourceMemory || strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix)
}

// choices are the nodes that have something to give.
func (r *Rules) choices() (out []int) {
	for _, id := range r.nodes {
		for _, b := range r.banks[id] { // order-free: any
			if b.Total > 0 {
				out = append(out, id)
				break
			}
		}
	}
	return out
}

func sets(ids []int) []topology.Nodes {
	out := make([]topology.Nodes, 0, 1<<len(ids))
	for mask := uint(1); mask < 1<<len(ids); mask++ {
		n := topology.Nodes(0)
		for i, id := range ids {
			if mask>>i&1 == 1 {
				n |= topology.NodesOf(id)
			}
		}
		out = append(out, n)
	}
	slices.SortFunc(out, func(a, b topology.Nodes) int {
		return cmp.Or(a.Size()-b.Size(), cmp.Compare(uint64(a), uint64(b)))
	})
	return out
}

// Banks are those of the machine. They are not to be changed.
func (r *Rules) Banks() Banks { return r.banks }

// Allocatable is what containers can have of each node, in the order of the nodes and of the names. Of no rules it is
// nothing.
func (r *Rules) Allocatable() (out []Block) {
	if r == nil {
		return nil
	}
	for _, id := range r.nodes {
		for _, name := range slices.Sorted(maps.Keys(r.banks[id])) {
			if n := r.banks[id][name].Allocatable; n > 0 {
				out = append(out, Block{Nodes: topology.NodesOf(id), Type: name, Size: n})
			}
		}
	}
	return out
}

// NodesOf are the nodes that a container is bound to; none if it has no memory of its own.
func NodesOf(blocks []Block) (n topology.Nodes) {
	for _, b := range blocks {
		n |= b.Nodes
	}
	return n
}

// Mems is a set of nodes as the kernel and the CRI have it (LinuxContainerResources.cpuset_mems).
func Mems(n topology.Nodes) string { return cpuset.New(n.List()...).String() }
