package podresize_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/troupe-dev/troupe/actors/decide/podresize"
	"github.com/troupe-dev/troupe/tests/check"
)

func TestChanges(t *testing.T) {
	of := func(cpu, memory, limit string) *v1.Pod {
		r := v1.ResourceRequirements{Requests: list(cpu, memory)}
		if limit != "" {
			r.Limits = v1.ResourceList{v1.ResourceMemory: resource.MustParse(limit)}
		}
		return &v1.Pod{Spec: v1.PodSpec{
			InitContainers: []v1.Container{{Name: "sidecar", Resources: r}}, Containers: []v1.Container{{Name: "other"}},
		}}
	}
	change := func(name v1.ResourceName, requirement, operation string) podresize.Change {
		return podresize.Change{Resource: name, Requirement: requirement, Operation: operation}
	}
	for _, c := range []struct {
		name     string
		old, now *v1.Pod
		want     []podresize.Change
	}{
		{"nothing", of("1", "1Gi", "2Gi"), of("1000m", "1024Mi", "2Gi"), nil},
		{"more and less", of("1", "1Gi", ""), of("2", "512Mi", ""),
			[]podresize.Change{change("cpu", "requests", "increase"), change("memory", "requests", "decrease")}},
		{"a limit", of("1", "1Gi", ""), of("1", "1Gi", "2Gi"), []podresize.Change{change("memory", "limits", "add")}},
		{"a limit of nothing", of("1", "1Gi", ""), of("1", "1Gi", "0"), nil},
		{"no limit", of("1", "1Gi", "2Gi"), of("1", "1Gi", ""), []podresize.Change{change("memory", "limits", "remove")}},
		{"another container", &v1.Pod{}, of("1", "1Gi", ""), nil},
	} {
		check.Same(t, podresize.Changes(c.old, c.now), c.want, "%s", c.name)
	}
}
