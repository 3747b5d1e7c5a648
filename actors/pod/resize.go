package pod

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podcgroup"
	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podplan"
	"github.com/troupe-dev/troupe/actors/decide/podresize"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/podstatus"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
)

// resize is what a pod that was resized remembers of it. Lost with the actor: the
// runtime and the cgroup are read again, and the last status says whether it was
// in progress.
type resize struct {
	Resized
	// of is the pod that the limits are of: see podplan.Resize.
	of         *v1.Pod
	pod        observed.Resources
	containers map[string]observed.Resources
	seen       *podresize.Seen
	given      map[string]observed.Resources
	// begun: it was given since this incarnation began, and is not done.
	begun bool
	// problem is the last one that users were told of.
	problem string
}

// resized takes in what the pod was given.
func (p *pod) resized(ctx *kernel.Context[Message], old *v1.Pod, m *Resized) {
	if m == nil {
		return
	}
	if p.resize == nil {
		p.resize = &resize{given: map[string]observed.Resources{}}
		for i := range p.view.Containers {
			if c := &p.view.Containers[i]; c.State == observed.ContainerRunning {
				p.reread(c.ID) // what its limits are was of no interest
			}
		}
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
	r.seen, r.begun, r.problem = nil, true, ""
	delete(p.facts.failures, podplan.Lane{Kind: podplan.LaneResize})
	if p.stop == nil && p.deps.EnsureCgroup != nil && p.facts.cgroup.State != podcgroup.Down {
		// The class of the pod gets another share.
		p.deps.EnsureCgroup(EnsureCgroup{Pod: p.want, ReplyTo: ctx.Self()})
	}
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
		Pod: r.pod, Containers: r.containers, Seen: r.seen, Given: r.given,
	}
}

// lastStatus is what users were told last.
func (p *pod) lastStatus() *v1.PodStatus {
	if p.status != nil {
		return p.status
	}
	return &p.want.Status
}

// resizePod gives the pod's cgroup other limits, if the runtime has nothing against
// it. Only this actor changes those of the cgroup of a pod that runs.
func (p *pod) resizePod(a podplan.ResizePod) run {
	rt, cgroups, limits, pod := p.deps.Runtime, p.deps.Cgroups, p.deps.Limits, p.want
	return run{deadline: startDeadline, call: func(ctx context.Context, done func(ActionDone)) {
		name, err := limits.Pod(pod)
		if err != nil {
			done(ActionDone{Err: &port.Error{Kind: port.InvalidConfig, Verb: "SetPodCgroup", Object: pod.Name, Detail: err.Error()}})
			return
		}
		rt.UpdateSandbox(ctx, port.UpdateSandbox{ID: a.SandboxID, Pod: pod, To: a.To}, func(err error) {
			if err != nil && port.KindOf(err) != port.Unsupported {
				done(ActionDone{Err: err})
				return
			}
			cgroups.Set(ctx, name, podcgroup.ValuesOf(a.To), onlyErr(done))
		})
	}}
}

// look is the effect of podplan.LookResources.
func (p *pod) look(ids []string) run {
	rt, cgroups, limits, pod := p.deps.Runtime, p.deps.Cgroups, p.deps.Limits, p.want
	return run{deadline: inspectDeadline, call: func(ctx context.Context, done func(ActionDone)) {
		look(ctx, rt, cgroups, &limits, pod, ids, done)
	}}
}

// look reads the pod's cgroup, and then the memory of one container after another.
func look(ctx context.Context, rt port.Runtime, cgroups port.Cgroups, limits *podcgroup.Settings, pod *v1.Pod, ids []string, done func(ActionDone)) {
	seen := podresize.Seen{Containers: map[string]int64{}}
	var next func(i int)
	next = func(i int) {
		if i == len(ids) {
			done(ActionDone{Seen: &seen})
			return
		}
		rt.ContainerMemory(ctx, ids[i], func(bytes int64, err error) {
			if err != nil {
				done(ActionDone{Err: err})
				return
			}
			seen.Containers[ids[i]] = bytes
			next(i + 1)
		})
	}
	if cgroups == nil {
		next(0)
		return
	}
	name, err := limits.Pod(pod)
	if err != nil {
		done(ActionDone{Err: &port.Error{Kind: port.InvalidConfig, Verb: "GetCgroup", Object: pod.Name, Detail: err.Error()}})
		return
	}
	cgroups.Get(ctx, name, func(has observed.Resources, memory int64, err error) {
		if err != nil {
			done(ActionDone{Err: err})
			return
		}
		seen.Pod, seen.Usage = has, memory
		next(0)
	})
}

// resizeDone takes in what a step gave.
func (p *pod) resizeDone(now time.Time, m ActionDone) {
	r := p.resize
	if r == nil {
		return // a predecessor's
	}
	switch a := m.Action.(type) {
	case podplan.LookResources:
		m.Seen.At = now
		r.seen = m.Seen
	case podplan.ResizePod:
		if r.seen != nil {
			seen := *r.seen
			seen.Pod = a.To
			r.seen = &seen
		}
	case podplan.ResizeContainer:
		to := a.To
		r.given[a.ID] = to
		if c := p.container(a.ID); c != nil {
			c.Resources = &to
			p.reread(a.ID)
		}
	default:
	}
}

// resizeFailed: what may have worked all the same is read again.
func (p *pod) resizeFailed(m ActionDone, unanswered bool) {
	r := p.resize
	if r == nil || !unanswered {
		return
	}
	r.seen = nil
	if a, is := m.Action.(podplan.ResizeContainer); is {
		delete(r.given, a.ID)
		p.reread(a.ID)
	}
}

// resizeEvents tells users that a resize is done, or what is in its way; status is
// what is to be shown.
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
