package pod

import (
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podplan"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/probe"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/smallmap"
)

// probing is what this actor last sent to probes. told is false if it must be sent again.
type probing struct {
	told       bool
	host       string
	containers []ProbedContainer
	// at is when it was sent.
	at time.Time
}

// waits reports whether a container's health was unknown when this actor began, and probes has
// not answered yet. Nothing is reported until then: "not ready" would be a guess, revoked a
// moment later.
func (b *probing) waits() bool {
	return b != nil && slices.ContainsFunc(b.containers, func(c ProbedContainer) bool { return c.Wait })
}

// lookup finds what was sent about a container.
func (b *probing) lookup() smallmap.Lookup[string, ProbedContainer] {
	if b == nil {
		return smallmap.Lookup[string, ProbedContainer]{}
	}
	return smallmap.LookupIn(b.containers, func(c *ProbedContainer) string { return c.ID })
}

// heard applies the result that probes reports for a container.
func (p *pod) heard(m Probed) {
	if !p.facts.Probed(p.want, m.ID, m.Health) {
		return // the container is gone
	}
	if p.probed == nil {
		return
	}
	if i := slices.IndexFunc(p.probed.containers, func(c ProbedContainer) bool { return c.ID == m.ID }); i >= 0 {
		p.probed.containers[i].Wait = false
	}
}

// tellProbes sends the containers to probe, if they changed. It returns when it has to be called again, zero for never:
// of a pod with many containers, those that are new are told together with others.
func (p *pod) tellProbes(ctx *kernel.Context[Message]) (again time.Time) {
	if !p.facts.Known && p.life != podlife.Terminated {
		return again // the old message holds until the runtime's state is known
	}
	var now []ProbedContainer
	if p.life != podlife.Terminated {
		now = p.probedNow()
	}
	if p.probed == nil {
		// An orphan may have been probed while it was wanted. Others were not.
		if len(now) == 0 && p.origin != podspec.Orphan {
			return again
		}
		p.probed = &probing{}
	}
	host := p.podIP()
	if host == "" {
		host = p.probed.host
	}
	if p.probed.told && host == p.probed.host {
		if slices.EqualFunc(now, p.probed.containers, ProbedContainer.same) {
			return again
		}
		if at := p.probed.at.Add(p.apart()); at.After(ctx.Now()) && len(now) > 0 && p.probed.canWait(now) {
			return at
		}
	}
	*p.probed = probing{told: true, host: host, containers: now, at: ctx.Now()}
	p.deps.Probe(ProbeContainers{Pod: p.want, Host: host, Containers: slices.Clone(now), ReplyTo: ctx.Self()})
	return again
}

// probedNow are the containers to probe.
func (p *pod) probedNow() (now []ProbedContainer) {
	told, shown := p.probed.lookup(), p.shown()
	p.facts.EachProbed(&p.want.Spec, func(spec *v1.Container, c *observed.Container) {
		h, has := p.facts.Health[c.ID]
		if !has || c.State != observed.ContainerRunning || !p.hookDone(spec, c) {
			return
		}
		b := ProbedContainer{Name: c.Name, ID: c.ID, StartedAt: c.StartedAt}
		if b.StartedAt.IsZero() {
			b.StartedAt = c.CreatedAt
		}
		_, killing := p.facts.KillAt[c.ID]
		b.Stopping = killing || p.life != podlife.Syncing || p.facts.Hooks[c.ID].PreStop != podplan.HookNotRun
		var found bool
		b.Known, found = shown.health(c, h)
		if i := told.Place(c.ID, len(now)); i >= 0 {
			b.StartedAt, b.Wait = p.probed.containers[i].StartedAt, p.probed.containers[i].Wait
		} else {
			b.Wait = !found && p.facts.Found(c.ID)
		}
		now = append(now, b)
	})
	return now
}

// same reports whether b and o are equal for probes.
func (b ProbedContainer) same(o ProbedContainer) bool {
	return b.ID == o.ID && b.Stopping == o.Stopping
}

// canWait says that now only has more than what was sent, or lacks what was being stopped, and nothing for which a
// report waits. Both are in one order.
func (b *probing) canWait(now []ProbedContainer) bool {
	had := b.containers
	for i := range now {
		for len(had) > 0 && had[0].Stopping && had[0].ID != now[i].ID {
			had = had[1:]
		}
		if len(had) > 0 && now[i].same(had[0]) {
			had = had[1:]
		} else if now[i].Wait {
			return false
		}
	}
	return !slices.ContainsFunc(had, func(c ProbedContainer) bool { return !c.Stopping })
}

// shown are the container statuses that were reported last.
type shown [2]smallmap.Lookup[string, v1.ContainerStatus]

func (p *pod) shown() *shown {
	status, name := p.status, func(s *v1.ContainerStatus) string { return s.Name }
	if status == nil {
		status = &p.want.Status
	}
	return &shown{smallmap.LookupIn(status.InitContainerStatuses, name), smallmap.LookupIn(status.ContainerStatuses, name)}
}

// health fills unknown fields of h from the reported status. found is false if the status has nothing about this
// container.
func (l *shown) health(c *observed.Container, h probe.Health) (known probe.Health, found bool) {
	for n := range l {
		s := l[n].Get(c.Name)
		if s == nil || !strings.HasSuffix(s.ContainerID, "://"+c.ID) {
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
	return h, false
}

// hookDone reports whether the container's postStart hook has ended. Probes start after it.
func (p *pod) hookDone(spec *v1.Container, c *observed.Container) bool {
	return podspec.PostStart(spec) == nil || p.facts.Hooks[c.ID].PostStart == podplan.HookDone
}
