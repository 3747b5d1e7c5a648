package podstatus

import (
	"maps"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/troupe-dev/troupe/actors/decide/admit"
	"github.com/troupe-dev/troupe/actors/decide/observed"
)

// resources are those that a container has (API field status.resources): what the
// runtime says of a pod that was resized, and of one that never was, and of what
// the runtime doesn't know, what was allocated. Where it says nothing, they are as
// they were shown before.
func (c *computer) resources(ct *v1.Container, n *observed.Container, old *v1.ContainerStatus, same bool) *v1.ResourceRequirements {
	if c.in.Plan.Resize == nil || n.State != observed.ContainerRunning {
		return &ct.Resources
	}
	if n.Resources == nil {
		if same && old.Resources != nil {
			return old.Resources
		}
		return &ct.Resources
	}
	has := n.Resources
	r := ct.Resources // its lists are cloned before they are changed
	if r.Limits != nil {
		r.Limits = maps.Clone(r.Limits)
		milli := int64(0)
		if has.CPUQuota > 0 && has.CPUPeriod > 0 {
			milli = has.CPUQuota * 1000 / has.CPUPeriod
		}
		// A limit may be so low that the kernel has none for it.
		if q, ok := r.Limits[v1.ResourceCPU]; !ok || milli > leastMilliQuota || q.MilliValue() > leastMilliQuota {
			put(r.Limits, v1.ResourceCPU, milli, q, q.MilliValue(), resource.NewMilliQuantity(milli, resource.DecimalSI))
		}
		q := r.Limits[v1.ResourceMemory]
		put(r.Limits, v1.ResourceMemory, has.Memory, q, q.Value(), resource.NewQuantity(has.Memory, resource.BinarySI))
	}
	if q, ok := r.Requests[v1.ResourceCPU]; ok && has.CPUShares > 0 && (has.CPUShares > leastShares || q.MilliValue() > leastShares) {
		if milli := (has.CPUShares*1000 + 1023) / 1024; milli != q.MilliValue() {
			r.Requests = maps.Clone(r.Requests)
			r.Requests[v1.ResourceCPU] = *resource.NewMilliQuantity(milli, resource.DecimalSI)
		}
	}
	return &r
}

const (
	// leastMilliQuota is the least CPU limit that a kernel holds to, leastShares the
	// least weight (podcgroup has them in its units).
	leastMilliQuota = 10
	leastShares     = 2
)

// put sets what a list says of a resource to what is, but leaves how it is written
// if it says that already. What has no limit isn't in it.
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

// podResources fills what the pod as a whole was given and has (KEP-5419). Only
// pods that ask for something as a whole have it.
func (c *computer) podResources() {
	if c.pod.Spec.Resources == nil {
		return
	}
	c.out.AllocatedResources = admit.Requests(c.pod)
	has := *c.pod.Spec.Resources
	has.Requests = c.out.AllocatedResources
	if c.in.Out.Resizing.InProgress && c.prev.Resources != nil {
		has = *c.prev.Resources // until it has what it was given
	}
	c.out.Resources = &has
}

// resizeConditions are those of a resize that was asked for and not given, and of
// one that was given and isn't done. There is none of them without one (KEP-1287).
func (c *computer) resizeConditions(l *conditionList) {
	r := c.in.Plan.Resize
	if r == nil || terminal(c.out.Phase) {
		return
	}
	if r.Pending != nil {
		c.addObserved(l, verdict{kind: v1.PodResizePending, ok: true, reason: r.Pending.Reason, message: r.Pending.Message}, r.Pending.Generation)
	}
	if !c.in.Out.Resizing.InProgress {
		return
	}
	v := verdict{kind: v1.PodResizeInProgress, ok: true}
	old := FindCondition(c.prev.Conditions, v.kind)
	switch problem := c.in.Out.Resizing.Problem; {
	case problem != "":
		v.reason, v.message = v1.PodReasonError, problem
	case old != nil && old.ObservedGeneration == r.Generation:
		v.reason, v.message = old.Reason, old.Message // it is being tried again
	}
	c.addObserved(l, v, r.Generation)
}
