package devices

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/topology"
)

// Hints implements topology.Provider: for each resource, all sets of NUMA nodes that have enough devices. Preferred are
// those of the least size that could have as many, were all devices free. Devices without nodes have no preference, and
// neither has a pod that runs: what its containers have is not chosen once more. Nodes that the machine does not have
// do not count.
func (p *Placing) Hints(group []*v1.Container) (out [][]topology.Hint) {
	for _, name := range p.inv.Names() {
		n := p.needed(group, name)
		if n <= 0 {
			continue
		}
		r, had := p.inv[name], p.had(group, name)
		switch placed := slices.ContainsFunc(r.Devices, func(d Device) bool { return p.near(d) != 0 }); {
		case !placed, p.Keep, len(had) > 0 && len(had) != n:
			out = append(out, topology.Any())
		case len(had) == n:
			out = append(out, p.hints(r.Devices, had, nil, n))
		default:
			out = append(out, p.hints(r.Devices, ids(p.free(name)), p.reusable(name), n))
		}
	}
	return out
}

// had are the devices of a resource that a group of containers has, sorted.
func (p *Placing) had(group []*v1.Container, name v1.ResourceName) (out []string) {
	for _, c := range group {
		out = append(out, grant(p.got.Own, c.Name, name).All()...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// setOf is a set: a plugin may have 100,000 devices, and lists of them are not to be searched for each.
func setOf(ids []string) map[string]bool {
	out := make(map[string]bool, len(ids))
	for _, id := range ids {
		out[id] = true
	}
	return out
}

func ids(of []Device) (out []string) {
	for _, d := range of {
		out = append(out, d.ID)
	}
	return out
}

func (p *Placing) hints(all []Device, free, reusable []string, n int) (out []topology.Hint) {
	// Devices near to the same nodes are counted together.
	type count struct{ all, free, reusable int }
	counts := map[topology.Nodes]*count{}
	named := topology.Nodes(0)
	isFree, isReusable := setOf(free), setOf(reusable)
	for _, d := range all {
		set := p.near(d)
		named |= set
		if counts[set] == nil {
			counts[set] = &count{}
		}
		counts[set].all++
		if isReusable[d.ID] {
			counts[set].reusable++
		} else if isFree[d.ID] {
			counts[set].free++
		}
	}
	least := p.machine.Size()
	for _, set := range p.choices(named) {
		var in count
		for near, c := range counts { // order-free: sums
			if near&set != 0 {
				in = count{in.all + c.all, in.free + c.free, in.reusable + c.reusable}
			}
		}
		if in.all >= n {
			least = min(least, set.Size())
		}
		if in.reusable == len(reusable) && in.free+in.reusable >= n {
			out = append(out, topology.Hint{Nodes: set})
		}
	}
	if len(out) == 0 {
		return topology.Never()
	}
	for i := range out {
		out[i].Preferred = out[i].Nodes.Size() == least
	}
	return out
}

// near are the nodes of the machine that a device is near to. What else its plugin says is ignored.
func (p *Placing) near(d Device) (out topology.Nodes) {
	for _, node := range d.Nodes {
		if p.machine.Has(int(node)) {
			out |= topology.NodesOf(int(node))
		}
	}
	return out
}

// maxEach is up to how many nodes there is a hint for each set of them.
const maxEach = 12

// choices are the sets of nodes that there may be hints for: all sets of the machine's nodes. On a machine with more
// than maxEach, they are all sets of the nodes that devices are near to. If these are too many as well, they are each
// of them alone, and all together: a pod that needs a few of them gets devices from any.
func (p *Placing) choices(named topology.Nodes) (out []topology.Nodes) {
	of := p.machine
	if of.Size() > maxEach {
		of = named
	}
	ids := of.List()
	if len(ids) > maxEach {
		for _, id := range ids {
			out = append(out, topology.NodesOf(id))
		}
		return append(out, of)
	}
	for mask := 1; mask < 1<<len(ids); mask++ {
		var set topology.Nodes
		for i, id := range ids {
			if mask&(1<<i) != 0 {
				set |= topology.NodesOf(id)
			}
		}
		out = append(out, set)
	}
	return out
}
