package invariants

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/sim/machine"
)

// rare is a state that a search should come through: what holds in it was tested only then. Each of
// its checkers gets the model as it was before the event, as those of rules do.
type rare struct {
	name    string
	changed func(*Node, *Pod, *simcri.Transition) bool
	called  func(*Node, *Pod, *simcri.Call) bool
	done    func(*Node, *Pod, *machine.Call) bool
	shown   func(n *Node, p *Pod, of *v1.Pod, gone bool) bool
	// began is asked of each container when an agent begins, crashed of the node when an actor does.
	began   func(*Pod, *container) bool
	crashed func(*Node) bool
	evicted func(*Node, *Pod, *Eviction) bool
}

// isEnded says whether a container ends.
func isEnded(t *simcri.Transition) bool {
	return t.Container != "" && t.Kind == observed.ContainerStoppedEvent
}

// isMade says whether a container is made.
func isMade(t *simcri.Transition) bool {
	return t.Container != "" && t.Kind == observed.ContainerCreatedEvent
}

// waits says whether a container of a pod is shown to wait for a reason.
func waits(of *v1.Pod, reason string) bool {
	for i := range of.Status.ContainerStatuses {
		if w := of.Status.ContainerStatuses[i].State.Waiting; w != nil && w.Reason == reason {
			return true
		}
	}
	return false
}

// rares are all of them.
var rares = [...]rare{
	{name: "a pod is evicted for memory", evicted: func(_ *Node, _ *Pod, e *Eviction) bool {
		return e.For == v1.ResourceMemory
	}},
	{name: "a pod is evicted for disk", evicted: func(_ *Node, _ *Pod, e *Eviction) bool {
		return e.For != "" && onDisk(e.For)
	}},
	{name: "a pod is evicted for its own limit", evicted: func(_ *Node, _ *Pod, e *Eviction) bool {
		return e.For == "" && e.Grace > 0
	}},
	{name: "an evicted pod is stopped by force", evicted: func(_ *Node, _ *Pod, e *Eviction) bool {
		return e.Grace == 0
	}},
	{name: "two pods are being evicted", evicted: func(n *Node, p *Pod, e *Eviction) bool {
		for _, o := range n.pods { // order-free: one is enough
			if e.Grace > 0 && o != p && o.evicted.is && o.living() {
				return true
			}
		}
		return false
	}},
	{name: "a container is killed as its grace period is over", changed: func(n *Node, p *Pod, t *simcri.Transition) bool {
		return isEnded(t) && t.Cause == simcri.ByKill && p.containers[t.ID].asked.Before(n.now().Add(-time.Second))
	}},
	{name: "a container ends by itself while it is stopped", changed: func(_ *Node, p *Pod, t *simcri.Transition) bool {
		return isEnded(t) && t.Cause == simcri.ByItself && !p.containers[t.ID].asked.IsZero()
	}},
	{name: "a container starts after its pod was deleted", changed: func(_ *Node, p *Pod, t *simcri.Transition) bool {
		return t.Container != "" && t.Kind == observed.ContainerStartedEvent && !p.wanted && !p.endsSince.IsZero()
	}},
	{name: "a container is killed with its sandbox", changed: func(_ *Node, _ *Pod, t *simcri.Transition) bool {
		return isEnded(t) && t.Cause == simcri.WithSandbox
	}},
	{name: "a container is made again in another sandbox", changed: func(_ *Node, p *Pod, t *simcri.Transition) bool {
		last := p.lineage(t.Container).last
		return isMade(t) && last != nil && last.sandbox != t.Sandbox
	}},
	{name: "an init container runs a second time", changed: func(_ *Node, p *Pod, t *simcri.Transition) bool {
		return isMade(t) && p.kind(t.Container) == podspec.Init && p.lineage(t.Container).ends > 0
	}},
	{name: "a sidecar runs a second time", changed: func(_ *Node, p *Pod, t *simcri.Transition) bool {
		return isMade(t) && p.kind(t.Container) == podspec.Sidecar && p.lineage(t.Container).ends > 0
	}},
	{name: "a container crashes for the third time", changed: func(_ *Node, p *Pod, t *simcri.Transition) bool {
		return isMade(t) && p.lineage(t.Container).ends > 2
	}},
	{name: "a crash loop has its longest backoff", changed: func(_ *Node, p *Pod, t *simcri.Transition) bool {
		return isMade(t) && p.lineage(t.Container).backoff == longestBackoff
	}},
	{name: "a pod has two sandboxes", changed: func(_ *Node, p *Pod, t *simcri.Transition) bool {
		return t.Container == "" && t.Kind == observed.ContainerCreatedEvent && len(p.sandboxes) > 0
	}},
	{name: "a pod comes back with its UID", changed: func(_ *Node, p *Pod, t *simcri.Transition) bool {
		return t.Container == "" && t.Kind == observed.ContainerCreatedEvent && p.wanted && !p.endsSince.IsZero()
	}},
	{name: "a container is stopped by force", called: func(_ *Node, p *Pod, c *simcri.Call) bool {
		at := p.containers[c.Object]
		if c.Method != simcri.StopContainer || at == nil || !at.running() {
			return false
		}
		left := at.graceEnds.Sub(p.endsSince)
		return !p.endsSince.IsZero() && left <= leastGrace && c.Grace <= leastGrace
	}},
	{name: "a container is asked to stop again", called: func(_ *Node, p *Pod, c *simcri.Call) bool {
		at := p.containers[c.Object]
		return c.Method == simcri.StopContainer && at != nil && at.running() && !at.asked.IsZero()
	}},
	{name: "a container is asked to stop that has ended", called: func(_ *Node, p *Pod, c *simcri.Call) bool {
		at := p.containers[c.Object]
		return c.Method == simcri.StopContainer && at != nil && at.state == observed.ContainerExited
	}},
	{name: "a container is removed that never ran", called: func(_ *Node, p *Pod, c *simcri.Call) bool {
		at := p.containers[c.Object]
		return c.Method == simcri.RemoveContainer && at != nil && at.state == observed.ContainerCreated
	}},
	{name: "a container is started again after a doubtful start", called: func(_ *Node, p *Pod, c *simcri.Call) bool {
		at := p.containers[c.Object]
		return c.Method == simcri.StartContainer && at != nil && at.doubtful
	}},
	{name: "a preStop command is run twice", called: func(_ *Node, p *Pod, c *simcri.Call) bool {
		at := p.containers[c.Object]
		return c.Method == simcri.ExecSync && at != nil && at.commands[c.Command]
	}},
	{name: "an unmount that failed is tried again", done: func(_ *Node, p *Pod, c *machine.Call) bool {
		return c.Verb == "UnmountPod" && p.failed[c.Verb]
	}},
	{name: "the removal of a cgroup that failed is tried again", done: func(_ *Node, p *Pod, c *machine.Call) bool {
		return c.Verb == "RemovePodCgroup" && p.failed[c.Verb]
	}},
	{name: "a pod ends by its deadline", shown: func(_ *Node, _ *Pod, of *v1.Pod, _ bool) bool {
		return of.Status.Reason == "DeadlineExceeded"
	}},
	{name: "a pod that runs is deleted by force", shown: func(_ *Node, p *Pod, of *v1.Pod, gone bool) bool {
		return gone && !podspec.Mirror(of) && p.ready > 0
	}},
	{name: "a crash loop is shown", shown: func(_ *Node, _ *Pod, of *v1.Pod, _ bool) bool {
		return waits(of, "CrashLoopBackOff")
	}},
	{name: "a failed pull is shown", shown: func(_ *Node, _ *Pod, of *v1.Pod, _ bool) bool {
		return waits(of, "ErrImagePull") || waits(of, "ImagePullBackOff")
	}},
	{name: "an agent begins while a container is stopped", began: func(_ *Pod, c *container) bool {
		return c.running() && !c.asked.IsZero()
	}},
	{name: "an agent begins while a container is made and not started", began: func(_ *Pod, c *container) bool {
		return c.state == observed.ContainerCreated
	}},
	{name: "an agent begins while a container runs that nobody wants", began: func(p *Pod, c *container) bool {
		return c.running() && !p.endsSince.IsZero()
	}},
	{name: "two actors crash within a second", crashed: func(n *Node) bool {
		return !n.crashedAt.IsZero() && n.now().Sub(n.crashedAt) < time.Second
	}},
}

// Sometimes are the names of all rare states.
func Sometimes() []string {
	out := make([]string, len(rares))
	for i := range rares {
		out[i] = rares[i].name
	}
	return out
}

// Reached are the names of the rare states that the node came through.
func (n *Node) Reached() (out []string) {
	for i := range rares {
		if n.reached&(1<<i) != 0 {
			out = append(out, rares[i].name)
		}
	}
	return out
}

// sometimes notes the rare states that come with an event. is asks one of those that are not yet
// reached.
func (n *Node) sometimes(is func(r *rare) bool) {
	for i := range rares {
		if n.reached&(1<<i) == 0 && is(&rares[i]) {
			n.reached |= 1 << i
		}
	}
}

// kind is that of a container of the pod.
func (p *Pod) kind(name string) podspec.Kind {
	if p.spec == nil {
		return podspec.Main
	}
	_, kind := podspec.Find(&p.spec.Spec, name)
	return kind
}
