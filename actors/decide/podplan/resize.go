package podplan

import (
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podresize"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// driveResize brings the limits of a running pod and of its containers to the allocation, a step at
// a time (podresize.Next). What doesn't run is later made with its new limits.
func (p *planner) driveResize() {
	r := p.in.Resize
	if r == nil || p.sandbox == nil {
		return
	}
	in := podresize.Input{Now: p.now, Own: p.in.Cgroup.Own, Want: r.Pod, Seen: p.in.Seen}
	for c := range podspec.Lasting(&p.in.Pod.Spec) {
		n := p.newest(c.Name)
		want, known := r.Containers[c.Name]
		if known && p.made(c.Name, n, want) {
			p.out.Resizing.InProgress = true
		}
		if n == nil || !known || n.State != observed.ContainerRunning || !p.fresh(n) {
			continue
		}
		have, told := p.limits(n)
		switch {
		case !told && !n.Detailed:
			in.Restarting = true // its details are read first: see keep
			p.out.Resizing.InProgress = p.out.Resizing.InProgress || r.Was
		case p.needsRestart(c, n):
			in.Restarting = true
			p.out.Resizing.InProgress = true
		case told && have == want:
		default:
			in.Containers = append(in.Containers, podresize.Container{Name: c.Name, ID: n.ID, Have: have, Want: want})
		}
	}
	if len(in.Containers) > 0 || in.Own && p.in.Seen != nil && differs(p.in.Seen.Pod, r.Pod) {
		p.out.Resizing.InProgress = true
	}
	p.resizeStep(podresize.Next(in))
	// A new container waits until the pod's cgroup has room for it. If the cgroup can't be read, the
	// container is made: the kernel enforces the limits.
	p.cgroupTooSmall = in.Own && p.in.Seen != nil && differs(p.in.Seen.Pod, podresize.Most(p.in.Seen.Pod, r.Pod))
	if f, failed := p.in.Failures[Lane{Kind: LaneResize}]; failed && p.out.Resizing.InProgress &&
		p.out.Resizing.Problem == "" {
		p.out.Resizing.Problem = f.Message
	}
}

// made says whether a container that is being made, or has not started yet, has other limits than
// desired. They are changed once it runs.
func (p *planner) made(name string, n *observed.Container, want observed.Resources) bool {
	if a, is := p.underWay(Lane{Kind: LaneContainer, Name: name}).(CreateContainer); is {
		return a.Resources == nil || *a.Resources != want
	}
	if n == nil || n.State != observed.ContainerCreated || !p.fresh(n) {
		return false
	}
	have, told := p.limits(n)
	if !told && !n.Detailed {
		return p.in.Resize.Was
	}
	return have != want
}

func (p *planner) resizeStep(step podresize.Step) {
	state := &p.out.Resizing
	switch s := step.(type) {
	case podresize.Done:
	case podresize.Wait:
	case podresize.Look:
		// Until the limits are read, the last status stands.
		state.InProgress = state.InProgress || p.in.Resize.Was
		p.do(LookResources{IDs: s.IDs})
	case podresize.SetPod:
		p.do(ResizePod{SandboxID: p.sandbox.ID, To: s.To})
	case podresize.Update:
		p.do(ResizeContainer{Name: s.Name, ID: s.ID, To: s.To})
	case podresize.Blocked:
		state.Problem = s.Message
		p.wake(s.Again)
	}
}

// differs says whether the limits of a pod's cgroup change. A weight that can't be read doesn't
// count.
func differs(have, to observed.Resources) bool {
	if have.CPUShares == 0 {
		have.CPUShares = to.CPUShares
	}
	return have != to
}

// limits are the limits of a container, and whether they are known.
func (p *planner) limits(n *observed.Container) (observed.Resources, bool) {
	if given, ok := p.in.Given[n.ID]; ok {
		return given, true
	}
	if n.Resources != nil {
		return *n.Resources, true
	}
	return observed.Resources{}, false
}

// resizedSince says whether an ended container had other limits than the next one gets. A resize is told
// of when it comes (ResizeAgain), so this only counts after the actor has restarted, and once: a runtime
// that reports limits otherwise than they were given must not end each backoff.
func (p *planner) resizedSince(n *observed.Container) bool {
	want := p.madeWith(n.Name)
	have, told := p.limits(n)
	return want != nil && told && have != *want
}

// madeWith are the limits that a container is made with; nil for none.
func (p *planner) madeWith(name string) *observed.Resources {
	if p.in.Resize == nil {
		return nil
	}
	want, known := p.in.Resize.Containers[name]
	if !known {
		return nil
	}
	return &want
}

// needsRestart says whether a container must restart to get its desired resources (API field
// resizePolicy).
func (p *planner) needsRestart(c *v1.Container, n *observed.Container) bool {
	if !sameRequest(n.SpecHash, c) {
		return true // of a resize that an earlier agent was told of as well
	}
	if p.in.Resize == nil {
		return false
	}
	want, known := p.in.Resize.Containers[c.Name]
	have, told := p.limits(n)
	if !known || !told || have == want {
		return false
	}
	cpu := have.CPUShares != want.CPUShares || have.CPUQuota != want.CPUQuota || have.CPUQuota != 0 &&
		have.CPUPeriod != want.CPUPeriod
	return cpu && restartsFor(c, v1.ResourceCPU) || have.Memory != want.Memory && restartsFor(c, v1.ResourceMemory)
}
