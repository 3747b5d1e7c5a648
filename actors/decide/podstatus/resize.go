package podstatus

import (
	"maps"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// resources are the actual resources of a container (API field status.resources). For a resized pod
// they are what the runtime reports. For any other pod, and for what the runtime does not know,
// they are the allocation, with the limits that its pod gives it (withPods). Where the runtime reports nothing, they
// stay as shown before.
func (c *computer) resources(
	ct *v1.Container, n *observed.Container, old *v1.ContainerStatus, same bool,
) *v1.ResourceRequirements {
	r := c.in.Plan.Resize
	switch {
	case n.State != observed.ContainerRunning:
		return &ct.Resources
	case r == nil:
		return c.withPods(ct, n)
	}
	want, known := r.Containers[ct.Name]
	switch {
	case n.Resources == nil && same && old.Resources != nil:
		if !equalLists(old.Resources, &ct.Resources) {
			c.behind = true
			return old.Resources
		}
		return &ct.Resources
	case n.Resources == nil || known && *n.Resources == want:
		return c.withPods(ct, n)
	}
	actual := *n.Resources
	if known && want.CPUQuota == 0 && actual.CPUQuota == 0 {
		actual.CPUQuota, actual.CPUPeriod = milliQuota(&ct.Resources), 1000 // it has exclusive CPUs instead of a quota
	}
	has := shownResources(&actual, &ct.Resources)
	if c.in.Plan.Given[n.ID] != want && !equalLists(has, &ct.Resources) { // else the runtime agreed to it, and rounds
		c.behind = true
	}
	return has
}

// withPods is the allocation of a container, and if it has limits, also those that the runtime has of its pod's instead
// of its own (KEP-2837).
func (c *computer) withPods(ct *v1.Container, n *observed.Container) *v1.ResourceRequirements {
	limits, has := ct.Resources.Limits, n.Resources
	if c.pod.Spec.Resources == nil || limits == nil || has == nil {
		return &ct.Resources
	}
	_, cpu := limits[v1.ResourceCPU]
	_, memory := limits[v1.ResourceMemory]
	milli := milliOf(has)
	if cpu, memory = cpu || milli <= leastMilliQuota, memory || has.Memory == 0; cpu && memory {
		return &ct.Resources
	}
	r := ct.Resources
	r.Limits = maps.Clone(limits)
	if !cpu {
		r.Limits[v1.ResourceCPU] = *resource.NewMilliQuantity(milli, resource.DecimalSI)
	}
	if !memory {
		r.Limits[v1.ResourceMemory] = *resource.NewQuantity(has.Memory, resource.BinarySI)
	}
	return &r
}

// milliOf is a CPU limit in thousandths, 0 for none.
func milliOf(has *observed.Resources) int64 {
	if has.CPUQuota <= 0 || has.CPUPeriod <= 0 {
		return 0
	}
	return has.CPUQuota * 1000 / has.CPUPeriod
}

// unseen is the status of a container that was not inspected yet: as shown before, except for the
// allocation, which this node decides.
func (c *computer) unseen(ct *v1.Container, old *v1.ContainerStatus) v1.ContainerStatus {
	s := *old
	if c.in.Plan.Resize == nil || s.Resources == nil {
		return s
	}
	s.AllocatedResources = ct.Resources.Requests
	switch {
	case equalLists(s.Resources, &ct.Resources):
	case s.State.Running == nil:
		s.Resources = &ct.Resources // it is made with them
	default:
		c.behind = true
	}
	return s
}

// shownResources converts the actual limits of a container to its status, written as in its spec
// where they are equal.
func shownResources(has *observed.Resources, spec *v1.ResourceRequirements) *v1.ResourceRequirements {
	r := *spec // its lists are cloned before they are changed
	if r.Limits != nil {
		r.Limits = maps.Clone(r.Limits)
		milli := milliOf(has)
		// A limit may be too low for the kernel to set.
		if q, ok := r.Limits[v1.ResourceCPU]; !ok || milli > leastMilliQuota || q.MilliValue() > leastMilliQuota {
			put(r.Limits, v1.ResourceCPU, milli, q, q.MilliValue(), resource.NewMilliQuantity(milli, resource.DecimalSI))
		}
		q := r.Limits[v1.ResourceMemory]
		put(r.Limits, v1.ResourceMemory, has.Memory, q, q.Value(), resource.NewQuantity(has.Memory, resource.BinarySI))
	}
	if q, ok := r.Requests[v1.ResourceCPU]; ok && has.CPUShares > 0 &&
		(has.CPUShares > leastShares || q.MilliValue() > leastShares) {
		if milli := (has.CPUShares*1000 + 1023) / 1024; milli != q.MilliValue() {
			r.Requests = maps.Clone(r.Requests)
			r.Requests[v1.ResourceCPU] = *resource.NewMilliQuantity(milli, resource.DecimalSI)
		}
	}
	return &r
}

func milliQuota(r *v1.ResourceRequirements) int64 { return r.Limits.Cpu().MilliValue() }

const (
	// leastMilliQuota is the lowest CPU limit that a kernel enforces, leastShares the lowest weight
	// (podcgroup has both in its own units).
	leastMilliQuota = 10
	leastShares     = 2
)

// put sets a resource in a list to its actual value. If the list has that value, its notation
// stays. A resource without a limit is removed.
func put(l v1.ResourceList, name v1.ResourceName, is int64, q resource.Quantity, said int64, as *resource.Quantity) {
	switch {
	case is == 0:
		delete(l, name)
	case is != said:
		l[name] = *as
	default:
		l[name] = q
	}
}

// podResources fills the allocation of the whole pod, which the API has for every pod, and its
// actual resources, which it has only for pods with spec.resources (KEP-5419).
func (c *computer) podResources() {
	c.out.AllocatedResources = c.allocated()
	if c.pod.Spec.Resources == nil {
		return
	}
	has := *c.pod.Spec.Resources
	has.Requests = c.out.AllocatedResources
	old, r := c.prev.Resources, c.in.Plan.Resize
	if r == nil || old == nil || equalLists(old, &has) {
		c.out.Resources = &has
		return
	}
	// True until the actual resources are read.
	unread := c.life() != podlife.Syncing || !c.in.Plan.Known || c.in.Plan.Cgroup.Own && c.in.Plan.Seen == nil
	if unread {
		c.behind = true
	}
	if unread || c.in.Out.Resizing.InProgress {
		has = *old
	}
	c.out.Resources = &has
}

// allocated is the pod's allocation. It is shared where possible: there is one list per pod, and
// this runs again and again.
func (c *computer) allocated() v1.ResourceList {
	spec := &c.pod.Spec
	switch {
	case spec.Resources == nil && len(spec.InitContainers) == 0 && len(spec.Containers) == 1 && len(spec.Overhead) == 0:
		return spec.Containers[0].Resources.Requests
	case c.in.Plan.Resize == nil && c.in.Previous != nil && len(c.prev.AllocatedResources) > 0:
		return c.prev.AllocatedResources // it was never resized
	}
	given := podspec.Requests(c.pod)
	if podspec.SameResources(given, c.prev.AllocatedResources) {
		return c.prev.AllocatedResources
	}
	return given
}

// ResizeOpen says whether a status leaves open that the pod has the resources of an allocated
// generation: it reports the resize as in progress, or does not report the allocation yet.
func ResizeOpen(s *v1.PodStatus, generation int64) bool {
	pending := FindCondition(s.Conditions, v1.PodResizePending)
	return s.ObservedGeneration < generation || FindCondition(s.Conditions, v1.PodResizeInProgress) != nil ||
		pending != nil && pending.ObservedGeneration <= generation
}

// resizeConditions adds a condition for a resize that is not allocated, and one for an allocated
// resize that is not done (KEP-1287). Until a newer resize is decided, the earlier condition stays.
func (c *computer) resizeConditions(l *conditionList) {
	r := c.in.Plan.Resize
	if r == nil || podspec.Terminal(c.out.Phase) {
		return
	}
	if p := r.Pending; p != nil {
		c.addResize(l, verdict{kind: v1.PodResizePending, reason: p.Reason, message: p.Message}, p.Generation)
	} else if old := FindCondition(c.prev.Conditions, v1.PodResizePending); old != nil && r.Undecided {
		l.add(old)
	}
	old := FindCondition(c.prev.Conditions, v1.PodResizeInProgress)
	if !c.in.Out.Resizing.InProgress && !c.behind {
		// An earlier agent may have allocated a resize that this one does not know.
		if old != nil && r.Undecided && c.prev.ObservedGeneration >= c.pod.Generation {
			l.add(old)
		}
		return
	}
	v := verdict{kind: v1.PodResizeInProgress}
	generation := c.generation()
	if r.Pending != nil {
		generation = r.Generation // the pending generation asks for something else
	}
	switch problem := c.in.Out.Resizing.Problem; {
	case problem != "":
		v.reason, v.message = v1.PodReasonError, problem
	case old != nil && old.ObservedGeneration == generation:
		v.reason, v.message = old.Reason, old.Message // it is being tried again
	}
	c.addResize(l, v, generation)
}
