package pods_test

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/assignments"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/pods"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestStartOfManyPods: each is checked once before it asks for its CPUs, and once with the answer.
func TestStartOfManyPods(t *testing.T) {
	const n = 60
	r := newRig(t, 0, func(r *rig) {
		r.places = &pods.Places{
			Place: func(m assignments.Place) {
				r.AfterFunc(time.Millisecond, func() { r.actor.Tell(gives(m.Number, m.Pod.UID, 0, "", nil)) })
			},
			Release: func(types.UID) {}, Living: func(map[types.UID]bool) {},
		}
	})
	var list []*v1.Pod
	for i := range n {
		list = append(list, made(fmt.Sprint("p", i)))
	}
	r.tells(node, r.listed(""), has(podspec.File, ""), wants(podspec.API, list...))
	r.Advance(time.Second)
	for i, p := range list {
		if _, checked := r.beside[p.Name]; !checked {
			t.Errorf("pod %d was not checked", i)
		}
	}
	check.AtMost(t, r.checks, 2*n, "%d checks of admission for %d pods, want at most %d", r.checks, n, 2*n)
}

// TestPlaceOfWhatIsAllocated: a pod whose resize was refused keeps what it has after a restart of the agent.
func TestPlaceOfWhatIsAllocated(t *testing.T) {
	r := newRig(t, 0, resizable, placing, func(r *rig) {
		r.places.Place = func(m assignments.Place) {
			r.Say("assignments: %s CPUs", m.Pod.Spec.Containers[0].Resources.Limits.Cpu())
		}
	})
	p, had := guaranteed("4", 2), guaranteed("2", 1).Spec.Containers[0].Resources
	p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "app", AllocatedResources: had.Requests, Resources: &had}}
	r.tells(r.listed("a"), has(podspec.File, ""), wants(podspec.API, p))
	r.want("it is placed", []string{"assignments:"}, "assignments: 2 CPUs", "assignments: a live")
}
