package topology

import (
	"fmt"
	"math/bits"
)

// Nodes is a set of NUMA nodes, by the kernel's numbers 0 to 63.
type Nodes uint64

// maxNode is the highest number of a node that a set can have.
const maxNode = 63

// NodesOf is the set of some nodes. A number below 0 or above 63 panics: [New] refuses machines with such nodes.
func NodesOf(ids ...int) (n Nodes) {
	for _, id := range ids {
		if id < 0 || id > maxNode {
			panic(fmt.Sprintf("NUMA node %d: sets are of nodes 0 to %d", id, maxNode))
		}
		n |= 1 << id
	}
	return n
}

// Possible is the set of those of some nodes that a set can have.
func Possible(ids []int) (n Nodes) {
	for _, id := range ids {
		if id >= 0 && id <= maxNode {
			n |= 1 << id
		}
	}
	return n
}

// Has says whether a node is in the set.
func (n Nodes) Has(id int) bool { return id >= 0 && id <= maxNode && n>>id&1 == 1 }

// Size is how many nodes are in the set.
func (n Nodes) Size() int { return bits.OnesCount64(uint64(n)) }

// List are the nodes in ascending order.
func (n Nodes) List() []int {
	out := make([]int, 0, n.Size())
	for left := uint64(n); left != 0; left &= left - 1 {
		out = append(out, bits.TrailingZeros64(left))
	}
	return out
}

// compress moves the bits that are set in used together, in their order.
func (n Nodes) compress(used Nodes) (out uint) {
	for i, id := range used.List() {
		out |= uint(n>>id&1) << i
	}
	return out
}

// expand is the inverse of compress.
func expand(small uint, used Nodes) (n Nodes) {
	for i, id := range used.List() {
		n |= Nodes(small>>i&1) << id
	}
	return n
}
