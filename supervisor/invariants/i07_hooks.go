package invariants

import (
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/cri/simcri"
)

var hooksRun = rule{
	Rule: Rule{
		ID: "I07",
		Text: "A container with a preStop command gets its stop signal after the command was begun, and one that sleeps, " +
			"when its pod is deleted, after the sleep. It is shown as started after its postStart command was begun. " +
			"Hooks over HTTP can't be told from probes.",
		Excuses: "The signal: a grace period of which a second is left; a start that was answered late; a pod that the " +
			"agent was not told of; a restart of all containers. The sleep: it may have begun when the sandbox " +
			"ended, before the deletion. Shown: an agent or actor that began after the container, a start that was " +
			"answered late, with an error or not at all, or that was under way when an actor crashed, or began before its " +
			"next one did: the actors below it go on until then.",
	},
	called: func(n *Node, p *Pod, c *simcri.Call) string {
		at := p.containers[c.Object]
		if !n.timely || c.Method != simcri.StopContainer || at == nil || !at.asked.IsZero() || !at.running() || at.doubtful ||
			p.spec == nil || !n.told(p) || podspec.MayRestartAll(p.spec) {
			return ""
		}
		spec, _ := podspec.Find(&p.spec.Spec, at.name)
		if spec == nil || stopHook(spec) == nil ||
			!at.graceEnds.IsZero() && !n.now().Before(at.graceEnds.Add(-leastSignal)) ||
			p.evicted.is && !n.now().Before(p.evicted.over) {
			return ""
		}
		switch h := stopHook(spec); {
		case h.Exec != nil && !at.ran(h):
			return fmt.Sprintf("container %s gets its stop signal, and its preStop command was not run", at.name)
		case h.Sleep != nil && !p.endsSince.IsZero() && p.endsSince.After(at.startedAt) &&
			n.now().Sub(p.sleepsSince(at)) < podspec.Seconds(h.Sleep.Seconds) && at.image == p.image(at.name) &&
			spec.LivenessProbe == nil && spec.StartupProbe == nil:
			return fmt.Sprintf("container %s gets its stop signal %s after its pod was deleted, and its preStop hook sleeps %s",
				at.name, n.now().Sub(p.endsSince), podspec.Seconds(h.Sleep.Seconds))
		}
		return ""
	},
	shown: func(n *Node, p *Pod, of *v1.Pod, gone bool) string {
		if !n.timely || gone || podspec.Mirror(of) {
			return ""
		}
		for i := range of.Status.ContainerStatuses {
			s := &of.Status.ContainerStatuses[i]
			_, id, _ := strings.Cut(s.ContainerID, "://")
			c := p.containers[id]
			if s.Started == nil || !*s.Started || c == nil || c.doubtful || !later(n.began, n.crashedAt).Before(c.startedAt) {
				continue
			}
			spec, _ := podspec.Find(&of.Spec, s.Name)
			if spec != nil && spec.Lifecycle != nil && spec.Lifecycle.PostStart != nil &&
				spec.Lifecycle.PostStart.Exec != nil && !c.ran(spec.Lifecycle.PostStart) {
				return fmt.Sprintf("container %s is shown as started, and its postStart command was not run", s.Name)
			}
		}
		return ""
	},
}

// sleepsSince is when a preStop hook may have begun to sleep: when the pod was deleted, or before that when
// the container's sandbox ended.
func (p *Pod) sleepsSince(c *container) time.Time {
	if s := p.sandboxes[c.sandbox]; s != nil && !s.endedAt.IsZero() && s.endedAt.Before(p.endsSince) {
		return s.endedAt
	}
	return p.endsSince
}

// told says whether the agent that runs knows of a pod from a source.
func (n *Node) told(p *Pod) bool {
	for _, of := range n.sources { // order-free: any of them
		if of[p.Ref.UID] != nil {
			return true
		}
	}
	return false
}

// noted keeps that a command was run in the container.
func (c *container) noted(command string) {
	if c.commands == nil {
		c.commands = map[string]bool{}
	}
	c.commands[command] = true
}

// ran says whether the command of a hook was run.
func (c *container) ran(h *v1.LifecycleHandler) bool {
	return len(h.Exec.Command) > 0 && c.commands[h.Exec.Command[0]]
}

// Crashed: an actor of the agent crashed, and is started again after a delay.
func (n *Node) Crashed(retry time.Duration) {
	n.sometimes(func(r *rare) bool { return r.crashed != nil && r.crashed(n) })
	n.crashedAt = n.now()
	n.replacedAt = later(n.replacedAt, n.crashedAt.Add(retry))
	for _, p := range n.pods { // order-free: each by itself
		p.adopted = p.adopted && p.ready > 0
		for _, c := range p.containers { // order-free: each by itself
			c.mayStart()
		}
	}
	n.Troubled("", retry)
}

// mayStart: whoever asked for the start of a container is gone, and is not told whether it has started.
func (c *container) mayStart() {
	c.doubtful = c.doubtful || c.tried && c.state == observed.ContainerCreated
}
