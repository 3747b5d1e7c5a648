package podset

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/tests/linear"
)

// TestMany: what is looked at whenever a pod reports, or when the agent has just started, grows with its containers and
// no faster, whatever their order.
func TestMany(t *testing.T) {
	pod := func(n int) (*v1.Pod, *v1.PodStatus, observed.RuntimePod) {
		p, s, rp := made("a"), &v1.PodStatus{}, running(made("a"), 0)
		p.Spec.RestartPolicy = v1.RestartPolicyNever
		for i := range n {
			name := fmt.Sprintf("container-%05d", i)
			p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: name})
			s.ContainerStatuses = append(s.ContainerStatuses, v1.ContainerStatus{
				Name: name, State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{Reason: "Completed"}},
			})
			rp.Containers = append(rp.Containers, observed.Container{Name: name, State: observed.ContainerExited})
		}
		slices.Reverse(s.ContainerStatuses)
		return p, s, rp
	}
	for name, work := range map[string]func(n int) func(){
		"over": func(n int) func() {
			p, s, _ := pod(n)
			return func() { Over(p, s) }
		},
		"with those that are over": func(n int) func() {
			_, s, _ := pod(n)
			return func() { WithOver(s, s.ContainerStatuses) }
		},
		"down": func(n int) func() {
			p, _, rp := pod(n)
			return func() { Down(p, rp) }
		},
	} {
		t.Run(name, func(t *testing.T) { linear.Held(t, 500, work) })
	}
}
