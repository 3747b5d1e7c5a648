package chaos

import (
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/eviction"
	"github.com/troupe-dev/troupe/actors/podset"
	"github.com/troupe-dev/troupe/apiclient/simapi"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/chaos/plan"
	"github.com/troupe-dev/troupe/supervisor/invariants"
	"github.com/troupe-dev/troupe/supervisor/sim"
	"github.com/troupe-dev/troupe/supervisor/sim/machine"
)

// pressed is what a case knows of a machine that runs short.
type pressed struct {
	// policy is how the node protects itself.
	policy eviction.Policy
	// uses are what containers were told to use.
	uses map[plan.Role]machine.Use
	// unused are the images that nobody uses, each since when.
	unused map[string]time.Time
}

// capacity is what a machine has, nil for room for everything.
func (r *runner) capacity() *machine.Capacity {
	switch r.c.Disks {
	case 1:
		return &machine.Capacity{Memory: plan.Memory, NodeFS: plan.Disk}
	case 2:
		return &machine.Capacity{Memory: plan.Memory, NodeFS: plan.Disk, ImageFS: plan.Disk}
	default:
		return nil
	}
}

// press does an operation that takes room.
func (r *runner) press(m *caseNode, o *plan.Op) {
	if o.Verb == plan.Unused {
		size, _ := plan.Size(o.Arg("size"))
		name := fmt.Sprintf("registry.test/unused:%d", len(r.unused)+1)
		r.unused[name] = r.v.Now()
		m.Runtime().MakeImagePresent(name, simcri.RegistryImage{SizeBytes: size})
		return
	}
	u := r.uses[o.Role]
	for _, a := range o.Args {
		size, _ := plan.Size(a.Value)
		switch to := (machine.Growth{Bytes: size}); a.Key {
		case "memory":
			u.Memory = to
		default:
			if to.Bytes < u.Layer.Bytes {
				m.rules.Freed()
			}
			u.Layer = to
		}
	}
	r.uses[o.Role] = u
	name := o.Role.Pod
	if r.pod(name).static {
		name += "-" + m.Name()
	}
	m.Machine().Pressure.SetUse("default", name, o.Role.Container, u)
	r.over(m, o.Role.Pod)
}

// over tells whether what runs of a pod uses more disk than it may.
func (r *runner) over(m *caseNode, name string) {
	c := r.pod(name)
	if r.c.Disks == 0 || c.asked == nil || c.static {
		return
	}
	use := eviction.Use{}
	for role, u := range r.uses { // order-free: each container has its own limit, and all are added up
		if role.Pod == name && c.part(role.Container).running != "" {
			use.Containers = append(use.Containers, eviction.ContainerUse{
				Name: role.Container, Layer: eviction.DiskUse{Bytes: u.Layer.Bytes},
			})
		}
	}
	_, is := eviction.OverLimit(c.asked, &use, m.Now())
	m.rules.Over(c.inRuntime, is)
}

// measured is each measurement of a machine.
func (r *runner) measured(m *caseNode, c sim.HostCall) {
	if c.Verb == "MeasureNode" && !r.bare {
		m.rules.Measured(r.lacks(m.Machine().Pressure.Read()))
	}
}

// lacks says which thresholds are met.
func (r *runner) lacks(left eviction.Reading) eviction.Conditions {
	_, short, _ := r.policy.Assess(eviction.Memory{}, &left, r.v.Now())
	return short
}

// evicting is each eviction that pods takes in.
func (r *runner) evicting(m *caseNode, e *podset.Evict) {
	if e.Stop.Reason != eviction.Reason || r.bare {
		return
	}
	of := &invariants.Eviction{UID: e.UID, Grace: e.Stop.Grace, Waited: m.Now().Sub(e.Stop.At)}
	if text, is := strings.CutPrefix(e.Stop.Message, "The node was low on resource: "); is {
		name, _, _ := strings.Cut(text, ".")
		of.For = v1.ResourceName(name)
	}
	if of.For == v1.ResourceEphemeralStorage {
		left := m.Machine().Pressure.Read()
		if r.lacks(left).Disk {
			for _, d := range []*eviction.Disk{&left.NodeFS, &left.ImageFS, &left.ContainerFS} {
				if d.Device == left.ImageFS.Device {
					d.Bytes.Available += r.unusedBytes(m)
				}
			}
			of.ImagesEnough = !r.lacks(left).Disk
		}
	}
	m.rules.Evicted(of)
}

// known is since when an image must be there to be given up.
const known = 30 * time.Second

// unusedBytes are those of images that nobody uses and that have been there for a while.
func (r *runner) unusedBytes(m *caseNode) (sum uint64) {
	for _, i := range m.Runtime().Truth().Images {
		for _, name := range i.RepoTags {
			if since, is := r.unused[name]; is && r.v.Now().Sub(since) > known {
				sum += i.SizeBytes
			}
		}
	}
	return sum
}

// nodeShown is each version of the object of a node.
func (r *runner) nodeShown(e simapi.Event) {
	of := e.Object.(*v1.Node)
	if e.Type != simapi.Deleted && !r.bare && len(r.caseNodes) > 0 {
		r.on(of.Name).rules.NodeShown(of)
	}
}
