package podspec

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/troupe-dev/troupe/tests/check"
)

func list(cpu, memory string) v1.ResourceList {
	out := v1.ResourceList{}
	for name, text := range map[v1.ResourceName]string{v1.ResourceCPU: cpu, v1.ResourceMemory: memory} {
		if text != "" {
			out[name] = resource.MustParse(text)
		}
	}
	return out
}

func TestEqual(t *testing.T) {
	for _, c := range []struct {
		a, b v1.ResourceList
		want bool
	}{
		{nil, nil, true},
		{nil, v1.ResourceList{}, true},
		{list("1", "1Gi"), list("1000m", "1024Mi"), true},
		{list("1", ""), list("2", ""), false},
		{list("1", ""), list("", "1"), false},
		{list("1", "1"), list("1", ""), false},
	} {
		if got := SameResources(c.a, c.b); got != c.want || SameResources(c.b, c.a) != c.want {
			t.Errorf("%v and %v: %v, want %v", c.a, c.b, got, c.want)
		}
	}
}

func TestAddAndRaise(t *testing.T) {
	more := list("500m", "1Gi")
	sum := list("1", "")
	AddResources(sum, more)
	RaiseResources(sum, list("2", "1Mi"))
	if want := list("2", "1Gi"); !SameResources(sum, want) {
		t.Errorf("got %v, want %v", sum, want)
	}
	AddResources(sum, sum)
	if want := list("500m", "1Gi"); !SameResources(more, want) {
		t.Errorf("what was added was changed: %v", more)
	}
}

func TestExtended(t *testing.T) {
	for name, want := range map[v1.ResourceName]bool{
		"nvidia.com/gpu": true, "example.com/dongle": true, "a.b/C_d.e-f": true,
		"cpu": false, "pods": false, "hugepages-2Mi": false, "gpu": false, "": false,
		"kubernetes.io/batch": false, "node.kubernetes.io/x": false, "requests.example.com/gpu": false,
		"example.com/": false, "/gpu": false, "example.com/gpu/x": false, "example.com/ä": false,
	} {
		check.Equal(t, IsExtended(name), want, "%q", name)
	}
}
