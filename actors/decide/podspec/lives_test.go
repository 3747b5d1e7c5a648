package podspec_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestLives: a container that waits for its postStart hook is told from one that waits to be made, or made again.
func TestLives(t *testing.T) {
	spec := &v1.PodSpec{Containers: []v1.Container{{Name: "plain"}, {Name: "hooked", Lifecycle: &v1.Lifecycle{PostStart: &v1.LifecycleHandler{}}}}}
	waits := v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "ContainerCreating"}}
	ended := func(id string) v1.ContainerState {
		return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ContainerID: id}}
	}
	for name, c := range map[string]struct {
		s    v1.ContainerStatus
		want bool
	}{
		"runs":                     {v1.ContainerStatus{Name: "plain", ContainerID: "1", State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}, true},
		"was made":                 {v1.ContainerStatus{Name: "plain", ContainerID: "1", State: waits}, false},
		"ended":                    {v1.ContainerStatus{Name: "hooked", ContainerID: "1", State: ended("1")}, false},
		"its hook runs":            {v1.ContainerStatus{Name: "hooked", ContainerID: "1", State: waits}, true},
		"its hook runs, once more": {v1.ContainerStatus{Name: "hooked", ContainerID: "2", State: waits, LastTerminationState: ended("1")}, true},
		"could not be started": {v1.ContainerStatus{
			Name: "hooked", ContainerID: "1", State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "RunContainerError"}},
		}, false},
		"was not made":                            {v1.ContainerStatus{Name: "hooked", State: waits}, false},
		"waits to be made again":                  {v1.ContainerStatus{Name: "hooked", ContainerID: "1", State: waits, LastTerminationState: ended("1")}, false},
		"is in no spec, as of a pod that is gone": {v1.ContainerStatus{Name: "other", ContainerID: "1", State: waits}, false},
	} {
		t.Run(name, func(t *testing.T) {
			check.Equal(t, podspec.Lives(spec, &c.s), c.want, "it lives")
		})
	}
}
