package resourcelist

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
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
		if got := Equal(c.a, c.b); got != c.want || Equal(c.b, c.a) != c.want {
			t.Errorf("%v and %v: %v, want %v", c.a, c.b, got, c.want)
		}
	}
}

func TestAddAndRaise(t *testing.T) {
	more := list("500m", "1Gi")
	sum := list("1", "")
	Add(sum, more)
	Raise(sum, list("2", "1Mi"))
	if want := list("2", "1Gi"); !Equal(sum, want) {
		t.Errorf("got %v, want %v", sum, want)
	}
	Add(sum, sum)
	if want := list("500m", "1Gi"); !Equal(more, want) {
		t.Errorf("what was added was changed: %v", more)
	}
}

func TestPeak(t *testing.T) {
	always := v1.ContainerRestartPolicyAlways
	c := func(cpu, memory string, restart *v1.ContainerRestartPolicy) v1.Container {
		return v1.Container{RestartPolicy: restart, Resources: v1.ResourceRequirements{Requests: list(cpu, memory)}}
	}
	for name, p := range map[string]struct {
		spec v1.PodSpec
		want v1.ResourceList
	}{
		"nothing":         {v1.PodSpec{}, list("", "")},
		"main containers": {v1.PodSpec{Containers: []v1.Container{c("1", "1Gi", nil), c("2", "", nil)}}, list("3", "1Gi")},
		"a larger start": {v1.PodSpec{Containers: []v1.Container{c("1", "4Gi", nil)},
			InitContainers: []v1.Container{c("2", "1Gi", nil), c("3", "", nil)}}, list("3", "4Gi")},
		"sidecars run on, and beside what starts after them": {v1.PodSpec{Containers: []v1.Container{c("1", "1Gi", nil)},
			InitContainers: []v1.Container{c("9", "", nil), c("4", "1Gi", &always), c("6", "3Gi", nil)}}, list("10", "4Gi")},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Peak(&p.spec, func(c *v1.Container) v1.ResourceList { return c.Resources.Requests }); !Equal(got, p.want) {
				t.Errorf("got %v, want %v", got, p.want)
			}
		})
	}
}
