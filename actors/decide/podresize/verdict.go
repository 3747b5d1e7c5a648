package podresize

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// Verdict is the node's decision on a resize.
//
//sumtype:decl
type Verdict interface{ isVerdict() }

type (
	// Allocate: the pod gets what it asks for.
	Allocate struct{}
	// Defer: there is no room now. It is decided again when resources are freed.
	// Short is the reason in the event's text, if it is not that of the condition.
	Defer struct{ Message, Short string }
	// Refuse: it is not possible on this node. Detail is why, as KEP-1287 has it for a metric; empty for what an apiserver
	// refuses first.
	Refuse struct{ Message, Detail string }
)

// Insufficient is the Detail of a resize to more than the node has.
const Insufficient = "insufficient_node_allocatable"

func (Allocate) isVerdict() {}
func (Defer) isVerdict()    {}
func (Refuse) isVerdict()   {}

// resources are those that can be resized.
var resources = [...]v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory}

// Decide decides on a resize. allocated is the pod with its current allocation, others are the
// other pods with theirs. A pod that does not ask for more always gets it, even on an overcommitted
// node.
func Decide(desired, allocated *v1.Pod, others []*v1.Pod, allocatable v1.ResourceList) Verdict {
	if was, is := podspec.QOS(allocated), podspec.QOS(desired); was != is {
		return Refuse{Message: fmt.Sprintf("the pod's QoS class can't change from %s to %s", was, is)}
	}
	had, asked := podspec.Requests(allocated), podspec.Requests(desired)
	var full *Defer
	for _, name := range resources {
		want, has := asked[name], had[name]
		have, known := allocatable[name]
		if !known || want.Cmp(has) <= 0 {
			continue
		}
		if want.Cmp(have) > 0 {
			return Refuse{
				fmt.Sprintf("Node didn't have enough capacity: %s, requested: %d, capacity: %d", name, amount(name, want),
					amount(name, have)), Insufficient,
			}
		}
		used := resource.Quantity{}
		for _, o := range others {
			if o.UID == desired.UID || podspec.Finished(o) {
				continue
			}
			used.Add(podspec.Requests(o)[name])
		}
		total := used.DeepCopy()
		total.Add(want)
		if total.Cmp(have) > 0 && full == nil {
			full = &Defer{
				Message: fmt.Sprintf("Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d",
					name, amount(name, want), amount(name, used), amount(name, have)),
				Short: "OutOf" + string(name),
			}
		}
	}
	if full != nil {
		return *full
	}
	return Allocate{}
}

// Bound refuses to change the CPU or memory of a Guaranteed pod where containers have CPUs (cpuManagerPolicy static)
// or memory (memoryManagerPolicy Static) of their own: these are not changed while a container runs. It is nil
// otherwise.
func Bound(desired, allocated *v1.Pod, cpus, memory bool) Verdict {
	if podspec.QOS(desired) != v1.PodQOSGuaranteed {
		return nil
	}
	containers := podspec.Containers(&allocated.Spec)
	for c := range podspec.Lasting(&desired.Spec) {
		had, _ := containers(c.Name)
		changed := func(name v1.ResourceName) bool {
			if had == nil {
				return true
			}
			before, now := had.Resources.Requests[name], c.Resources.Requests[name]
			return before.Cmp(now) != 0
		}
		switch {
		case cpus && changed(v1.ResourceCPU):
			return Refuse{`Resize is infeasible for Guaranteed Pods alongside CPU Manager policy "static"`,
				"guaranteed_pod_cpu_manager_static_policy"}
		case memory && changed(v1.ResourceMemory):
			return Refuse{`Resize is infeasible for Guaranteed Pods alongside Memory Manager policy "Static"`,
				"guaranteed_pod_memory_manager_static_policy"}
		}
	}
	return nil
}

// amount is in thousandths for CPU, in units for the rest.
func amount(name v1.ResourceName, q resource.Quantity) int64 {
	if name == v1.ResourceCPU {
		return q.MilliValue()
	}
	return q.Value()
}

// Pending is a resize that is not allocated (condition PodResizePending).
type Pending struct {
	// Reason is Deferred or Infeasible.
	Reason, Message string
	// Generation is that of the spec that asks for it.
	Generation int64
}

// Waiter is a pod that waits for a resize.
type Waiter struct {
	Desired, Allocated *v1.Pod
	Class              v1.PodQOSClass
	// Since is when it became pending; zero if it is not yet.
	Since time.Time
	// Rank is the order in which the pods arrived.
	Rank int64
}

// Order says which of two resizes is decided first: one that asks for no increase, then by higher
// priority, guaranteed pods first, and longer waiting time. (KEP-1287)
func Order(a, b Waiter) int {
	since := func(w Waiter) int64 {
		if w.Since.IsZero() {
			return 1<<63 - 1
		}
		return w.Since.UnixNano()
	}
	return cmp.Or(
		cmp.Compare(number(increases(a)), number(increases(b))),
		-cmp.Compare(priority(a.Desired), priority(b.Desired)),
		-cmp.Compare(number(a.Class == v1.PodQOSGuaranteed), number(b.Class == v1.PodQOSGuaranteed)),
		cmp.Compare(since(a), since(b)),
		cmp.Compare(a.Rank, b.Rank),
	)
}

func increases(w Waiter) bool {
	had, asked := podspec.Requests(w.Allocated), podspec.Requests(w.Desired)
	for _, name := range resources {
		want, has := asked[name], had[name]
		if want.Cmp(has) > 0 {
			return true
		}
	}
	return false
}

func priority(p *v1.Pod) int32 {
	if p.Spec.Priority == nil {
		return 0
	}
	return *p.Spec.Priority
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Describe is the message of a resize event: what happened, and as JSON the resources of the pod's
// containers, the generation that asks for them, and the problem, if there is one.
func Describe(what string, pod *v1.Pod, generation int64, problem string) string {
	type container struct {
		Name      string                  `json:"name"`
		Resources v1.ResourceRequirements `json:"resources"`
	}
	var d struct {
		Resources      *v1.ResourceRequirements `json:"resources,omitempty"`
		InitContainers []container              `json:"initContainers,omitempty"`
		Containers     []container              `json:"containers,omitempty"`
		Generation     int64                    `json:"generation"`
		Error          string                   `json:"error,omitempty"`
	}
	d.Resources, d.Generation, d.Error = pod.Spec.Resources, generation, problem
	for c, kind := range podspec.Lasting(&pod.Spec) {
		list := &d.InitContainers
		if kind == podspec.Main {
			list = &d.Containers
		}
		*list = append(*list, container{c.Name, c.Resources})
	}
	text, err := json.Marshal(d)
	if err != nil {
		return what
	}
	return what + ": " + string(text)
}
