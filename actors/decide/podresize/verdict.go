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

// Verdict is what a node says to a resize.
//
//sumtype:decl
type Verdict interface{ isVerdict() }

type (
	// Allocate: the pod is given what it asks for.
	Allocate struct{}
	// Defer: it can't be given that now. It is asked for again when something is freed.
	Defer struct{ Message string }
	// Refuse: it can never be given that here.
	Refuse struct{ Message string }
)

func (Allocate) isVerdict() {}
func (Defer) isVerdict()    {}
func (Refuse) isVerdict()   {}

// resources are those that a pod can be resized in.
var resources = [...]v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory}

// Decide says whether a pod is given what it asks for. allocated is the pod with
// what it has, others are those beside it with what they have. What does not ask
// for more is always given, on a node that is overcommitted too.
func Decide(desired, allocated *v1.Pod, others []*v1.Pod, allocatable v1.ResourceList) Verdict {
	if was, is := podspec.QOS(allocated), podspec.QOS(desired); was != is {
		return Refuse{fmt.Sprintf("the pod's QoS class can't change from %s to %s", was, is)}
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
					amount(name, have)),
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
			full = &Defer{fmt.Sprintf("Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d",
				name, amount(name, want), amount(name, used), amount(name, have))}
		}
	}
	if full != nil {
		return *full
	}
	return Allocate{}
}

// amount is in thousandths for CPU, in units for the rest.
func amount(name v1.ResourceName, q resource.Quantity) int64 {
	if name == v1.ResourceCPU {
		return q.MilliValue()
	}
	return q.Value()
}

// Pending is a resize that is asked for and not given (condition PodResizePending).
type Pending struct {
	// Reason is Deferred or Infeasible.
	Reason, Message string
	// Generation is that of the spec that asks.
	Generation int64
}

// Waiter is a pod that asks for a resize.
type Waiter struct {
	Desired, Allocated *v1.Pod
	Class              v1.PodQOSClass
	// Since is when it began to be pending; zero if it did not yet.
	Since time.Time
	// Rank is the order in which pods came.
	Rank int64
}

// Order says which of two pods is asked first: one that asks for no more than it
// has, the one of the higher priority, the guaranteed one, the one that waits for
// longer. (KEP-1287)
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

// Describe is what an event says of a resize: what it is about in words, and the
// resources of the pod's containers as JSON, with the generation that asks for
// them and what is wrong, if anything is.
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
