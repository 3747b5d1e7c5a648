package volumeplan

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/troupe-dev/troupe/tests/check"
)

// limited gives containers a limit each; "" is none.
func limited(name v1.ResourceName, limits ...string) []v1.Container {
	var out []v1.Container
	for _, l := range limits {
		c := v1.Container{}
		if l != "" {
			c.Resources.Limits = v1.ResourceList{name: resource.MustParse(l)}
		}
		out = append(out, c)
	}
	return out
}

func TestSize(t *testing.T) {
	const mi = 1 << 20
	node := v1.ResourceList{v1.ResourceMemory: resource.MustParse("1Gi")}
	always := v1.ContainerRestartPolicyAlways
	for _, c := range []struct {
		name  string
		spec  v1.PodSpec
		limit string
		node  v1.ResourceList
		want  int64
	}{
		{"nothing is known", v1.PodSpec{Containers: limited("memory", "")}, "", nil, 0},
		{"the node", v1.PodSpec{Containers: limited("memory", "")}, "", node, 1024 * mi},
		{"its own", v1.PodSpec{Containers: limited("memory", "")}, "8Mi", node, 8 * mi},
		{"its own is not known better than the node", v1.PodSpec{Containers: limited("memory", "")}, "8Gi", node, 1024 * mi},
		{"0 is no limit", v1.PodSpec{Containers: limited("memory", "")}, "0", node, 1024 * mi},
		{"all containers", v1.PodSpec{Containers: limited("memory", "10Mi", "20Mi")}, "", node, 30 * mi},
		{"one has none", v1.PodSpec{Containers: limited("memory", "10Mi", "")}, "", node, 1024 * mi},
		{"the pod", v1.PodSpec{Containers: limited("memory", "10Mi", ""), Resources: &v1.ResourceRequirements{Limits: v1.ResourceList{"memory": resource.MustParse("40Mi")}}}, "", node, 40 * mi},
		{"an init container", v1.PodSpec{Containers: limited("memory", "10Mi"), InitContainers: limited("memory", "50Mi")}, "", node, 50 * mi},
		{"a sidecar", v1.PodSpec{Containers: limited("memory", "10Mi"), InitContainers: func() []v1.Container {
			l := limited("memory", "50Mi")
			l[0].RestartPolicy = &always
			return l
		}()}, "", node, 60 * mi},
		{"overhead", v1.PodSpec{Containers: limited("memory", "10Mi"), Overhead: v1.ResourceList{"memory": resource.MustParse("5Mi")}}, "", node, 15 * mi},
		{"the least of all", v1.PodSpec{Containers: limited("memory", "10Mi")}, "20Mi", node, 10 * mi},
	} {
		source := &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}
		if c.limit != "" {
			q := resource.MustParse(c.limit)
			source.SizeLimit = &q
		}
		check.Equal(t, EmptyDirSize(&v1.Pod{Spec: c.spec}, source, c.node), c.want, "%s", c.name)
	}
}

func TestPageSize(t *testing.T) {
	both := append(limited("hugepages-2Mi", "4Mi"), limited("hugepages-1Gi", "1Gi")...)
	for _, c := range []struct {
		medium     v1.StorageMedium
		containers []v1.Container
		want       int64
		err        string
	}{
		{"HugePages", limited("hugepages-2Mi", "4Mi"), 2 << 20, ""},
		{"HugePages-2Mi", both, 2 << 20, ""},
		{"HugePages-1Gi", both, 1 << 30, ""},
		{"HugePages", both, 0, "multiple huge page sizes"},
		{"HugePages", limited("memory", "4Mi"), 0, "no resource request for huge pages"},
		{"HugePages-1Gi", limited("hugepages-2Mi", "4Mi"), 0, "no resource request for huge pages"},
		{"HugePages-big", both, 0, `"big" is not a size of pages`},
	} {
		got, err := EmptyDirPageSize(&v1.Pod{Spec: v1.PodSpec{Containers: c.containers}}, c.medium)
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %d, %v; want %d, %q", c.medium, got, err, c.want, c.err)
		}
	}
}
