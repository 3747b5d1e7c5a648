package pod

import (
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podcgroup"
	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podplan"
	"github.com/troupe-dev/troupe/actors/decide/podresize"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/podstatus"
	"github.com/troupe-dev/troupe/actors/kernel"
)

// resize is this incarnation's state of a resize. Lost with the actor: the runtime and the cgroup
// are read again, and the last status says whether a resize was in progress.
type resize struct {
	Resized
	// of is the pod that the limits belong to: see podplan.Resize.
	of         *v1.Pod
	pod        observed.Resources
	containers map[string]observed.Resources
	// begun: resources were allocated since this incarnation began, and are not yet actuated.
	begun bool
	// problem is the last one reported to users.
	problem string
}

// resized applies the allocated resources.
func (p *pod) resized(ctx *kernel.Context[Message], old *v1.Pod, m *Resized) {
	if m == nil {
		return
	}
	if p.resize == nil {
		p.resize = &resize{}
		p.facts.BeginResizes()
	}
	r := p.resize
	r.Resized = *m
	if r.of == p.want {
		return
	}
	r.of = p.want
	r.pod = p.deps.Limits.PodResources(p.want)
	r.containers = map[string]observed.Resources{}
	for c := range podspec.Lasting(&p.want.Spec) {
		r.containers[c.Name] = p.deps.Limits.ContainerResources(p.want, c)
	}
	if old == nil || !podresize.Changed(old, p.want) {
		return
	}
	r.begun, r.problem = true, ""
	p.facts.ResizeAgain(p.otherLimits(old))
	if p.stop == nil && p.deps.EnsureCgroup != nil && p.facts.Cgroup.State != podcgroup.Down {
		// The QoS class's cgroup needs new shares.
		p.deps.EnsureCgroup(EnsureCgroup{Pod: p.want, ReplyTo: ctx.Self()})
	}
}

// otherLimits are the names of the containers that a resize gave other limits than old had.
func (p *pod) otherLimits(old *v1.Pod) (names []string) {
	for c := range podspec.Lasting(&old.Spec) {
		if p.deps.Limits.ContainerResources(old, c) != p.resize.containers[c.Name] {
			names = append(names, c.Name)
		}
	}
	return names
}

// resizing is the plan's input.
func (p *pod) resizing() *podplan.Resize {
	r := p.resize
	if r == nil {
		return nil
	}
	return &podplan.Resize{
		Generation: r.Generation, Pending: r.Pending, Undecided: r.Undecided,
		Was: r.begun || podstatus.ResizeOpen(p.lastStatus(), r.Generation),
		Pod: r.pod, Containers: r.containers,
	}
}

// lastStatus is the last reported status.
func (p *pod) lastStatus() *v1.PodStatus {
	if p.status != nil {
		return p.status
	}
	return &p.want.Status
}

// resizeEvents records that a resize is done, or what blocks it. status is about to be reported.
func (p *pod) resizeEvents(ctx *kernel.Context[Message], status *v1.PodStatus, out podplan.Output) {
	r := p.resize
	if r == nil || p.life != podlife.Syncing {
		return
	}
	old := podstatus.FindCondition(p.lastStatus().Conditions, v1.PodResizeInProgress)
	now := podstatus.FindCondition(status.Conditions, v1.PodResizeInProgress)
	if now == nil {
		if (old != nil || r.begun) && !out.Resizing.InProgress {
			p.event(ctx, "", false, "ResizeCompleted", podresize.Describe("Pod resize completed", p.want, r.Generation, ""))
		}
		r.begun, r.problem = false, ""
		return
	}
	if now.Reason != v1.PodReasonError || now.Message == r.problem {
		return
	}
	if r.problem = now.Message; old == nil || old.Reason != now.Reason || old.Message != now.Message {
		p.event(ctx, "", true, "ResizeError", podresize.Describe("Pod resize error", p.want, r.Generation, now.Message))
	}
}
