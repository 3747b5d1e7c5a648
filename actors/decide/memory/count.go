package memory

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/topology"
)

// Used is what is taken of one node.
type Used struct {
	// Assignments are the blocks that come from it, also partly.
	Assignments int
	// Group are the nodes that it gives memory together with: itself alone if nothing is taken.
	Group topology.Nodes
	// Reserved is how much is taken, in bytes by kind.
	Reserved map[v1.ResourceName]uint64
}

// Count is what containers have of each node. A block is taken from the lowest of its nodes that have some left: of a
// group, only the sums matter. It fails with a block that the machine can't have. Whether the machine is as it was does
// not matter beside that: how much memory a node has differs with each boot, by where the kernel puts itself.
func (r *Rules) Count(s State) (map[int]*Used, error) {
	out := make(map[int]*Used, len(r.nodes))
	for _, id := range r.nodes {
		out[id] = &Used{Group: topology.NodesOf(id), Reserved: map[v1.ResourceName]uint64{}}
	}
	for _, uid := range slices.Sorted(maps.Keys(s)) {
		for _, name := range slices.Sorted(maps.Keys(s[uid])) {
			for _, b := range s[uid][name] {
				if err := r.take(out, b); err != nil {
					return nil, fmt.Errorf("pod %s, container %q: %w", uid, name, err)
				}
			}
		}
	}
	return out, nil
}

func (r *Rules) take(used map[int]*Used, b Block) error {
	left := b.Size
	for _, id := range b.Nodes.List() {
		u := used[id]
		if u == nil {
			return fmt.Errorf("this machine has no NUMA node %d", id)
		}
		bank, has := r.banks[id][b.Type]
		if !has {
			return fmt.Errorf("NUMA node %d has no %s", id, b.Type)
		}
		if u.Assignments > 0 && u.Group != b.Nodes {
			return fmt.Errorf("it has %s of the NUMA nodes %s, and others have some of %s", b.Type, Mems(b.Nodes),
				Mems(u.Group))
		}
		u.Assignments, u.Group = u.Assignments+1, b.Nodes
		n := min(left, bank.Allocatable-u.Reserved[b.Type])
		u.Reserved[b.Type] += n
		left -= n
	}
	if left > 0 {
		return fmt.Errorf("%s of %s on the NUMA nodes %s are more than there is", quantity(b.Size), b.Type, Mems(b.Nodes))
	}
	return nil
}
