package gc

import (
	"fmt"
	"testing"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/linear"
)

// TestOldestLogs: of each container the oldest incarnation that there is counts;
// before the first there is nothing to remove.
func TestOldestLogs(t *testing.T) {
	container := func(name string, attempt uint32) observed.Container {
		return observed.Container{Name: name, Attempt: attempt}
	}
	web := observed.RuntimePod{Ref: observed.PodRef{Namespace: "default", Name: "web", UID: "u2"}}
	web.Containers = []observed.Container{container("b", 0), container("app", 7), container("app", 6), container("b", 3), container("app", 9)}
	one := observed.RuntimePod{Ref: observed.PodRef{Namespace: "default", Name: "one", UID: "u1"}}
	one.Containers = []observed.Container{container("app", 2)}
	got := oldestLogs(observed.Runtime{Pods: []observed.RuntimePod{web, one, {Ref: observed.PodRef{UID: "u3"}}}})
	want := []port.LogRef{
		{Namespace: "default", Pod: "one", UID: "u1", Container: "app", Attempt: 2},
		{Namespace: "default", Pod: "web", UID: "u2", Container: "app", Attempt: 6},
	}
	check.Same(t, got, want, "got")
}

// TestOldestLogsOfMany: a pod may have thousands of containers.
func TestOldestLogsOfMany(t *testing.T) {
	linear.Held(t, 500, func(n int) func() {
		list := observed.Runtime{Pods: make([]observed.RuntimePod, 1)}
		for i := range n {
			list.Pods[0].Containers = append(list.Pods[0].Containers, observed.Container{Name: fmt.Sprintf("c%05d", i), Attempt: 1})
		}
		return func() { check.Equal(t, len(oldestLogs(list)), n, "logs") }
	})
}
