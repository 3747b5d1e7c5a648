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
	if !p.facts.Probed(m.ID, m.Health) {
		return // of one that is gone
	}
	if c := p.probed.find(m.ID); c != nil {
		c.Wait = false
	}
}

// tellProbes says what is to be probed, if that is not what was said before.
func (p *pod) tellProbes(ctx *kernel.Context[Message]) {
	if !p.facts.Known && p.life != podlife.Terminated {
		return // until it is known what there is, what was said holds
	}
	var now []ProbedContainer
	if p.life != podlife.Terminated {
		p.facts.EachProbed(&p.want.Spec, func(spec *v1.Container, c *observed.Container) {
			h, has := p.facts.Health[c.ID]
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
	_, killing := p.facts.KillAt[c.ID]
	b.Stopping = killing || p.life != podlife.Syncing || p.facts.Hooks[c.ID].PreStop != podplan.HookNotRun
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
	return spec.Lifecycle == nil || spec.Lifecycle.PostStart == nil || p.facts.Hooks[c.ID].PostStart == podplan.HookDone
}
