package assignments_test

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/assignments"
	"github.com/troupe-dev/troupe/actors/decide/devices"
	"github.com/troupe-dev/troupe/actors/decide/topology"
)

// BenchmarkPlace is what it costs to give a pod four CPUs and two devices, from the pod's question until the answer, and to
// take them back. Disk and plugin answer at once.
func BenchmarkPlace(b *testing.B) {
	r := newRig(b, plugged, func(r *rig) {
		r.rules.Machine = &topology.Machine{Nodes: []topology.Node{{}}}
		for id := range 64 {
			r.rules.Machine.CPUs = append(r.rules.Machine.CPUs, topology.CPU{ID: id, Core: id / 2})
		}
	})
	r.disk()
	ids := make([]string, 8)
	for i := range ids {
		ids[i] = fmt.Sprint("gpu-", i)
	}
	r.offers(devices.Options{}, ids...)
	r.Forget()
	pod := asks("pod", "4").Pod
	pod.Spec.Containers[0].Resources.Limits[gpu] = resource.MustParse("2") // the map of the requests, too
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		one := pod.DeepCopy()
		one.UID = types.UID(fmt.Sprint("pod-", n))
		r.tells(assignments.Place{Pod: one})
		for r.plugin.answers.Kept() > 0 {
			r.plugin.answers.Release(0)
			r.Advance(time.Millisecond)
		}
		r.disk()
		r.tells(assignments.Release{UID: one.UID})
		r.disk()
		r.want("each has the same", "plugin: allocate [gpu-0 gpu-1]", fmt.Sprintf("pods: %s c 2-5 c devices; shared 0-1,6-63", one.UID))
		r.Forget()
	}
}
