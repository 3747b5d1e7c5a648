package invariants

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/cri/simcri"
)

const (
	// leastGrace is what is left of a grace period for the container to see its stop signal in. leastForced is what one
	// has whose pod is deleted by force.
	leastGrace  = 2 * time.Second
	leastForced = time.Second
)

var neverBeforeItsGrace = rule{
	Rule: Rule{
		ID: "I26",
		Text: "A container is not killed before the shortest grace period is over that the agent was told of for its pod. " +
			"One that is stopped for another reason has its pod's grace period, less its preStop hook.",
		Excuses: "A clock that was set meanwhile, as the beginning of a stop outlives the agent as a time of the clock. " +
			"Two seconds are enough for a sidecar, which waits for others, at a deadline, which may come while a container is " +
			"started, and after a hook that can't be seen; one second if the pod is deleted by force.",
	},
	called: func(n *Node, p *Pod, c *simcri.Call) string {
		at := p.containers[c.Object]
		if c.Method != simcri.StopContainer || at == nil || !at.running() {
			return ""
		}
		return n.early(p, at, n.now().Add(c.Grace))
	},
	changed: func(n *Node, p *Pod, t *simcri.Transition) string {
		if t.Container == "" || t.Kind != observed.ContainerStoppedEvent ||
			t.Cause != simcri.WithSandbox && t.Cause != simcri.WithRemoval {
			return ""
		}
		at := p.containers[t.ID]
		if at.doubtful || !at.running() || at.asked.IsZero() {
			return "" // I06 looks at one that was not asked
		}
		return n.early(p, at, n.now())
	},
}

// early says what is wrong with a container that is killed at a time.
func (n *Node) early(p *Pod, c *container, kill time.Time) string {
	if !n.timely || n.clockSet.After(c.startedAt) || p.spec == nil {
		return ""
	}
	asked := c.asked
	switch {
	case c.graceEnds.IsZero() && (!p.wanted || c.startedAt.Before(p.since) && p.since.Sub(n.began) > noticed):
		asked = n.began // the agent found a pod that nobody wants, or wanted at first
	case asked.IsZero():
		asked = n.now()
	}
	may := asked.Add(p.ownGrace(c, later(n.began, n.still)))
	if !c.graceEnds.IsZero() && c.graceEnds.Before(may) {
		may = c.graceEnds
	}
	if !kill.Before(may) {
		return ""
	}
	return fmt.Sprintf("container %s is to be killed %s before its grace period is over", c.name, may.Sub(kill))
}

// ownGrace is the least that a container gets from its first stop call on that is stopped while
// nobody deletes its pod. blind is until when the agent may have run hooks that are not seen, or was late.
func (p *Pod) ownGrace(c *container, blind time.Time) time.Duration {
	spec, kind := podspec.Find(&p.spec.Spec, c.name)
	grace, least := podspec.Grace(p.spec), leastGrace
	if p.forced {
		least = leastForced
	}
	if spec == nil || kind == podspec.Sidecar || p.spec.Spec.ActiveDeadlineSeconds != nil ||
		podspec.MayRestartAll(p.spec) {
		return min(grace, least)
	}
	for _, probe := range []*v1.Probe{spec.LivenessProbe, spec.StartupProbe} {
		if probe != nil && probe.TerminationGracePeriodSeconds != nil {
			grace = min(grace, podspec.Seconds(*probe.TerminationGracePeriodSeconds))
		}
	}
	hook := stopHook(spec)
	switch {
	case hook == nil:
		return grace
	case hook.Sleep == nil || blind.After(c.startedAt): // the hook may have run longer than is known here
		return min(grace, least)
	default:
		return max(grace-podspec.Seconds(hook.Sleep.Seconds)-hookSlack, min(grace, least))
	}
}

// hookSlack is how long after its end a hook may be heard of.
const hookSlack = 100 * time.Millisecond

func stopHook(c *v1.Container) *v1.LifecycleHandler {
	if c.Lifecycle == nil {
		return nil
	}
	return c.Lifecycle.PreStop
}

// deletedFor is how long the agent knows that the pod is deleted: a shorter grace period counts from
// then too.
func (p *Pod) deletedFor(now time.Time) time.Duration {
	if p.endsSince.IsZero() {
		return 0
	}
	return now.Sub(p.endsSince)
}

// endsIn: the agent was told that the pod's containers may be killed after a grace period.
func (n *Node) endsIn(p *Pod, grace time.Duration) {
	at := n.now().Add(grace)
	if p.endsSince.IsZero() {
		p.endsSince = n.now()
	}
	sooner := func(t *time.Time) {
		if t.IsZero() || at.Before(*t) {
			*t = at
		}
	}
	sooner(&p.graceEnds)
	for _, c := range p.containers { // order-free: all of them
		sooner(&c.graceEnds)
	}
}

// awaited says whether another pod of its name waits for the end of a pod.
func (n *Node) awaited(p *Pod) bool {
	for _, of := range n.sources { // order-free: any of them
		for _, o := range of { // order-free: any of them
			if o.UID != p.Ref.UID && o.Name == p.Ref.Name && o.Namespace == p.Ref.Namespace &&
				o.DeletionTimestamp == nil && !podspec.Finished(o) {
				return true
			}
		}
	}
	return false
}

// hurries: a pod of the apiserver that is gone, and has the name of this one, has no grace period left.
func (n *Node) hurries(p *Pod) {
	for uid := range n.running[podName{p.Ref.Namespace, p.Ref.Name}] { // order-free: each by itself
		o := n.pods[uid]
		if uid != p.Ref.UID && o.spec != nil && originOf(o) == podspec.API && n.sources[podspec.API][uid] == nil {
			n.endsIn(o, leastGrace)
		}
	}
}

// originOf is the source of a pod of which the agent was told.
func originOf(p *Pod) podspec.Origin {
	if podspec.Static(p.spec) {
		return podspec.Origin(p.spec.Annotations[podspec.AnnotationSource])
	}
	return podspec.API
}
