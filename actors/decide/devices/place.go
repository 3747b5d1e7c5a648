package devices

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/admit"
	"github.com/troupe-dev/troupe/actors/decide/devicestate"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/topology"
)

// Key is one resource of one container.
type Key struct {
	Container string
	Resource  v1.ResourceName
}

// Question is which of some devices a plugin prefers for a container (GetPreferredAllocation).
type Question struct {
	Key
	// Available are sorted. Must are some of them that the answer must have. Size is how many there should be.
	Available, Must []string
	Size            int
}

// Placing chooses devices for the containers of one pod: a [topology.Provider].
//
// Containers use devices of init containers that have ended before them again. Then they get devices that are near to
// the nodes of their affinity, of those the ones that the plugin prefers; then any others.
type Placing struct {
	// Keep: the pod runs already, so it is not refused, and its containers get no new devices: they may have some that
	// nobody knows. Down are those that nothing lives of. They get others.
	Keep bool
	Down []string

	inv     Inventory
	pod     *v1.Pod
	prefers map[Key][]string
	// machine are the nodes of the machine.
	machine topology.Nodes
	// taken are the devices that containers of any pod have.
	taken map[v1.ResourceName]map[string]bool
	got   Placed
	// unknown is Unknown.
	unknown map[string]string
}

// Placed is what a pod gets.
type Placed struct {
	// Own is all that the containers of the pod have, also from before. Nil: nothing.
	Own map[string][]devicestate.Grant
	// Ask are the questions to plugins without an answer. While there are any, another choice may follow.
	Ask []Question
	// Fresh are those parts of Own that are new: their plugins have not answered yet.
	Fresh []Key
}

// Place begins to choose. given is what containers of all pods have, prefers what plugins have answered to
// [Placed.Ask] of an earlier choice; nodes are the NUMA nodes of the machine. Those that no set can have (see
// [topology.Nodes]) do not count. Nothing of it is changed.
func Place(inv Inventory, given devicestate.Grants, pod *v1.Pod, prefers map[Key][]string, nodes []int) *Placing {
	p := &Placing{inv: inv, pod: pod, prefers: prefers, taken: map[v1.ResourceName]map[string]bool{}}
	p.machine = topology.Possible(nodes)
	for _, containers := range given { // order-free: a set
		for _, grants := range containers { // order-free: a set
			for _, g := range grants {
				p.take(g)
			}
		}
	}
	p.got.Own = maps.Clone(given[pod.UID])
	return p
}

func (p *Placing) take(g devicestate.Grant) {
	set := p.taken[g.Resource]
	if set == nil {
		set = map[string]bool{}
		p.taken[g.Resource] = set
	}
	for _, id := range g.All() {
		set[id] = true
	}
}

// Result is what was chosen so far.
func (p *Placing) Result() Placed { return p.got }

// IDs are the devices of one part of what a pod gets.
func (p Placed) IDs(key Key) []string { return grant(p.Own, key.Container, key.Resource).All() }

func grant(own map[string][]devicestate.Grant, container string, name v1.ResourceName) devicestate.Grant {
	for _, g := range own[container] {
		if g.Resource == name {
			return g
		}
	}
	return devicestate.Grant{}
}

// needs is how many devices a container asks for. The request for an extended resource is its limit (API validation).
func needs(c *v1.Container, name v1.ResourceName) int {
	q := c.Resources.Limits[name]
	return int(q.Value())
}

// needed is how many devices a group of containers needs at most at any time.
func (p *Placing) needed(group []*v1.Container, name v1.ResourceName) int {
	if len(group) == 1 {
		return needs(group[0], name)
	}
	running, peak := 0, 0
	for c, kind := range podspec.Lasting(&p.pod.Spec) {
		if kind == podspec.Init {
			peak = max(peak, running+needs(c, name))
		} else {
			running += needs(c, name)
		}
	}
	return max(running, peak)
}

// reusable are the devices that the next container may have from init containers of its pod, sorted.
func (p *Placing) reusable(name v1.ResourceName) []string {
	out := map[string]bool{}
	for c, kind := range podspec.Lasting(&p.pod.Spec) {
		for _, id := range grant(p.got.Own, c.Name, name).All() {
			if kind == podspec.Init {
				out[id] = true
			} else {
				delete(out, id)
			}
		}
	}
	return slices.Sorted(maps.Keys(out))
}

// free are the healthy devices that nobody has.
func (p *Placing) free(name v1.ResourceName) (out []Device) {
	for _, d := range p.inv.HealthyOf(name) {
		if !p.taken[name][d.ID] {
			out = append(out, d)
		}
	}
	return out
}

// Take implements topology.Provider.
func (p *Placing) Take(c *v1.Container, affinity topology.Hint) *admit.Rejection {
	for _, name := range p.inv.Names() {
		n := needs(c, name)
		if n <= 0 {
			continue
		}
		if has := grant(p.got.Own, c.Name, name).All(); len(has) > 0 {
			if why := p.unhealthy(name, has); why != nil {
				return why
			}
			continue
		}
		if p.Keep && !slices.Contains(p.Down, c.Name) {
			p.lost(c, name)
			continue
		}
		ids, why := p.fresh(c, name, n, affinity.Nodes)
		switch {
		case why != nil && p.Keep:
			p.lost(c, name)
			continue
		case why != nil:
			return why
		}
		g := p.grantOf(name, ids)
		p.take(g)
		if p.got.Own == nil {
			p.got.Own = map[string][]devicestate.Grant{}
		}
		p.got.Own[c.Name] = append(slices.Clone(p.got.Own[c.Name]), g)
		p.got.Fresh = append(p.got.Fresh, Key{c.Name, name})
	}
	return nil
}

// fresh are the devices that a container gets which has none.
func (p *Placing) fresh(
	c *v1.Container, name v1.ResourceName, n int, near topology.Nodes,
) ([]string, *admit.Rejection) {
	ids := p.reusable(name)
	ids = ids[:min(n, len(ids))]
	more := n - len(ids)
	if more == 0 {
		return ids, nil
	}
	free := p.free(name)
	switch {
	case !p.inv[name].Served:
		return nil, &admit.Rejection{Reason: admit.UnexpectedAdmissionError, Message: devicestate.Unserved(c, name)}
	case len(free) < more:
		return nil, admit.Unexpected(fmt.Errorf(
			"requested number of devices unavailable for %s. Requested: %d, Available: %d", name, more, len(free)))
	}
	return append(ids, p.choose(Key{c.Name, name}, free, ids, more, near)...), nil
}

// unhealthy is why a container can't begin with devices that it had before the machine was restarted: its plugin does
// not list them any more, or not as healthy. One that runs keeps them, and nobody knows those of a plugin that is gone.
func (p *Placing) unhealthy(name v1.ResourceName, has []string) *admit.Rejection {
	if p.Keep || !p.inv[name].Served {
		return nil
	}
	healthy := setOf(ids(p.inv.HealthyOf(name)))
	for _, id := range has {
		if !healthy[id] {
			return admit.Unexpected(fmt.Errorf(
				"previously allocated devices are no longer healthy; cannot allocate unhealthy devices %s: %s", name, id))
		}
	}
	return nil
}

// lost notes that nobody knows the devices of a container of a pod that runs, and that it can't have others.
func (p *Placing) lost(c *v1.Container, name v1.ResourceName) {
	if p.unknown == nil {
		p.unknown = map[string]string{}
	}
	q := c.Resources.Limits[name]
	p.unknown[c.Name] = fmt.Sprintf("resources.limits[%s]: %s requested, but the checkpoint of device plugins does not "+
		"have the devices of this container, which ran before the agent started, and there are no others for it yet",
		name, q.String())
}

// Unknown says of the containers whose devices nobody knows, by name, why they can't be created once more. Only a pod
// that runs already has such containers. p may be nil.
func (p *Placing) Unknown() map[string]string {
	if p == nil {
		return nil
	}
	return p.unknown
}

// choose chooses n of the free devices, in addition to those that the container has already.
func (p *Placing) choose(key Key, free []Device, has []string, n int, affinity topology.Nodes) []string {
	var near, far, nowhere []string
	for _, d := range free {
		switch {
		case p.near(d) == 0:
			nowhere = append(nowhere, d.ID)
		case slices.ContainsFunc(d.Nodes, func(node int64) bool { return affinity.Has(int(node)) }):
			near = append(near, d.ID)
		default:
			far = append(far, d.ID)
		}
	}
	if len(near) > n { // the plugin may say which of them
		return p.preferred(key, near, has, n)
	}
	out := near
	if len(out) < n {
		out = append(out, p.preferred(key, slices.Concat(far, nowhere), slices.Concat(has, near), n-len(near))...)
	}
	return out
}

// preferred are n of some devices: first those that the plugin prefers.
func (p *Placing) preferred(key Key, of, has []string, n int) (out []string) {
	if len(of) > n && p.inv[key.Resource].Options.Preferred {
		answer, answered := p.prefers[key]
		if !answered {
			p.got.Ask = append(p.got.Ask, Question{
				Key: key, Available: slices.Sorted(slices.Values(slices.Concat(of, has))), Must: slices.Sorted(slices.Values(has)),
				Size: n + len(has),
			})
		}
		may := setOf(of)
		for _, id := range answer {
			if len(out) < n && may[id] {
				may[id] = false
				out = append(out, id)
			}
		}
	}
	chosen := setOf(out)
	for _, id := range of {
		if len(out) < n && !chosen[id] {
			out = append(out, id)
		}
	}
	return out
}

// grantOf is what a container has with some devices.
func (p *Placing) grantOf(name v1.ResourceName, ids []string) devicestate.Grant {
	g := devicestate.Grant{Resource: name, IDs: map[int64][]string{}}
	of := map[string][]int64{}
	for _, d := range p.inv[name].Devices {
		of[d.ID] = d.Nodes
	}
	for _, id := range slices.Sorted(slices.Values(ids)) {
		nodes := of[id]
		if len(nodes) == 0 {
			nodes = []int64{devicestate.NoNUMA}
		}
		for _, node := range nodes {
			g.IDs[node] = append(g.IDs[node], id)
		}
	}
	return g
}
