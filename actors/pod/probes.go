package pod

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podplan"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/probe"
	"github.com/troupe-dev/troupe/actors/kernel"
)

// probing is what this actor has said to probes. told is false if all of it is to
// be said again.
type probing struct {
	told       bool
	host       string
	containers []ProbedContainer
}

// waits says whether there is a container of which nobody knew how it was when
// this actor began, and probes has not answered yet. Until then nothing is
// reported: that it is not ready would be a guess, and undone a moment later.
func (b *probing) waits() bool {
	return b != nil && slices.ContainsFunc(b.containers, func(c ProbedContainer) bool { return c.Wait })
}

// find gives what was said of a container, nil if nothing was.
func (b *probing) find(id string) *ProbedContainer {
	if b == nil {
		return nil
	}
	for i := range b.containers {
		if b.containers[i].ID == id {
			return &b.containers[i]
		}
	}
	return nil
}

// heard takes in what probes says of a container.
func (p *pod) heard(m Probed) {
	if _, is := p.facts.health[m.ID]; !is || p.container(m.ID) == nil {
		return // of one that is gone
	}
	p.facts.health[m.ID] = m.Health
	if c := p.probed.find(m.ID); c != nil {
		c.Wait = false
	}
}

// expectProbes sees to it that a container with probes that runs has a Health
// before any plan is made: without one it would count as started and ready.
func (p *pod) expectProbes() {
	p.eachProbed(func(spec *v1.Container, c *observed.Container) {
		if _, is := p.facts.health[c.ID]; is || c.State != observed.ContainerRunning {
			return
		}
		var h probe.Health
		if spec.StartupProbe != nil {
			h.Startup = probe.Unknown
		}
		if spec.LivenessProbe != nil {
			h.Liveness = probe.Success
		}
		if spec.ReadinessProbe != nil {
			h.Readiness = probe.Failure
			if c.CreatedAt.Before(p.born) { // what users are shown of it holds
				h.Readiness = probe.Unknown
			}
		}
		put(&p.facts.health, c.ID, h)
	})
}

// eachProbed calls f for the newest of each container with probes, if there is one.
func (p *pod) eachProbed(f func(*v1.Container, *observed.Container)) {
	for spec := range podspec.Lasting(&p.want.Spec) {
		if !probe.Any(spec) {
			continue
		}
		for i := range p.view.Containers {
			if c := &p.view.Containers[i]; c.Name == spec.Name {
				f(spec, c)
				break
			}
		}
	}
}

// tellProbes says what is to be probed, if that is not what was said before.
func (p *pod) tellProbes(ctx *kernel.Context[Message]) {
	if !p.known && p.life != podlife.Terminated {
		return // until it is known what there is, what was said holds
	}
	var now []ProbedContainer
	if p.life != podlife.Terminated {
		p.eachProbed(func(spec *v1.Container, c *observed.Container) {
			h, has := p.facts.health[c.ID]
			if has && c.State == observed.ContainerRunning && p.hookDone(spec, c) {
				now = append(now, p.probedContainer(c, h))
			}
		})
	}
	if p.probed == nil {
		// An orphan may have been probed
		// when it was wanted; of others there is nothing to say.
		if len(now) == 0 && p.origin != podspec.Orphan {
			return
		}
		p.probed = &probing{}
	}
	host := p.address()
	if host == "" {
		host = p.probed.host
	}
	if p.probed.told && host == p.probed.host && slices.EqualFunc(now, p.probed.containers, ProbedContainer.same) {
		return
	}
	*p.probed = probing{told: true, host: host, containers: now}
	p.deps.Probe(ProbeContainers{Pod: p.want, Host: host, Containers: slices.Clone(now), ReplyTo: ctx.Self()})
}

func (p *pod) probedContainer(c *observed.Container, h probe.Health) ProbedContainer {
	b := ProbedContainer{Name: c.Name, ID: c.ID, StartedAt: c.StartedAt}
	if b.StartedAt.IsZero() {
		b.StartedAt = c.CreatedAt
	}
	_, killing := p.facts.killAt[c.ID]
	b.Stopping = killing || p.life != podlife.Syncing || p.facts.hooks[c.ID].PreStop != podplan.HookNotRun
	var shown bool
	b.Known, shown = p.shownHealth(c.ID, h)
	if old := p.probed.find(c.ID); old != nil {
		b.StartedAt, b.Wait = old.StartedAt, old.Wait
		return b
	}
	b.Wait = !shown && c.CreatedAt.Before(p.born)
	return b
}

// same says whether there is nothing in b that probes has to know beside o.
func (b ProbedContainer) same(o ProbedContainer) bool {
	return b.ID == o.ID && b.Stopping == o.Stopping
}

// shownHealth fills what is unknown in h as users are shown it; shown is false
// if they are shown nothing of this container.
func (p *pod) shownHealth(id string, h probe.Health) (known probe.Health, shown bool) {
	status := p.status
	if status == nil {
		status = &p.want.Status
	}
	for _, list := range [...][]v1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses} {
		for i := range list {
			s := &list[i]
			if !strings.HasSuffix(s.ContainerID, "://"+id) {
				continue
			}
			if h.Startup == probe.Unknown && s.Started != nil && *s.Started {
				h.Startup = probe.Success
			}
			if h.Readiness == probe.Unknown && s.Ready {
				h.Readiness = probe.Success
			}
			return h, true
		}
	}
	return h, false
}

// hookDone says whether the container's postStart hook is behind it: before that
// it is not asked anything.
func (p *pod) hookDone(spec *v1.Container, c *observed.Container) bool {
	return spec.Lifecycle == nil || spec.Lifecycle.PostStart == nil || p.facts.hooks[c.ID].PostStart == podplan.HookDone
}
