package sim

import (
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/troupe-dev/troupe/supervisor/sim/controlplane"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestCgroups: pods of a node that has them are in them, also over the loss of its
// power, and leave none.
func TestCgroups(t *testing.T) {
	w := newWorld(t, 0)
	nodes := check.Value(w.AddNodes(1, NodeSpec{Cgroups: true}))(t)
	n := nodes[0]
	w.Advance(5 * time.Second)
	app := controlplane.Workload{Name: "app", Replicas: 10, Template: v1.PodTemplateSpec{Spec: v1.PodSpec{Containers: []v1.Container{{
		Name: "app", Image: "registry.test/app:1",
		Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("250m")}},
	}}}}}
	check.Fatal(t, w.ControlPlane().Apply(app))
	inside := func() int {
		return len(slices.DeleteFunc(paths(n), func(p string) bool { return !strings.HasPrefix(p, "/kubepods/burstable/pod") }))
	}
	running := func() bool { return w.Metrics().PodsRunning == 10 }
	w.until(t, time.Minute, "all run", running)
	w.Advance(time.Second)
	if got := n.Cgroups()["/kubepods/burstable"].CPUShares; inside() != 10 || got != 2560 {
		t.Errorf("%d pods have cgroups, and their class %d shares; want 10 and 2560", inside(), got)
	}
	n.PowerOff()
	check.None(t, paths(n), "without power there")
	n.PowerOn()
	w.until(t, time.Minute, "all run again", func() bool { return running() && inside() == 10 })
	app.Replicas = 0
	check.Fatal(t, w.ControlPlane().Apply(app))
	w.until(t, 2*time.Minute, "no pod has one", func() bool { return inside() == 0 })
}

func paths(n *Node) []string {
	var out []string
	for path := range n.Cgroups() {
		out = append(out, path)
	}
	return out
}
