// Package topology decides from which NUMA nodes a pod or container gets its exclusive CPUs, memory and devices: it
// merges the hints of all resources as the topology manager of the kubelet does.
//
// Sources: kubernetes.io, "Control Topology Management Policies on a node"; KEP-693 (hints and policies), KEP-3545
// (prefer-closest-numa-nodes) and KEP-4622 (max-allowable-numa-nodes).
//
// Each resource of a request has a list of hints: sets of nodes that could fulfil it, each preferred or not. A choice
// takes one hint of every resource. It yields the nodes that all chosen hints share, and is preferred if all of them
// are, and have the same nodes. Choices without a shared node do not count. The best choice is, in this order:
//
//  1. a preferred one, before all others.
//  2. Among preferred ones: the one with the fewest nodes.
//  3. Among the others: as many nodes as the resource needs that needs the most, which is the largest of the fewest
//     nodes in the lists. Otherwise fewer, but as many as possible. Otherwise more, but as few as possible.
//  4. With as many nodes: the smallest distance between them, with prefer-closest-numa-nodes. Then the lower numbers.
//
// Without any choice, the result is all nodes, not preferred. What a policy does with it:
//
//	none              admits all, and has no affinity
//	best-effort       admits all
//	restricted        admits if the best choice is preferred
//	single-numa-node  admits if it is preferred, over the preferred hints of one node, or without nodes, alone
//
// These rules are a total order, so the order of choices does not matter. [Policy.Merge] does not try all choices, of
// which there are exponentially many in the number of resources. It computes which sets of nodes any choices share.
//
// # The machine
//
// [Machine] is the value that says how a machine is built: which CPUs share a core, a cache, a socket and a NUMA node,
// and which memory is near to which of them.
//
// Decisions about exclusive CPUs, memory and devices are made over this value. An adapter reads it from /sys.
package topology
