package pod

import (
	"time"

	"github.com/troupe-dev/troupe/actors/decide/claims"
	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podplan"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
)

// plan asks podplan for actions and performs them, until there are no new ones.
func (p *pod) plan(ctx *kernel.Context[Message]) {
	if p.want == nil {
		return
	}
	var out podplan.Output
	var in podplan.Input
	p.facts.ExpectProbes(&p.want.Spec)
	for {
		in = p.input(ctx.Now())
		out = podplan.Plan(in)
		p.facts.Crash, p.facts.Overdue, p.facts.Waited = out.Crash, out.Overdue, out.Waiting
		for _, n := range out.Notes {
			p.note(ctx, n)
		}
		if out.Outcome == podplan.Done && p.life == podlife.Syncing {
			p.stop = out.Stop
			if s := p.stop; s.Fail {
				p.event(ctx, "", false, s.Reason, s.Message)
			}
			p.become(ctx, podlife.Completed)
			continue
		}
		if out.Outcome == podplan.AllDown && p.life == podlife.Terminating {
			p.become(ctx, podlife.AllDown)
			continue
		}
		break
	}
	p.turns = turns{}
	for _, l := range p.lanes {
		p.turns.add(l.Value)
	}
	for _, a := range out.Actions {
		p.perform(ctx, a)
	}
	p.endHooks(ctx, out.EndHooks)
	if at := p.placement; out.InPlace && at.Number != 0 && at.Number != p.inPlace {
		p.inPlace = at.Number
		p.deps.InPlace(InPlace{UID: p.uid, Number: at.Number})
	}
	wake := sooner(out.Wake, p.tellProbes(ctx))
	in.Busy = p.facts.Busy
	p.sleep(ctx, sooner(wake, p.report(ctx, in, out)))
	if p.life == podlife.Terminated && !p.finished {
		p.finished = true
		p.finish()
		if p.usesObjects(p.want) {
			p.deps.ForgetObjects(ForgetObjects{UID: p.uid})
		}
	}
}

func (p *pod) input(now time.Time) podplan.Input {
	in := podplan.Input{
		Now: now, Pod: p.want, Origin: p.origin, Life: p.life, Stop: p.stop,
		Facts: p.facts, FirstSandbox: p.first,
		CrashPolicy: p.deps.CrashPolicy, RetryPolicy: p.deps.RetryPolicy,
	}
	in.HostsFile = p.deps.Files != nil
	in.Resize, in.Placement = p.resizing(), p.placement
	in.UsesClaims = p.deps.PrepareClaims != nil && claims.Uses(p.want)
	if p.deps.NeedObjects != nil {
		in.Objects = &p.objects
	}
	if p.status != nil && p.status.StartTime != nil {
		in.StartTime = p.status.StartTime.Time
	}
	if in.Status = p.status; p.status == nil && p.first == 0 {
		in.Status = &p.want.Status // else that may be of an earlier life
	}
	return in
}

// sleep sets the one timer of this actor.
func (p *pod) sleep(ctx *kernel.Context[Message], at time.Time) {
	if !p.wake.IsSet() || !at.Equal(p.wakeAt) {
		p.wakeAt = at
		p.wake.SetAt(ctx, at, Wake{})
	}
}

// sooner is the earlier of two times; zero is never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func (p *pod) note(ctx *kernel.Context[Message], n podplan.Note) {
	p.deps.Events.Record(port.Event{
		Pod: p.want, Warning: n.Warning, Reason: n.Reason, Container: n.Container, Message: n.Message, At: ctx.Now(),
	})
}
