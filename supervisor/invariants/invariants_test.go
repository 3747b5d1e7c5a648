package invariants

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/observed"
)

// pod is one that keeps every invariant.
func pod(uid types.UID) observed.RuntimePod {
	return observed.RuntimePod{
		Ref: observed.PodRef{Namespace: "default", Name: "web", UID: uid},
		Pod: observed.Pod{Sandboxes: []observed.Sandbox{{ID: "s1", Attempt: 1, State: observed.SandboxReady}, {ID: "s0"}},
			Containers: []observed.Container{
				{ID: "i", Name: "init", State: observed.ContainerExited, StartedAt: time.Unix(1, 0)},
				{ID: "p", Name: "proxy", State: observed.ContainerRunning, StartedAt: time.Unix(2, 0)},
				{ID: "a", Name: "app", State: observed.ContainerRunning, StartedAt: time.Unix(3, 0)},
			}},
	}
}

var always = v1.ContainerRestartPolicyAlways

var spec = v1.PodSpec{
	InitContainers: []v1.Container{{Name: "init"}, {Name: "proxy", RestartPolicy: &always}},
	Containers:     []v1.Container{{Name: "app"}},
}

// TestEachFindsItsViolation: a good pod passes all, and one change is found.
func TestEachFindsItsViolation(t *testing.T) {
	one := func(check func(*observed.RuntimePod) string) func([]observed.RuntimePod) string {
		return func(pods []observed.RuntimePod) string { return check(&pods[0]) }
	}
	order := one(func(p *observed.RuntimePod) string { return InOrder(&spec, p, &p.Containers[len(p.Containers)-1]) })
	cgroups := func(pods []observed.RuntimePod) string { return Cgroups(pods, []types.UID{"1"}) }
	for name, c := range map[string]struct {
		check  func([]observed.RuntimePod) string
		change func([]observed.RuntimePod) []observed.RuntimePod
	}{
		"two ready sandboxes": {one(OneSandbox), func(p []observed.RuntimePod) []observed.RuntimePod {
			p[0].Sandboxes[1].State = observed.SandboxReady
			return p
		}},
		"a container twice": {one(RunsOnce), func(p []observed.RuntimePod) []observed.RuntimePod {
			p[0].Containers[1].Name = "app"
			return p
		}},
		"another UID": {OneUID, func(p []observed.RuntimePod) []observed.RuntimePod { return append(p, pod("2")) }},
		"init has failed": {order, func(p []observed.RuntimePod) []observed.RuntimePod {
			p[0].Containers[0].ExitCode = 1
			return p
		}},
		"init is not there": {order, func(p []observed.RuntimePod) []observed.RuntimePod {
			p[0].Containers = p[0].Containers[1:]
			return p
		}},
		"sidecar was not started": {order, func(p []observed.RuntimePod) []observed.RuntimePod {
			p[0].Containers[1].StartedAt = time.Time{}
			return p
		}},
		"a pod without a cgroup": {cgroups, func(p []observed.RuntimePod) []observed.RuntimePod { return append(p, pod("2")) }},
		"a cgroup without a pod": {cgroups, func([]observed.RuntimePod) []observed.RuntimePod { return nil }},
	} {
		if wrong := c.check([]observed.RuntimePod{pod("1")}); wrong != "" {
			t.Errorf("%s: a good pod: %s", name, wrong)
		}
		if c.check(c.change([]observed.RuntimePod{pod("1")})) == "" {
			t.Errorf("%s: not found", name)
		}
	}
	if !InUse([]observed.RuntimePod{pod("1")}, "1") || InUse([]observed.RuntimePod{pod("1")}, "2") {
		t.Error("a pod is in use while a container of it runs")
	}
}
