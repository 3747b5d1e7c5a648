package podspec_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

func resources(cpu, memory string) v1.ResourceList {
	out := v1.ResourceList{}
	for name, text := range map[v1.ResourceName]string{v1.ResourceCPU: cpu, v1.ResourceMemory: memory} {
		if text != "" {
			out[name] = resource.MustParse(text)
		}
	}
	return out
}

func TestPeak(t *testing.T) {
	always := v1.ContainerRestartPolicyAlways
	c := func(cpu, memory string, restart *v1.ContainerRestartPolicy) v1.Container {
		return v1.Container{RestartPolicy: restart, Resources: v1.ResourceRequirements{Requests: resources(cpu, memory)}}
	}
	for name, p := range map[string]struct {
		spec v1.PodSpec
		want v1.ResourceList
	}{
		"nothing":         {v1.PodSpec{}, resources("", "")},
		"main containers": {v1.PodSpec{Containers: []v1.Container{c("1", "1Gi", nil), c("2", "", nil)}}, resources("3", "1Gi")},
		"a larger start": {v1.PodSpec{Containers: []v1.Container{c("1", "4Gi", nil)},
			InitContainers: []v1.Container{c("2", "1Gi", nil), c("3", "", nil)}}, resources("3", "4Gi")},
		"sidecars run on, and beside what starts after them": {v1.PodSpec{Containers: []v1.Container{c("1", "1Gi", nil)},
			InitContainers: []v1.Container{c("9", "", nil), c("4", "1Gi", &always), c("6", "3Gi", nil)}}, resources("10", "4Gi")},
	} {
		t.Run(name, func(t *testing.T) {
			if got := podspec.Peak(&p.spec, func(c *v1.Container) v1.ResourceList { return c.Resources.Requests }); !podspec.SameResources(got, p.want) {
				t.Errorf("got %v, want %v", got, p.want)
			}
		})
	}
}
