package pod

import (
	"fmt"
	"math/bits"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podplan"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
)

// done takes in the result of an effect.
func (p *pod) done(ctx *kernel.Context[Message], m ActionDone) {
	lane, mine := p.lanes.Get(m.ID)
	if !mine {
		// Late, after its deadline or of a predecessor: it says that something
		// happened, not that nothing happened since.
		if changes(m.Action) {
			p.doubt()
		}
		return
	}
	old := lane.N == stale
	lane.N = max(lane.N, 0)
	p.lanes.Delete(m.ID)
	p.busy.Delete(lane)
	if changes(m.Action) {
		p.changes++
	}
	if p.want == nil {
		p.doubt() // an inherited effect ended before the assignment came
		p.hookOver(m)
		return
	}
	if m.Err != nil {
		p.failed(ctx, lane, m)
		return
	}
	if !awaitsStart(m.Action, p.facts.failures[lane]) {
		delete(p.facts.failures, lane)
	}
	p.succeeded(ctx, m, old)
}

// awaitsStart: a container that could be made, or removed, is no better for one
// whose start failed. Only a start that works ends the row of its failures.
func awaitsStart(a podplan.Action, f podplan.Failure) bool {
	switch a.(type) {
	case podplan.CreateContainer, podplan.RemoveContainer:
		return f.Reason == startFailed
	default:
		return false
	}
}

const startFailed = "RunContainerError"

// succeeded takes in what an action gave; old says that its object changed since
// it was begun.
func (p *pod) succeeded(ctx *kernel.Context[Message], m ActionDone, old bool) {
	now := ctx.Now()
	switch a := m.Action.(type) {
	case podplan.ObservePod:
		p.listed(m.View)
	case podplan.RunSandbox:
		p.changes += birth
		if p.sandbox(m.NewID) == nil {
			p.view.Sandboxes = append(p.view.Sandboxes, observed.Sandbox{
				ID: m.NewID, Pod: p.ref(), Attempt: a.Attempt, State: observed.SandboxReady, CreatedAt: now,
			})
		}
		p.view.Sort()
	case podplan.StopSandbox:
		put(&p.facts.sandboxStopped, a.ID, true)
		if s := p.sandbox(a.ID); s != nil {
			s.State = observed.SandboxNotReady
		}
		for i := range p.view.Containers {
			// All that ran in it was killed with it.
			if c := &p.view.Containers[i]; c.SandboxID == a.ID && c.State == observed.ContainerRunning {
				p.reread(c.ID)
			}
		}
	case podplan.InspectSandbox:
		if s := p.sandbox(a.ID); s != nil {
			m.Sandbox.State = max(m.Sandbox.State, s.State)
			m.Sandbox.Detailed = !old
			*s = *m.Sandbox
		}
		p.view.Sort()
	case podplan.CreateContainer:
		p.changes += birth
		if p.container(m.NewID) == nil {
			p.view.Containers = append(p.view.Containers, observed.Container{
				ID: m.NewID, SandboxID: a.SandboxID, Pod: p.ref(), Name: a.Name, Attempt: a.Attempt,
				State: observed.ContainerCreated, ImageRef: p.shownImage(a), SpecHash: a.SpecHash,
				CreatedAt: now, Detailed: true, Resources: a.Resources,
			})
			p.view.Sort()
		}
		p.event(ctx, a.Name, false, "Created", "Container created")
	case podplan.StartContainer:
		if c := p.container(a.ID); c != nil && c.State == observed.ContainerCreated {
			c.State, c.StartedAt = observed.ContainerRunning, now
			p.reread(a.ID)
		}
		p.event(ctx, a.Name, false, "Started", "Container started")
	case podplan.InspectContainer:
		p.inspected(ctx, a, *m.Container, old)
	case podplan.StopContainer:
		put(&p.facts.stopped, a.ID, now)
		delete(p.facts.killAt, a.ID)
		if c := p.container(a.ID); c != nil && c.State != observed.ContainerExited {
			p.reread(a.ID)
		}
	case podplan.RemoveContainer:
		p.forget(a.ID)
	case podplan.RunPostStart, podplan.RunPreStop:
		p.hookOver(m)
	case podplan.LookResources, podplan.ResizePod, podplan.ResizeContainer:
		p.resizeDone(now, m)
	case podplan.EnsureImage, podplan.MountVolumes, podplan.UnmountVolumes, podplan.EnsureCgroup, podplan.RemoveCgroup, podplan.NoteRestart:
		panic("asked of another actor, not an effect")
	}
}

func (p *pod) inspected(ctx *kernel.Context[Message], a podplan.InspectContainer, got observed.Container, old bool) {
	c := p.container(a.ID)
	if c == nil {
		return
	}
	if got.State != c.State && !wentOn(c.State, got.State) {
		// The answer is from before what is known already. A runtime that goes on
		// giving such answers isn't asked at full speed.
		if !old {
			put(&p.facts.failures, a.Lane(), podplan.Failure{Count: 1, At: ctx.Now(), Reason: "RuntimeError",
				Message: "the runtime says " + got.State.String() + " of a container that is " + c.State.String()})
		}
		return
	}
	// How it ended is for good. While the pod goes on it matters as well who ended it:
	// that is known when the call has returned which made the answer old.
	got.Detailed = !old || p.stop != nil && got.State == observed.ContainerExited
	switch {
	case p.resize == nil:
		got.Resources = nil // there are many pods, and of few it is asked for
	case got.Resources == nil || old:
		got.Resources = c.Resources // not every runtime says; or it may have been given others since
	}
	if got.SandboxID == "" {
		got.SandboxID = c.SandboxID // the CRI doesn't say it with a status
	}
	if got.StartedAt.IsZero() {
		got.StartedAt = c.StartedAt
	}
	*c = got
	p.view.Sort()
}

// failed remembers a failure for the plan, which decides when to try again.
func (p *pod) failed(ctx *kernel.Context[Message], lane podplan.Lane, m ActionDone) {
	kind := port.KindOf(m.Err)
	detail := m.Err.Error()
	if e, ok := m.Err.(*port.Error); ok && e.Detail != "" {
		detail = e.Detail
	}
	detail = steady(detail, idOf(m.Action), p.objectOf(m.Action))
	switch kind {
	case port.NotFound:
		p.notFound(m.Action)
	case port.NameReserved, port.Deadline, port.Unavailable, port.Canceled, port.StateConflict:
		// It may have worked, or may yet.
		if changes(m.Action) {
			p.doubt()
		}
	case port.ImageNotFound:
		if a, ok := m.Action.(podplan.CreateContainer); ok {
			p.facts.images.Delete(a.Name) // removed behind our back: ask again
		}
	default:
	}
	f := p.facts.failures[lane]
	f.Count++
	f.Unanswered = !answered(kind)
	if !f.Unanswered {
		f.Refusals++
	}
	f.At = ctx.Now()
	f.Message = detail
	switch a := m.Action.(type) {
	case podplan.RunSandbox:
		f.Reason = "CreatePodSandboxError"
		p.event(ctx, "", true, "FailedCreatePodSandBox", "Failed to create pod sandbox: "+detail)
	case podplan.CreateContainer:
		f.Reason = "CreateContainerError"
		if kind == port.InvalidConfig {
			f.Reason = configError
		}
		p.event(ctx, a.Name, true, "Failed", "Error: "+detail)
	case podplan.StartContainer:
		f.Reason = startFailed
		p.reread(a.ID) // it may have run and ended
		p.event(ctx, a.Name, true, "Failed", "Error: "+detail)
	case podplan.RunPostStart, podplan.RunPreStop:
		p.hookFailed(ctx, m, detail)
		return
	case podplan.StopContainer:
		f.Reason = "StopContainerError"
		delete(p.facts.killAt, a.ID)
		p.reread(a.ID)
		p.event(ctx, a.Name, true, "FailedKillPod", fmt.Sprintf("error killing container %q: %s", a.Name, detail))
	case podplan.StopSandbox:
		f.Reason = "StopPodSandboxError"
		p.event(ctx, "", true, "FailedKillPod", "error stopping the pod's sandbox: "+detail)
	case podplan.ObservePod, podplan.InspectSandbox, podplan.InspectContainer, podplan.RemoveContainer:
		f.Reason = "RuntimeError"
		log := ctx.Log().Warn
		if kind == port.Unavailable || bits.OnesCount(uint(f.Count)) > 1 {
			log = ctx.Log().Debug // pleg says it once for all pods; and not each of many in a row
		}
		log().Str("pod", p.name()).Str("call", actionKind(a)).Str("object", p.objectOf(a)).Int("failures", f.Count).
			Str("error", detail).Msg("runtime call failed")
	case podplan.LookResources, podplan.ResizePod, podplan.ResizeContainer:
		f.Reason = "ResizeError"
		p.resizeFailed(m, f.Unanswered)
	case podplan.EnsureImage, podplan.MountVolumes, podplan.UnmountVolumes, podplan.EnsureCgroup, podplan.RemoveCgroup, podplan.NoteRestart:
		panic("asked of another actor, not an effect")
	}
	put(&p.facts.failures, lane, f)
}

// idOf is the container that an action is about, empty if there is none yet.
func idOf(a podplan.Action) string {
	switch a := a.(type) {
	case podplan.StartContainer:
		return a.ID
	case podplan.StopContainer:
		return a.ID
	case podplan.RemoveContainer:
		return a.ID
	case podplan.InspectContainer:
		return a.ID
	default:
		return ""
	}
}

// runtimeBack makes all due that failed for want of an answer, and forgets how
// often: that was the runtime's silence, which is over.
func (p *pod) runtimeBack() {
	for lane, f := range p.facts.failures { // order-free: each on its own
		if f.Unanswered {
			f.Count = 0
			p.facts.failures[lane] = f
		}
	}
}

// answered: the runtime got the call and said no.
func answered(kind port.ErrorKind) bool {
	switch kind {
	case port.Deadline, port.Canceled, port.Unavailable:
		return false
	default:
		return true
	}
}

// notFound: the runtime has no such thing. What was read before is in doubt.
func (p *pod) notFound(a podplan.Action) {
	switch a := a.(type) {
	case podplan.InspectContainer:
		p.forget(a.ID)
	case podplan.InspectSandbox:
		p.forget(a.ID)
	default:
	}
	p.doubt()
}

func (p *pod) ref() observed.PodRef {
	return observed.PodRef{UID: p.uid, Namespace: p.want.Namespace, Name: p.want.Name}
}

func (p *pod) event(ctx *kernel.Context[Message], container string, warning bool, reason, message string) {
	p.deps.Events.Record(port.Event{
		Pod: p.want, Container: container, Warning: warning, Reason: reason, Message: message, At: ctx.Now(),
	})
}

// shownImage is what the runtime will show as the image of a container that was
// just made: containerd names it by its digest in the registry, where it has one.
// Said at once, it need not be said again when the container was looked at.
func (p *pod) shownImage(a podplan.CreateContainer) string {
	if i := p.images.At(a.Name); i != nil && len(i.RepoDigests) > 0 {
		return i.RepoDigests[0]
	}
	return a.ImageRef
}
