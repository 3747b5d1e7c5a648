package admit

import (
	"cmp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// Preempt says which pods must end so that a critical pod fits on the node, because no other pod of it is as
// important. ok is false if the pod is not critical, is not rejected for a resource, or would not fit in the place
// of all of them either. The victims may be none. resource is the first one that the node has too little of.
//
// check is the rejection of the pod beside others, and must not reject it beside fewer pods for more. leaving says of a
// pod that it is being stopped: its place is free soon, and costs nothing.
//
// The rest are grouped by class and priority. A group gives up pods only if all lower groups together are not enough
// (BestEffort is the lowest class), and then the fewest; of as many, those that request the least memory, then the
// least CPU. No victim goes without need.
func Preempt(
	pod *v1.Pod, others []*v1.Pod, leaving func(*v1.Pod) bool, check func(others []*v1.Pod) *Rejection,
) (victims []*v1.Pod, resource v1.ResourceName, ok bool) {
	why := check(others)
	if why == nil || !OutOf(why) || !podspec.Critical(pod) {
		return nil, "", false
	}
	var stay, candidates []*v1.Pod
	for _, o := range others {
		switch {
		case leaving(o) || podspec.Finished(o):
		case preemptable(pod, o):
			candidates = append(candidates, o)
		default:
			stay = append(stay, o)
		}
	}
	if check(stay) != nil {
		return nil, "", false
	}
	slices.SortStableFunc(candidates, lastToGo)
	for len(candidates) > 0 {
		n := 1
		for n < len(candidates) && lastToGo(candidates[0], candidates[n]) == 0 {
			n++
		}
		kept, gone := fewest(candidates[:n], func(kept []*v1.Pod) *Rejection {
			return check(append(slices.Clip(stay), kept...))
		})
		stay, victims, candidates = append(stay, kept...), append(victims, gone...), candidates[n:]
	}
	return victims, v1.ResourceName(strings.TrimPrefix(why.Reason, outOfPrefix)), true
}

// preemptable says whether a critical pod may take the place of another.
func preemptable(pod, other *v1.Pod) bool {
	if !podspec.Critical(other) {
		return true
	}
	// A static pod without a priority is as important as any.
	return pod.Spec.Priority != nil && other.Spec.Priority != nil && *pod.Spec.Priority > *other.Spec.Priority
}

// lastToGo orders pods by class and then by priority, the highest first.
func lastToGo(a, b *v1.Pod) int {
	return cmp.Or(cmp.Compare(rank(b), rank(a)), cmp.Compare(podspec.Priority(b), podspec.Priority(a)))
}

func rank(p *v1.Pod) int {
	switch podspec.Class(p) {
	case v1.PodQOSGuaranteed:
		return 2
	case v1.PodQOSBurstable:
		return 1
	case v1.PodQOSBestEffort:
	}
	return 0
}

const outOfPrefix = "OutOf"

// OutOf says whether a pod was rejected because the node has too little of a resource.
func OutOf(r *Rejection) bool { return strings.HasPrefix(r.Reason, outOfPrefix) }
