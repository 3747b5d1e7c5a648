package podset_test

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/assignments"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/podset"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestStartOfManyPods: each is checked once before it asks for its CPUs, and once with the answer.
func TestStartOfManyPods(t *testing.T) {
	const n = 60
	r := newRig(t, 0, func(r *rig) {
		r.places = &podset.Places{
			Place: func(m assignments.Place) {
				r.AfterFunc(time.Millisecond, func() { r.actor.Tell(gives(m.Number, m.Pod.UID, 0, "", nil)) })
			},
			Refused: func(assignments.Refused) {}, Release: func(types.UID) {}, Living: func(map[types.UID]bool) {},
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

// TestDevicesOfWhatEnds: a container that runs with devices nobody knows gets others when it has ended, and when there are
// some.
func TestDevicesOfWhatEnds(t *testing.T) {
	r := newRig(t, 0, placing, func(r *rig) {
		r.places.Place = func(m assignments.Place) {
			r.Say("assignments: %s/%d runs %v, down %v", m.Pod.UID, m.Number, m.Runs, m.Down)
		}
	})
	p := made("a")
	p.Spec.Containers = []v1.Container{{Name: "c"}, {Name: "other"}}
	list := r.listed("a")
	list.Runtime.Pods[0].Containers = []observed.Container{{Name: "c", State: observed.ContainerRunning}}
	r.tells(node, list, has(podspec.API, ""), wants(podspec.File, p))
	r.want("it runs", []string{"assignments: a/"}, "assignments: a/1 runs true, down [other]")
	answer := func(version uint64, unknown ...string) podset.Placed {
		m := gives(1, "a", 0, "", nil)
		m.Version, m.Pods[0].Unknown = version, map[string]string{}
		for _, name := range unknown {
			m.Pods[0].Unknown[name] = "nobody knows"
		}
		return m
	}
	r.tells(answer(1, "c"))
	report := reports("a", v1.PodRunning, 0)
	report.Status.ContainerStatuses = []v1.ContainerStatus{{
		Name: "c", State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "CreateContainerConfigError"}},
	}}
	r.Forget()
	r.tells(report, report)
	r.want("it has ended", []string{"assignments: a/"}, "assignments: a/1 runs true, down [c other]")
	r.tells(answer(1, "c"), report)
	r.want("there are none", []string{"assignments: a/"})
	free := answer(2)
	free.Pods = nil
	r.tells(free, free)
	r.want("something became free", []string{"assignments: a/"}, "assignments: a/1 runs true, down [c other]")
	r.Forget()
	r.tells(answer(2), report)
	r.want("its actor is told, once", []string{"assignments: a/", "a:"}, "a: assign, look, status Running")
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
