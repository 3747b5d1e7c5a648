package podspec

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/tests/check"
)

func source() *Downward {
	return &Downward{
		Pod: &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Name: "web", Namespace: "default", UID: "u1",
				Labels: map[string]string{"b": `say "hi"`, "a": "1"}, Annotations: map[string]string{"k/x": "v"},
			},
			Spec: v1.PodSpec{NodeName: "n1", Containers: []v1.Container{{Name: "app", Resources: v1.ResourceRequirements{
				Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("1500m")},
			}}}},
		},
		Allocatable: v1.ResourceList{v1.ResourceMemory: resource.MustParse("8Gi"), v1.ResourceCPU: resource.MustParse("4")},
	}
}

func TestField(t *testing.T) {
	for path, want := range map[string]string{
		"metadata.name": "web", "metadata.namespace": "default", "metadata.uid": "u1",
		"metadata.labels":             "a=\"1\"\nb=\"say \\\"hi\\\"\"",
		"metadata.annotations":        `k/x="v"`,
		"metadata.annotations['k/x']": "v",
		"metadata.labels['none']":     "",
		"spec.nodeName":               "n1",
	} {
		if got, err := source().Field(path); got != want || err != nil {
			t.Errorf("%s: %q, %v; want %q", path, got, err, want)
		}
	}
	for path, want := range map[string]string{
		"spec.containers": "unsupported fieldPath: spec.containers",
		"status.podIP":    "status.podIP is not known yet",
	} {
		if _, err := source().Field(path); err == nil || err.Error() != want {
			t.Errorf("%s: %v; want %q", path, err, want)
		}
	}
}

// A volume has no container of its own: it has to name one.
func TestResourceOfNamedContainer(t *testing.T) {
	ask := func(container, what, divisor string) (string, error) {
		return source().Resource(nil, &v1.ResourceFieldSelector{ContainerName: container, Resource: what, Divisor: resource.MustParse(divisor)})
	}
	for _, c := range []struct{ what, divisor, want string }{
		{"requests.cpu", "1", "2"},
		{"requests.cpu", "1m", "1500"},
		{"limits.memory", "1Mi", "8192"},
		{"limits.cpu", "0", "4"},
	} {
		if got, err := ask("app", c.what, c.divisor); got != c.want || err != nil {
			t.Errorf("%s by %s: %q, %v; want %q", c.what, c.divisor, got, err, c.want)
		}
	}
	if _, err := ask("other", "limits.cpu", "1"); err == nil || err.Error() != "resourceFieldRef: container other not found" {
		t.Error(err)
	}
	check.Fails(t, check.Err(ask("", "limits.cpu", "1")), "a volume named no container, and got an answer")
}
