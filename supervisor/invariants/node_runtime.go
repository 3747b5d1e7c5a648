package invariants

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/cri/simcri"
)

func (p *Pod) sandboxChanged(t *simcri.Transition, now time.Time) {
	switch t.Kind {
	case observed.ContainerCreatedEvent:
		p.sandboxes[t.ID], p.finished = &sandbox{madeAt: now}, false
		if p.wanted {
			p.graceEnds, p.endsSince, p.forced = time.Time{}, time.Time{}, false // this is another life
		}
		p.newest = max(p.newest, int64(t.Attempt))
	case observed.ContainerStartedEvent:
		p.sandboxes[t.ID].ready = true
		p.ready++
	case observed.ContainerStoppedEvent:
		p.sandboxes[t.ID].ready, p.sandboxes[t.ID].endedAt = false, now
		p.ready--
		p.adopted = p.adopted && p.leaving
	case observed.ContainerDeletedEvent:
		delete(p.sandboxes, t.ID)
	}
}

func (n *Node) containerChanged(p *Pod, t *simcri.Transition) {
	l, c := p.lineage(t.Container), p.containers[t.ID]
	switch t.Kind {
	case observed.ContainerCreatedEvent:
		p.containers[t.ID] = &container{
			name: t.Container, sandbox: t.Sandbox, attempt: t.Attempt, state: observed.ContainerCreated,
			image: t.Image, otherImage: t.Image != p.image(t.Container), startedAt: n.now(), graceEnds: p.graceEnds,
		}
		if s := p.sandboxes[t.Sandbox]; s != nil {
			p.containers[t.ID].life = s.madeAt
		}
		l.made, l.newest, l.ran = true, t.Attempt, false
	case observed.ContainerStartedEvent:
		c.state, c.startedAt, l.running = observed.ContainerRunning, n.now(), c
		l.ran = l.ran || t.Attempt == l.newest
		l.started[t.Sandbox] = true
		n.count(p, 1)
	case observed.ContainerStoppedEvent:
		if c.state == observed.ContainerRunning {
			n.count(p, -1)
		}
		if l.running == c {
			l.running = nil
		}
		c.state, c.endedAt, c.exitCode, c.cause = observed.ContainerExited, n.now(), t.ExitCode, t.Cause
		l.dead++
		l.crashed(c, n.clockSet, !c.asked.IsZero() || p.stopHooked(c.name))
		l.ran = l.ran || t.Attempt == l.newest
		if t.ExitCode == 0 {
			l.completed[t.Sandbox] = true
		}
	case observed.ContainerDeletedEvent:
		if c.state == observed.ContainerExited {
			l.dead--
		} else if c.doubtful || c.tried {
			l.doubtful = true // it may have run
		}
		c.removed = true
		delete(p.containers, t.ID)
		if p.everDropped && !p.has(t.Container) {
			l.made = false // its log goes with it: no log is left that the next could meet
		}
	}
}

// count keeps how many containers of a pod run.
func (n *Node) count(p *Pod, by int) {
	name := podName{p.Ref.Namespace, p.Ref.Name}
	of := n.running[name]
	if of == nil {
		of = map[types.UID]int{}
		n.running[name] = of
	}
	if of[p.Ref.UID] += by; of[p.Ref.UID] == 0 {
		delete(of, p.Ref.UID)
	}
}
