package admit

import (
	"testing"

	v1 "k8s.io/api/core/v1"
)

// TestByLabels: when only the labels of the node are why a pod is refused, so that a newer Node may change that.
func TestByLabels(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*world)
		reason string
		alone  bool
	}{
		"the labels alone": {func(*world) {}, "NodeAffinity", true},
		"required affinity": {func(w *world) {
			w.pod.Spec.NodeSelector = nil
			require(w.pod, v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{{
				Key: "disk", Operator: v1.NodeSelectorOpIn, Values: []string{"tape"},
			}}})
		}, "NodeAffinity", true},
		"and the node is full": {func(w *world) { w.node.Allocatable = list("pods", "10") }, "OutOfcpu", false},
		"and a port is taken": {func(w *world) {
			port(w.pod, "", 80, v1.ProtocolTCP)
			port(w.other("b"), "", 80, v1.ProtocolTCP)
		}, "NodeAffinity", false},
		"and a taint": {func(w *world) {
			w.node.Taints = []v1.Taint{{Key: "out", Effect: v1.TaintEffectNoExecute}}
		}, "NodeAffinity", false},
		"and the name of another node": {func(w *world) { w.pod.Spec.NodeName = "n2" }, "NodeAffinity", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{pod: basePod("a"), node: baseNode()}
			w.pod.Spec.NodeSelector = map[string]string{"disk": "tape"}
			c.change(w)
			no := Check(w.pod, w.others, w.node)
			if no == nil || no.Reason != c.reason || no.ByLabels != c.alone {
				t.Errorf("got %+v, want %s, by labels %v", no, c.reason, c.alone)
			}
		})
	}
}
