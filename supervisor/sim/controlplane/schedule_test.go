package controlplane

import (
	"container/heap"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/tests/check"
)

func testPlace(order int, cpu, memory string, change ...func(*v1.Node)) *candidate {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"zone": "a"}}}
	for _, f := range change {
		f(n)
	}
	return &candidate{node: n, order: order, have: demand{cpu: ofQuantity(cpu, true), memory: ofQuantity(memory, false), pods: 10}}
}

func ofQuantity(s string, milli bool) int64 {
	q := resource.MustParse(s)
	if milli {
		return q.MilliValue()
	}
	return q.Value()
}

func asks(cpu, memory string) *v1.Pod {
	return &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{
		v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory),
	}}}}}}
}

func TestDemand(t *testing.T) {
	p := asks("100m", "64Mi")
	always := v1.ContainerRestartPolicyAlways
	sidecar, init := asks("50m", "1Mi").Spec.Containers[0], asks("300m", "1Mi").Spec.Containers[0]
	sidecar.RestartPolicy = &always
	p.Spec.InitContainers = []v1.Container{sidecar, init}
	p.Spec.Overhead = v1.ResourceList{v1.ResourceCPU: resource.MustParse("5m")}
	check.Deep(t, of(p), (demand{cpu: 355, memory: 65 << 20, pods: 1}), "got")
}

func TestPick(t *testing.T) {
	selector := asks("1", "1Gi")
	selector.Spec.NodeSelector = map[string]string{"zone": "b"}
	gpus := asks("1", "1Gi")
	gpus.Spec.Containers[0].Resources.Requests["example.com/gpu"] = resource.MustParse("2")
	withGPUs := func(p *candidate, n, used int64) *candidate {
		p.have.extended = map[v1.ResourceName]int64{"example.com/gpu": n}
		p.used.extended = map[v1.ResourceName]int64{"example.com/gpu": used}
		return p
	}
	tolerant := asks("1", "1Gi")
	tolerant.Spec.Tolerations = []v1.Toleration{{Operator: v1.TolerationOpExists}}
	cordoned := func(n *v1.Node) { n.Spec.Unschedulable = true }
	tainted := func(n *v1.Node) { n.Spec.Taints = []v1.Taint{{Key: "k", Effect: v1.TaintEffectNoSchedule}} }
	soft := func(n *v1.Node) {
		n.Spec.Taints = []v1.Taint{{Key: "k", Effect: v1.TaintEffectPreferNoSchedule}}
	}
	zone := func(n *v1.Node) { n.Labels["zone"] = "b" }
	used := func(p *candidate, cpu int64) *candidate { p.used.cpu = cpu; return p }
	for name, c := range map[string]struct {
		pod   *v1.Pod
		nodes []*candidate
		want  int // order of the node, -1 for none
		why   string
	}{
		"emptiest":       {asks("1", "1Gi"), []*candidate{used(testPlace(0, "4", "8Gi"), 2000), used(testPlace(1, "4", "8Gi"), 1000)}, 1, ""},
		"first of equal": {asks("1", "1Gi"), []*candidate{testPlace(1, "4", "8Gi"), testPlace(0, "4", "8Gi")}, 0, ""},
		"one that fits":  {asks("3", "1Gi"), []*candidate{testPlace(0, "2", "8Gi"), used(testPlace(1, "4", "8Gi"), 1000)}, 1, ""},
		"none":           {asks("3", "1Gi"), []*candidate{testPlace(0, "2", "8Gi"), testPlace(1, "4", "512Mi")}, -1, "0/2 nodes are available: 1 Insufficient cpu, 1 Insufficient memory."},
		"no node":        {asks("3", "1Gi"), nil, -1, "0/0 nodes are available."},
		"cordoned":       {asks("1", "1Gi"), []*candidate{testPlace(0, "4", "8Gi", cordoned)}, -1, "0/1 nodes are available: 1 node(s) were unschedulable."},
		"tainted":        {asks("1", "1Gi"), []*candidate{testPlace(0, "4", "8Gi", tainted)}, -1, "0/1 nodes are available: 1 node(s) had untolerated taint(s)."},
		"tolerated":      {tolerant, []*candidate{testPlace(0, "4", "8Gi", tainted, cordoned)}, 0, ""},
		"rather not":     {asks("1", "1Gi"), []*candidate{testPlace(0, "4", "8Gi", soft)}, 0, ""},
		"selector":       {selector, []*candidate{testPlace(0, "4", "8Gi"), testPlace(1, "4", "8Gi", zone)}, 1, ""},
		"devices":        {gpus, []*candidate{testPlace(0, "8", "8Gi"), withGPUs(testPlace(1, "4", "8Gi"), 4, 3), withGPUs(testPlace(2, "4", "8Gi"), 4, 2)}, 2, ""},
		"no devices":     {gpus, []*candidate{testPlace(0, "8", "8Gi"), withGPUs(testPlace(1, "4", "8Gi"), 4, 3)}, -1, "0/2 nodes are available: 2 Insufficient example.com/gpu."},
		"no such zone":   {selector, []*candidate{testPlace(0, "4", "8Gi")}, -1, "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."},
	} {
		t.Run(name, func(t *testing.T) {
			var h candidates
			for _, p := range c.nodes {
				heap.Push(&h, p)
			}
			got, why := h.pick(c.pod, of(c.pod), nil)
			if order := orderOf(got); order != c.want || why != c.why {
				t.Errorf("got node %d, %q; want %d, %q", order, why, c.want, c.why)
			}
			check.Equal(t, h.Len(), len(c.nodes), "%d of %d nodes are left", h.Len(), len(c.nodes))
		})
	}
}

func orderOf(p *candidate) int {
	if p == nil {
		return -1
	}
	return p.order
}

// Whatever is placed fits, and nothing is refused that a scan would place.
func TestPickFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h candidates
		var all []*candidate
		for i := range rapid.IntRange(1, 8).Draw(t, "nodes") {
			p := &candidate{node: &v1.Node{}, order: i, have: demand{
				cpu: rapid.Int64Range(0, 4000).Draw(t, "cpu"), memory: 1 << 30, pods: rapid.Int64Range(0, 6).Draw(t, "pods"),
				extended: map[v1.ResourceName]int64{"example.com/gpu": rapid.Int64Range(0, 8).Draw(t, "GPUs")},
			}}
			all = append(all, p)
			heap.Push(&h, p)
		}
		for range rapid.IntRange(1, 30).Draw(t, "pods") {
			d := demand{cpu: rapid.Int64Range(0, 1500).Draw(t, "asks"), pods: 1}
			if n := rapid.Int64Range(0, 4).Draw(t, "asks for GPUs"); n > 0 {
				d.extended = map[v1.ResourceName]int64{"example.com/gpu": n}
			}
			fits := false
			for _, p := range all {
				fits = fits || d.fits(p.have.minus(p.used))
			}
			p, why := h.pick(&v1.Pod{}, d, nil)
			if (p != nil) != fits || (why == "") != fits {
				t.Fatalf("%+v: picked %v, %q; a scan says %v", d, p, why, fits)
			}
			if p != nil {
				p.used = p.used.plus(d)
				h.fix(p)
			}
		}
	})
}
