package imagepull_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestHeld: users find the container by the field path of an event. (kubelet/kuberuntime/kuberuntime_manager.go)
func TestHeld(t *testing.T) {
	container := func(name string, volumes ...string) v1.Container {
		c := v1.Container{Name: name}
		for _, v := range volumes {
			c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: v})
		}
		return c
	}
	pod := &v1.Pod{Spec: v1.PodSpec{
		InitContainers: []v1.Container{container("setup", "data", "tools"), container("proxy", "tools")},
		Containers:     []v1.Container{container("app", "data", "models"), container("web", "models")},
	}}
	for name, want := range map[string][]string{
		"app":                              {"app"},
		imagepull.VolumeImage("models"):    {"app", "web"},
		imagepull.VolumeImage("data"):      {"setup"},
		imagepull.VolumeImage("tools"):     {"setup"},
		imagepull.VolumeImage("of-nobody"): nil,
	} {
		check.Same(t, imagepull.Held(pod, name), want, "%s", name)
	}
}
