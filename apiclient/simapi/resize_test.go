package simapi

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/troupe-dev/troupe/tests/check"
)

func cpu(q string) v1.ResourceRequirements {
	return v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(q)}}
}

// TestResizePod: only resources change, and not so that the pod is of another class.
func TestResizePod(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*v1.PodSpec)
		want   string
		gen    int64
	}{
		{"more", func(s *v1.PodSpec) { s.Containers[0].Resources = cpu("2") }, "", 2},
		{"nothing", func(s *v1.PodSpec) { s.Containers[0].Resources = cpu("1") }, "", 1},
		{"something else, which is left out", func(s *v1.PodSpec) { s.Containers[0].Image = "x:9"; s.NodeName = "n9" }, "", 1},
		{"another class", func(s *v1.PodSpec) {
			s.Containers[0].Resources.Limits = v1.ResourceList{v1.ResourceCPU: resource.MustParse("1"), v1.ResourceMemory: resource.MustParse("1")}
			s.Containers[0].Resources.Requests[v1.ResourceMemory] = resource.MustParse("1")
		}, "QOS Class may not change", 0},
		{"what was asked for is taken away", func(s *v1.PodSpec) {
			s.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceMemory: resource.MustParse("1")}
		}, "may not be removed", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newWorld(t, nil)
			p := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: "x:1", Resources: cpu("1")}}}}
			p.Namespace, p.Name = "default", "p"
			check.Value(s.Create(p))(t)
			got, err := s.ResizePod("default", "p", c.change)
			switch {
			case c.want == "" && err != nil, c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Fatalf("%v, want %q", err, c.want)
			case err == nil && (got.Generation != c.gen || got.Spec.Containers[0].Image != "x:1"):
				t.Errorf("generation %d, image %s", got.Generation, got.Spec.Containers[0].Image)
			}
		})
	}
	if _, err := newWorld(t, nil).ResizePod("default", "none", func(*v1.PodSpec) {}); err == nil {
		t.Error("one that is not there is resized")
	}
}
