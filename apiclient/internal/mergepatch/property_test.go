package mergepatch

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestApplies: applied to From, a patch gives To; applied to what another
// has changed meanwhile elsewhere, it gives both.
func TestApplies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from, to := someNode(t, "from"), someNode(t, "to")
		status := rapid.Bool().Draw(t, "status")
		changes := check.Value(Between(port.APIPatch{From: from, To: to, Status: status}, &v1.Node{}))(t)
		patch := check.Value(json.Marshal(changes))(t)
		want := from.DeepCopy()
		if status {
			want.Status = to.Status
		} else {
			want.Labels, want.Spec = to.Labels, to.Spec
		}
		asRead := func(n *v1.Node) *v1.Node { return applied(t, n, []byte(`{}`)) }
		if equality.Semantic.DeepEqual(asRead(want), asRead(from)) != (len(changes) == 0) { // another order is a change
			t.Fatalf("the changes are %s", patch)
		}
		if len(changes) == 0 {
			return
		}
		if got := applied(t, from, patch); !equality.Semantic.DeepEqual(canonical(t, got), canonical(t, want)) {
			t.Fatalf("patch %s gives\n%+v\nwant\n%+v", patch, got, want)
		}
		other := from.DeepCopy()
		other.Annotations = map[string]string{"other": "1"}
		other.Labels = maps.Clone(other.Labels)
		if other.Labels == nil {
			other.Labels = map[string]string{}
		}
		other.Labels["other"] = "1"
		other.Status.Conditions = append(other.Status.Conditions, v1.NodeCondition{Type: "Other", Status: v1.ConditionTrue})
		got := applied(t, other, patch)
		if got.Annotations["other"] != "1" || got.Labels["other"] != "1" || !slices.ContainsFunc(got.Status.Conditions, func(c v1.NodeCondition) bool { return c.Type == "Other" }) {
			t.Fatalf("patch %s takes away what another wrote: %+v", patch, got)
		}
	})
}

func someNode(t *rapid.T, name string) *v1.Node {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u"}}
	n.Labels = rapid.MapOf(rapid.SampledFrom([]string{"a", "b", "c"}), rapid.SampledFrom([]string{"1", "2"})).Draw(t, name+" labels")
	n.Spec.Unschedulable = rapid.Bool().Draw(t, name+" unschedulable")
	for _, key := range rapid.SliceOfNDistinct(rapid.IntRange(1, 4), 0, 4, rapid.ID[int]).Draw(t, name+" taints") {
		n.Spec.Taints = append(n.Spec.Taints, v1.Taint{Key: fmt.Sprint("k", key), Effect: v1.TaintEffectNoSchedule})
	}
	for _, key := range rapid.SliceOfNDistinct(rapid.IntRange(1, 4), 0, 4, rapid.ID[int]).Draw(t, name+" conditions") {
		n.Status.Conditions = append(n.Status.Conditions, v1.NodeCondition{
			Type: v1.NodeConditionType(fmt.Sprint("C", key)), Status: rapid.SampledFrom([]v1.ConditionStatus{"True", "False"}).Draw(t, "condition"),
		})
	}
	if cpu := rapid.IntRange(0, 3).Draw(t, name+" cpu"); cpu > 0 {
		n.Status.Capacity = v1.ResourceList{v1.ResourceCPU: resource.MustParse(fmt.Sprint(cpu))}
	}
	return n
}

// applied is what the apiserver makes of a patch.
func applied(t *rapid.T, o *v1.Node, patch []byte) *v1.Node {
	before := check.Value(json.Marshal(o))(t)
	after := check.Value(strategicpatch.StrategicMergePatch(before, patch, &v1.Node{}))(t)
	var got v1.Node
	check.Fatal(t, json.Unmarshal(after, &got))
	return &got
}

// canonical is a copy as JSON reads it, with lists that have keys in order.
func canonical(t *rapid.T, o *v1.Node) *v1.Node {
	c := applied(t, o, []byte(`{}`))
	slices.SortFunc(c.Status.Conditions, func(a, b v1.NodeCondition) int { return len(a.Type) - len(b.Type) + int(a.Type[1]) - int(b.Type[1]) })
	if len(c.Labels) == 0 {
		c.Labels = nil
	}
	c.Labels = maps.Clone(c.Labels)
	return c
}
