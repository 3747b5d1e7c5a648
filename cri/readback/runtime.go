package readback

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
)

// Runtime groups lists by pod, in the order of observed.Runtime.
func Runtime(sandboxes []*runtimeapi.PodSandbox, containers []*runtimeapi.Container) observed.Runtime {
	byUID := make(map[types.UID]*observed.RuntimePod, len(sandboxes))
	pod := func(ref observed.PodRef) *observed.RuntimePod {
		p, ok := byUID[ref.UID]
		if !ok {
			p = &observed.RuntimePod{Ref: ref}
			byUID[ref.UID] = p
		}
		return p
	}
	for _, s := range sandboxes {
		if got, ok := ListedSandbox(s); ok {
			p := pod(got.Pod)
			p.Sandboxes = append(p.Sandboxes, got)
		}
	}
	for _, c := range containers {
		if got, ok := ListedContainer(c); ok {
			p := pod(got.Pod)
			p.Containers = append(p.Containers, got)
		}
	}
	out := observed.Runtime{Pods: make([]observed.RuntimePod, 0, len(byUID))}
	for _, p := range byUID {
		p.Sort()
		out.Pods = append(out.Pods, *p)
	}
	slices.SortFunc(out.Pods, func(a, b observed.RuntimePod) int { return cmp.Compare(a.Ref.UID, b.Ref.UID) })
	return out
}
