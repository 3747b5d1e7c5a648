package chaos

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/podset"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/apiclient/simapi"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/chaos/plan"
	"github.com/troupe-dev/troupe/supervisor/sim"
)

func (r *runner) called(node string, c simcri.Call) simcri.Fault {
	f := r.inj.call(node, c, r.roleOf(c.Pod.Name, c.Container))
	switch c.Method {
	case simcri.RemoveImage:
		r.on(node).rules.Freed()
	case simcri.RunPodSandbox, simcri.CreateContainer, simcri.StartContainer, simcri.StopContainer, simcri.StopPodSandbox,
		simcri.RemoveContainer, simcri.RemovePodSandbox, simcri.PullImage, simcri.UpdateContainer:
		r.out.Changes++
		switch {
		case c.Method == simcri.RemoveContainer, c.Method == simcri.RemovePodSandbox: // what has ended some time ago
		case c.Method == simcri.StopPodSandbox && r.readySandbox(r.nameOf(c.Pod.UID)) == "": // it is stopped
		default:
			r.disturbed(r.podName(c.Pod.Name), "it calls %s %s", c.Method, c.Object)
		}
	default:
	}
	if !r.bare {
		r.on(node).rules.Called(c, f)
	}
	return f
}

func (r *runner) changed(node string, t simcri.Transition) {
	if !r.bare {
		r.on(node).rules.Changed(t)
	}
	r.rec.changed(r.podName(t.Pod.Name), &t)
	r.transition(t)
	if r.c.Disks > 0 {
		if t.Kind == observed.ContainerDeletedEvent {
			r.on(node).rules.Freed()
		}
		r.over(r.on(node), r.podName(t.Pod.Name))
	}
	r.dirty = true
}

func (r *runner) hosted(node string, c sim.HostCall) sim.HostFault {
	m := r.on(node)
	role := plan.Role{Pod: r.role(r.nameOf(types.UID(c.Pod)))}
	f, lost := r.inj.host(node, c, role, m.Machine().Checkpoints)
	if !r.bare {
		m.rules.Hosted(c, f)
		if lost {
			m.rules.Lost(c.Name)
		}
	}
	return f
}

func (r *runner) asked(c simapi.Call) simapi.Fault {
	switch c.Verb {
	case simapi.Create, simapi.Patch, simapi.Delete:
		r.out.Writes++
		// A static pod's status is remembered by its actor only: an end whose record was removed may be lost.
		if c.Key.Kind != port.NodeKind && c.Key.Kind != port.LeaseKind && r.podName(c.Key.Name) == c.Key.Name {
			r.disturbed(r.podName(c.Key.Name), "it calls %s %s %s", c.Verb, c.Key.Kind, c.Key.Name)
		}
	default:
	}
	role := plan.Role{}
	if c.Key.Kind == port.PodKind {
		role = r.roleOf(c.Key.Name, "")
	}
	f := r.inj.api(c, role)
	r.on(c.Node).rules.Asked(c, f)
	return f
}

// event is the fate of an event of a runtime.
func (r *runner) event(node string, e port.RuntimeEvent) simcri.EventFate {
	f := r.inj.event(node, e, r.roleOf(e.Pod.Name, ""))
	if f.Drop || f.Delay > 0 {
		r.on(node).rules.Troubled(e.Pod.UID, max(f.Delay, relist))
	}
	return f
}

// lease is each version of the lease of a node.
func (r *runner) lease(e simapi.Event) {
	l := e.Object.(*coordinationv1.Lease)
	if e.Type != simapi.Deleted && l.Spec.RenewTime != nil && !r.bare && len(r.caseNodes) > 0 {
		r.on(l.Name).rules.Renewed(l.Spec.RenewTime.Time)
	}
}

// shown is each version of each pod in the API.
func (r *runner) shown(e simapi.Event) {
	p := e.Object.(*v1.Pod)
	if !r.bare && p.Spec.NodeName != "" && len(r.caseNodes) > 0 {
		r.on(p.Spec.NodeName).rules.Shown(p, e.Type == simapi.Deleted)
	}
	r.rec.shown(r.podName(p.Name), p, e.Type == simapi.Deleted)
	r.version(p, e.Type == simapi.Deleted, r.v.Now())
	if r.versions != nil {
		r.versions(r.roleOf(p.Name, "").Pod, p)
	}
	r.dirty = true
}

// reported is the status of a pod of a standalone node.
func (r *runner) reported(m podset.Reported) {
	if name := r.nameOf(m.UID); r.c.Standalone && m.Status != nil && !r.pod(name).older[m.UID] {
		r.status(name, m.Status, r.v.Now())
		r.dirty = true
	}
}
