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

// probing is what this actor last sent to probes. told is false if it must be sent again.
type probing struct {
	told       bool
	host       string
	containers []ProbedContainer
}

// waits reports whether a container's health was unknown when this actor began, and probes has
// not answered yet. Nothing is reported until then: "not ready" would be a guess, revoked a
// moment later.
func (b *probing) waits() bool {
	return b != nil && slices.ContainsFunc(b.containers, func(c ProbedContainer) bool { return c.Wait })
}

// find returns what was sent about a container, nil if nothing was.
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

// heard applies the result that probes reports for a container.
func (p *pod) heard(m Probed) {
	if !p.facts.Probed(m.ID, m.Health) {
		return // the container is gone
	}
	if c := p.probed.find(m.ID); c != nil {
		c.Wait = false
	}
}

// tellProbes sends the containers to probe, if they changed.
func (p *pod) tellProbes(ctx *kernel.Context[Message]) {
	if !p.facts.Known && p.life != podlife.Terminated {
		return // the old message holds until the runtime's state is known
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
		// An orphan may have been probed while it was wanted. Others were not.
		if len(now) == 0 && p.origin != podspec.Orphan {
			return
		}
		p.probed = &probing{}
	}
	host := p.podIP()
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
	b.Wait = !shown && p.facts.Found(c.ID)
	return b
}

// same reports whether b and o are equal for probes.
func (b ProbedContainer) same(o ProbedContainer) bool {
	return b.ID == o.ID && b.Stopping == o.Stopping
}

// shownHealth fills unknown fields of h from the reported status. shown is false if the status
// has nothing about this container.
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

// hookDone reports whether the container's postStart hook has ended. Probes start after it.
func (p *pod) hookDone(spec *v1.Container, c *observed.Container) bool {
	return spec.Lifecycle == nil || spec.Lifecycle.PostStart == nil || p.facts.Hooks[c.ID].PostStart == podplan.HookDone
}
