// Package podstatus computes what users see of a pod: desired + observed + plan + previous status →
// v1.PodStatus.
//
// A status never goes back. A terminal phase stays, a restart count never falls, and a known
// termination is not forgotten. What isn't known at the moment (the actor restarted, details are
// not read yet) stays as it was.
package podstatus

import (
	"slices"
	"sort"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podplan"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/smallmap"
)

// Input is everything a status may look at.
type Input struct {
	// Plan is the input of the plan, Out the plan.
	Plan podplan.Input
	Out  podplan.Output
	// Previous is the last computed status. If it is nil, the pod's own status counts.
	Previous *v1.PodStatus
	// HostIPs are the node's addresses, the primary one first.
	HostIPs []string
	// PreferIPv6: the first address of a pod is an IPv6 address, if it has both.
	PreferIPv6 bool
	// RuntimeName stands before "://" in container IDs.
	RuntimeName string
}

// Compute returns the status of the pod. It shares memory with Previous and the
// pod, so none of the three may be changed afterwards. Called again with
// nothing changed it returns a status equal to Previous, sharing its lists.
func Compute(in Input) v1.PodStatus {
	c := computer{in: in, pod: in.Plan.Pod, prev: in.Previous}
	if c.prev == nil {
		c.prev = &c.pod.Status
	}
	c.containers()
	phase := c.phase()
	c.show(phase)
	c.podResources()
	c.conditions(phase)
	c.addresses()
	c.rest()
	return c.out
}

// computer holds one status while it is being computed.
type computer struct {
	in   Input
	pod  *v1.Pod
	prev *v1.PodStatus
	out  v1.PodStatus
	// behind: the shown resources of a resized pod are not yet its allocation.
	behind bool
	// waits is an index of why containers wait, where that is long.
	waits func(string) (podplan.Waiting, bool)
}

func (c *computer) life() podlife.State { return c.in.Plan.Life }

// containers fills the lists of container statuses: init containers in the order of the spec, the others by name. A
// kubelet shows them so, kubectl takes the reason of the first one that has any, and programs read the first.
func (c *computer) containers() {
	spec := &c.pod.Spec
	inits := newStatusList(c.prev.InitContainerStatuses)
	for i := range spec.InitContainers {
		ct := &spec.InitContainers[i]
		s := c.container(ct, podspec.KindOfInit(ct), inits.old(ct.Name, i))
		inits.add(&s)
	}
	mains := newStatusList(c.prev.ContainerStatuses)
	for n, i := range byName(len(spec.Containers), func(i int) string { return spec.Containers[i].Name }) {
		ct := &spec.Containers[i]
		s := c.container(ct, podspec.Main, mains.old(ct.Name, n))
		mains.add(&s)
	}
	ephemerals := newStatusList(c.prev.EphemeralContainerStatuses)
	debug := spec.EphemeralContainers
	for n, i := range byName(len(debug), func(i int) string { return debug[i].Name }) {
		ct := (*v1.Container)(&spec.EphemeralContainers[i].EphemeralContainerCommon)
		s := c.container(ct, podspec.Ephemeral, ephemerals.old(ct.Name, n))
		ephemerals.add(&s)
	}
	c.out.InitContainerStatuses = inits.list()
	c.out.ContainerStatuses = mains.list()
	c.out.EphemeralContainerStatuses = ephemerals.list()
	if c.life() == podlife.Terminated {
		c.fillUnknownTerminations()
	}
}

// byName are the indices of n containers, in the order of their names.
func byName(n int, name func(int) string) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	slices.SortFunc(out, func(i, j int) int { return strings.Compare(name(i), name(j)) })
	return out
}

// rest fills fields of the whole pod that hardly ever change.
func (c *computer) rest() {
	c.out.ObservedGeneration = c.generation()
	c.out.QOSClass = c.prev.QOSClass
	if c.pod.Status.QOSClass != "" || c.out.QOSClass == "" {
		c.out.QOSClass = podspec.Class(c.pod)
	}
	c.out.StartTime = c.startTime()
	// Other components own these.
	c.out.NominatedNodeName = c.pod.Status.NominatedNodeName
	c.out.ResourceClaimStatuses = c.pod.Status.ResourceClaimStatuses
	c.out.ExtendedResourceClaimStatus = c.pod.Status.ExtendedResourceClaimStatus
	c.out.NodeAllocatableResourceClaimStatuses = c.pod.Status.NodeAllocatableResourceClaimStatuses
}

// generation is the generation that the status acknowledges: the pod's own, unless that asks for a
// resize which is not decided yet.
func (c *computer) generation() int64 {
	if r := c.in.Plan.Resize; r != nil && r.Undecided {
		return max(r.Generation, c.prev.ObservedGeneration)
	}
	return max(c.pod.Generation, c.prev.ObservedGeneration)
}

// startTime is when this node first knew of the pod; it never changes. If it is lost, the creation
// of the oldest sandbox stands for it. So it is empty until the runtime has listed the pod.
func (c *computer) startTime() *metav1.Time {
	switch {
	case !c.prev.StartTime.IsZero():
		return c.prev.StartTime
	case !c.pod.Status.StartTime.IsZero():
		return c.pod.Status.StartTime
	}
	boxes := c.in.Plan.View.Sandboxes
	if !c.in.Plan.Known && len(boxes) == 0 {
		return nil
	}
	at := c.in.Plan.Now
	for i := range boxes {
		if t := boxes[i].CreatedAt; !t.IsZero() && t.Before(at) && boxes[i].Attempt >= c.in.Plan.FirstSandbox {
			at = t
		}
	}
	t := stamp(at)
	return &t
}

// newest returns the newest incarnation of a name, nil if there is none, and the newest earlier one
// that has ended.
func (c *computer) newest(name string) (n, before *observed.Container) {
	cs := c.in.Plan.View.Of(name)
	for i := range cs {
		switch {
		case cs[i].Name != name:
		case n == nil:
			n = &cs[i]
		case cs[i].State == observed.ContainerExited:
			return n, &cs[i]
		}
	}
	return n, nil
}

// lives says whether n runs, or might run.
func (c *computer) lives(n *observed.Container) bool {
	switch n.State {
	case observed.ContainerRunning:
		return true
	case observed.ContainerUnknown:
		_, stopped := c.in.Plan.Stopped[n.ID]
		return !stopped
	default:
		return false
	}
}

// stamp is t with the API's precision: whole seconds.
func stamp(t time.Time) metav1.Time {
	if t.IsZero() {
		return metav1.Time{}
	}
	return metav1.Time{Time: t.UTC().Truncate(time.Second)}
}

// find returns the status of the named container, nil if there is none. Of many, those of main containers are in the
// order of their names.
func find(list []v1.ContainerStatus, name string) *v1.ContainerStatus {
	if len(list) > smallmap.Few {
		i := sort.Search(len(list), func(i int) bool { return list[i].Name >= name })
		if i < len(list) && list[i].Name == name {
			return &list[i]
		}
	}
	for i := range list {
		if list[i].Name == name {
			return &list[i]
		}
	}
	return nil
}
