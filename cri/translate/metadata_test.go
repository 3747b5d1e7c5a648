package translate

import (
	"testing"

	v1 "k8s.io/api/core/v1"
)

// TestKubeletHash has what a kubelet v1.36 wrote at its containers.
func TestKubeletHash(t *testing.T) {
	for want, c := range map[string]v1.Container{
		"83200b8e": {Name: "app", Image: "docker.io/library/busybox:latest", Command: []string{"sleep"}},
		"92c67021": {Name: "web", Image: "troupe.local/demo/web:v1", Stdin: true},
	} {
		if got, err := kubeletHash(&c); err != nil || got != want {
			t.Errorf("%s %s: %q, %v, want %q", c.Name, c.Image, got, err, want)
		}
	}
}
