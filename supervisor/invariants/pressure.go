package invariants

import (
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/eviction"
)

// Eviction is what is known of one, when pods takes it in.
type Eviction struct {
	UID types.UID
	// For is the resource of the node that was short; empty if the pod was over its own limit.
	For v1.ResourceName
	// Grace of 0 ends an eviction by force that is under way. Waited is how much of it
	// was over when pods heard of it.
	Grace, Waited time.Duration
	// ImagesEnough: disk is short, and would not be without images that nobody uses.
	ImagesEnough bool
}

// pressures is what has been seen of a node that protects itself.
type pressures struct {
	// transition is evictionPressureTransitionPeriod; zero on a node that evicts nobody.
	transition time.Duration
	// met is when a threshold of each condition was last met by a measurement; measuredAt when the last one was.
	met        map[v1.NodeConditionType]time.Time
	measuredAt time.Time
	// victims are how many pods were evicted for the node since.
	victims int
	// pressed are the conditions that the API shows, each since when.
	pressed map[v1.NodeConditionType]time.Time
	// freed is when something was last freed on a disk.
	freed time.Time
}

// evicted is what has been seen of the eviction of a pod; the zero value is none.
type evicted struct {
	of v1.ResourceName
	// late is when nothing waits for its end any more, over when the grace period is over, as it began.
	late, over time.Time
	is         bool
}

// endsLate is how much longer than its grace period the end of an evicted pod may take.
const endsLate = 30 * time.Second

// Protects: the node evicts pods, and conditions stay for a time.
func (n *Node) Protects(transition time.Duration) {
	n.transition = transition
	n.met, n.pressed = map[v1.NodeConditionType]time.Time{}, map[v1.NodeConditionType]time.Time{}
}

// Measured: the agent measures what is left of the node, and these thresholds are met.
func (n *Node) Measured(short eviction.Conditions) {
	for i := range rules {
		if f := rules[i].measured; f != nil {
			for _, uid := range slices.Sorted(maps.Keys(n.pods)) {
				if what := f(n, n.pods[uid]); what != "" {
					n.violated(&rules[i], n.pods[uid], what)
				}
			}
		}
	}
	n.measuredAt, n.victims = n.now(), 0
	for condition, is := range map[v1.NodeConditionType]bool{
		v1.NodeMemoryPressure: short.Memory, v1.NodeDiskPressure: short.Disk, v1.NodePIDPressure: short.PID,
	} { // order-free: each by itself
		if is {
			n.met[condition] = n.now()
		}
	}
}

// Evicted: pods has taken in an eviction.
func (n *Node) Evicted(e *Eviction) {
	p := n.pods[e.UID]
	if p == nil {
		return
	}
	for i := range rules {
		if f := rules[i].evicted; f != nil {
			if what := f(n, p, e); what != "" {
				n.violated(&rules[i], p, what)
			}
		}
	}
	n.sometimes(func(r *rare) bool { return r.evicted != nil && r.evicted(n, p, e) })
	n.endsIn(p, e.Grace)
	if e.Grace == 0 {
		return // the one before it is under way
	}
	p.evicted = evicted{of: e.For, late: n.now().Add(e.Grace + endsLate), over: n.now().Add(e.Grace - e.Waited), is: true}
	if e.For != "" {
		n.victims++
	}
}

// living says whether a container of the pod runs.
func (p *Pod) living() bool {
	for _, c := range p.containers { // order-free: one is enough
		if c.running() {
			return true
		}
	}
	return false
}

// NodeShown: the API has another version of the node's object.
func (n *Node) NodeShown(of *v1.Node) {
	n.csiNodeShown(of)
	if n.transition == 0 {
		return
	}
	for i := range of.Status.Conditions {
		c := &of.Status.Conditions[i]
		switch c.Type {
		case v1.NodeMemoryPressure, v1.NodeDiskPressure, v1.NodePIDPressure:
		default:
			continue
		}
		since, was := n.pressed[c.Type]
		switch is := c.Status == v1.ConditionTrue; {
		case is && !was:
			n.pressed[c.Type] = n.now()
		case !is && was:
			for i := range rules {
				if f := rules[i].relieved; f != nil {
					if what := f(n, c.Type, since); what != "" {
						n.violated(&rules[i], nil, what)
					}
				}
			}
			delete(n.pressed, c.Type)
		}
	}
}

// Over: the containers of a pod that run use more disk than the pod's limits, or no longer do.
func (n *Node) Over(uid types.UID, is bool) {
	p := n.pods[uid]
	switch {
	case p == nil:
	case !is:
		p.overLimit = time.Time{}
	case p.overLimit.IsZero():
		p.overLimit = n.now()
	}
}

// Freed: something was freed on a disk.
func (n *Node) Freed() { n.freed = n.now() }
