package pod

import (
	"cmp"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/apipod"
	"github.com/troupe-dev/troupe/actors/decide/claims"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podcgroup"
	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podplan"
	"github.com/troupe-dev/troupe/actors/decide/podstatus"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/smallmap"
)

// report sends the status to podset, if it changed. It returns when it has to be called again, zero for never.
func (p *pod) report(ctx *kernel.Context[Message], in podplan.Input, out podplan.Output) (again time.Time) {
	if p.probed.waits() || p.unread() {
		return again
	}
	status := podstatus.Compute(podstatus.Input{
		Plan: in, Out: out, Previous: p.status, HostIPs: p.machine.HostIPs, PreferIPv6: p.deps.PreferIPv6,
		RuntimeName: p.deps.RuntimeName,
	})
	p.resizeEvents(ctx, &status, out)
	same := p.status != nil && podstatus.Equal(p.status, &status)
	down := podstatus.Down(in)
	trouble, resists := p.trouble()
	if !same {
		kept := status // on the heap only if it is kept
		p.status = &kept
	}
	if p.sent != nil && p.told == p.life && p.troubled == trouble && p.down == down &&
		p.resists == resists {
		if p.sent == p.status {
			return again
		}
		if at := p.sentAt.Add(p.apart()); at.After(ctx.Now()) && !apipod.Urgent(p.sent, p.status) &&
			!podstatus.Started(p.sent, p.status) {
			return at
		}
	}
	p.sent, p.sentAt, p.told, p.troubled, p.down = p.status, ctx.Now(), p.life, trouble, down
	p.resists = resists
	p.deps.Report(Report{
		UID: p.uid, FirstSandbox: p.first, Status: p.status, Life: p.life.String(), Trouble: trouble, Down: down,
		Gates: out.Gates(), Resists: resists,
	})
	return again
}

// apartEach is the least time between two messages about all containers of a pod, for each of them.
const apartEach = 250 * time.Microsecond

// apart is the least time between two messages to an actor that others wait for, if they are about all containers of
// the pod and nobody waits for what is new: each container changes a few times, and each of these messages costs as
// much as there are containers.
func (p *pod) apart() time.Duration {
	s := &p.want.Spec
	n := len(s.InitContainers) + len(s.Containers) + len(s.EphemeralContainers)
	if n <= smallmap.Few {
		return 0
	}
	return time.Duration(n) * apartEach
}

// unread: this incarnation has no earlier status of the pod, and has not inspected
// the sandbox that it found. The network of the sandbox may be up, and an earlier
// agent may have reported that, so the report waits for the inspection.
func (p *pod) unread() bool {
	said := p.status != nil && p.status.Phase != "" // else it is of an earlier life of the pod
	if said || !p.facts.Known || len(p.facts.View.Sandboxes) == 0 {
		return false
	}
	s := &p.facts.View.Sandboxes[0]
	_, failed := p.facts.Failures[podplan.Lane{Kind: podplan.LaneInspect, Name: s.ID}]
	return s.State == observed.SandboxReady && !s.Detailed && !failed && p.facts.Found(s.ID)
}

// trouble is the newest failure that blocks the pod and that its status does not show: of
// inspections, and of the teardown. resists is Report.Resists.
func (p *pod) trouble() (text string, resists bool) {
	if p.life == podlife.Terminated {
		return "", false
	}
	var newest podplan.Failure
	containers := p.facts.ByID()
	for lane, f := range p.facts.Failures { // order-free: a maximum of all that is shown
		if !p.blocks(lane, &containers) {
			continue
		}
		resists = resists || p.stop != nil && (lane.Kind == podplan.LaneStop || lane.Kind == podplan.LaneSandbox)
		if cmp.Or(f.At.Compare(newest.At), cmp.Compare(f.Message, newest.Message),
			cmp.Compare(f.Reason, newest.Reason), cmp.Compare(f.Count, newest.Count)) > 0 {
			newest = f
		}
	}
	held := p.stop != nil && p.facts.Claims.Is(claims.Going) && p.facts.Claims.Trouble() != ""
	switch {
	case newest.Count > 0:
		text = newest.Reason + ": " + newest.Message
	case p.stop != nil && p.facts.Cgroup.State == podcgroup.Failed:
		text = p.facts.Cgroup.Message
	case held:
		text = p.facts.Claims.Trouble()
	case p.stop != nil:
		text = p.facts.Volumes.Message // empty unless the pod waits for volumes
	}
	return text, resists || held
}

// blocks reports whether a failed lane still has work. A failure is kept until its lane is used
// again, which may be never.
func (p *pod) blocks(lane podplan.Lane, containers *smallmap.Lookup[string, observed.Container]) bool {
	switch lane.Kind {
	case podplan.LanePod:
		return !p.facts.Known
	case podplan.LaneStop:
		c := containers.Get(lane.Name)
		return c != nil && c.State != observed.ContainerExited
	case podplan.LaneSandbox:
		return p.stop != nil // otherwise the waiting containers have that message
	case podplan.LaneInspect:
		c := containers.Get(lane.Name)
		return p.stop != nil && c != nil && !c.Detailed
	default:
		return false
	}
}
