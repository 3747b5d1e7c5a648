package podspec

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/tests/check"
)

// TestKubeletHash has what a kubelet v1.36 wrote at its containers.
func TestKubeletHash(t *testing.T) {
	for want, c := range map[string]v1.Container{
		"83200b8e": {Name: "app", Image: "docker.io/library/busybox:latest", Command: []string{"sleep"}},
		"92c67021": {Name: "web", Image: "troupe.local/demo/web:v1", Stdin: true},
	} {
		check.Equal(t, KubeletHash(&c), want, "%s %s", c.Name, c.Image)
	}
}
