package eviction

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/troupe-dev/troupe/tests/check"
)

// TestOffenders: what the message and the annotations say of who uses what is short.
func TestOffenders(t *testing.T) {
	const mib = 1 << 20
	quantity := func(name v1.ResourceName, text string) v1.ResourceList {
		return v1.ResourceList{name: resource.MustParse(text)}
	}
	c := func(name string, memory, logs, layer uint64) ContainerUse {
		return ContainerUse{Name: name, Memory: memory * mib, Logs: DiskUse{Bytes: logs * mib}, Layer: DiskUse{Bytes: layer * mib}}
	}
	base := func() *v1.Pod {
		always, requests := v1.ContainerRestartPolicyAlways, v1.ResourceRequirements{Requests: quantity(v1.ResourceMemory, "10Mi")}
		p := pod("web", 0, "")
		p.Spec.Containers = []v1.Container{{Name: "app", Resources: requests}, {Name: "log"}}
		p.Spec.InitContainers = []v1.Container{{Name: "setup"}, {Name: "proxy", RestartPolicy: &always, Resources: requests}}
		p.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debug"}}}
		return p
	}
	own := func(of v1.ResourceName) func(*v1.Pod) {
		return func(p *v1.Pod) { p.Spec.Resources = &v1.ResourceRequirements{Requests: quantity(of, "64Mi")} }
	}
	app := "Container app was using 11Mi, request is 10Mi, has larger consumption of memory. "
	for name, tc := range map[string]struct {
		signal            Signal
		change            func(*v1.Pod)
		use               Use
		text, annotations string
	}{
		"nobody": {
			MemoryAvailable, nil, Use{Containers: []ContainerUse{c("app", 10, 0, 0)}},
			"", "offending_containers= offending_containers_usage= starved_resource=memory",
		},
		"one": {
			MemoryAvailable, nil, Use{Containers: []ContainerUse{c("app", 11, 0, 0), c("log", 0, 0, 0)}},
			app, "offending_containers=app offending_containers_usage=11Mi starved_resource=memory",
		},
		"several, in the order in which they were measured": {
			AllocatableMemoryAvailable, nil,
			Use{Containers: []ContainerUse{c("proxy", 12, 0, 0), c("setup", 1, 0, 0), c("app", 11, 0, 0)}},
			"Container proxy was using 12Mi, request is 10Mi, has larger consumption of memory. " +
				"Container setup was using 1Mi, request is 0, has larger consumption of memory. " + app,
			"offending_containers=proxy,setup,app offending_containers_usage=12Mi,1Mi,11Mi starved_resource=memory",
		},
		"ephemeral containers and unknown ones are not blamed": {
			MemoryAvailable, nil, Use{Containers: []ContainerUse{c("debug", 99, 0, 0), c("gone", 99, 0, 0)}},
			"", "offending_containers= offending_containers_usage= starved_resource=memory",
		},
		"a pod with a request of its own": {
			MemoryAvailable, own(v1.ResourceMemory), Use{Memory: 70 * mib, Containers: []ContainerUse{c("app", 11, 0, 0)}},
			"Pod web was using 70Mi, request is 64Mi, has larger consumption of memory. " + app,
			"offending_pod=web offending_pod_usage=70Mi offending_containers=app offending_containers_usage=11Mi starved_resource=memory",
		},
		"also if it uses less": {
			MemoryAvailable, own(v1.ResourceMemory), Use{Memory: 7 * mib},
			"Pod web was using 7Mi, request is 64Mi, has larger consumption of memory. ",
			"offending_pod=web offending_pod_usage=7Mi offending_containers= offending_containers_usage= starved_resource=memory",
		},
		"its own request is for something else": {
			MemoryAvailable, own(v1.ResourceCPU), Use{Memory: 70 * mib},
			"", "offending_containers= offending_containers_usage= starved_resource=memory",
		},
		"disk: logs and layers": {
			NodeFSAvailable, own(v1.ResourceEphemeralStorage), Use{Memory: 70 * mib, Containers: []ContainerUse{c("app", 11, 2, 3), c("log", 11, 0, 0)}},
			"Container app was using 5Mi, request is 0, has larger consumption of ephemeral-storage. ",
			"offending_containers=app offending_containers_usage=5Mi starved_resource=ephemeral-storage",
		},
		"inodes": {
			ImageFSInodesFree, nil, Use{Containers: []ContainerUse{c("app", 11, 2, 3)}},
			"", "offending_containers= offending_containers_usage= starved_resource=inodes",
		},
		"processes": {
			PIDAvailable, own(v1.ResourceMemory), Use{Processes: 9, Memory: 70 * mib, Containers: []ContainerUse{c("app", 11, 2, 3)}},
			"", "offending_containers= offending_containers_usage= starved_resource=pids",
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := base()
			if tc.change != nil {
				tc.change(p)
			}
			s := Shortage{Threshold: Threshold{Signal: tc.signal, Hard: true}}
			v, is := (&Policy{}).Choose(&s, &Reading{}, []*v1.Pod{p}, []Use{tc.use}, t0)
			if !is {
				t.Fatal("nobody is evicted")
			}
			if _, text, _ := strings.Cut(v.Stop.Message, "available: 0. "); text != tc.text {
				t.Errorf("message %q, want %q", text, tc.text)
			}
			var got []string
			for _, a := range v.Annotations {
				got = append(got, fmt.Sprint(a.Key, "=", a.Value))
			}
			check.Equal(t, strings.Join(got, " "), tc.annotations, "annotations")
		})
	}
}
