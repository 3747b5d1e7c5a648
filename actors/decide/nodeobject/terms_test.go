package nodeobject

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/tests/check"
)

// TestMatch is about several terms. What one asks is tested with what asks: actors/decide/admit and volumeplan.
func TestMatch(t *testing.T) {
	labels := map[string]string{"zone": "a", "rank": "5"}
	node := Node{Name: "n1", Label: func(key string) (string, bool) { v, is := labels[key]; return v, is }}
	expr := func(key string, op v1.NodeSelectorOperator, values ...string) v1.NodeSelectorTerm {
		return v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{{Key: key, Operator: op, Values: values}}}
	}
	field := func(key, value string) v1.NodeSelectorTerm {
		return v1.NodeSelectorTerm{MatchFields: []v1.NodeSelectorRequirement{
			{Key: key, Operator: v1.NodeSelectorOpIn, Values: []string{value}},
		}}
	}
	for _, c := range []struct {
		name  string
		terms []v1.NodeSelectorTerm
		want  bool
	}{
		{"no term", nil, false},
		{"an empty term", []v1.NodeSelectorTerm{{}}, false},
		{"one of two", []v1.NodeSelectorTerm{expr("zone", v1.NodeSelectorOpIn, "b"), expr("rank", v1.NodeSelectorOpGt, "4")}, true},
		{"none of two", []v1.NodeSelectorTerm{expr("zone", v1.NodeSelectorOpIn, "b"), expr("rank", v1.NodeSelectorOpLt, "5")}, false},
		{"by name", []v1.NodeSelectorTerm{field("metadata.name", "n1")}, true},
		{"by another name", []v1.NodeSelectorTerm{field("metadata.name", "n2")}, false},
		{"another field", []v1.NodeSelectorTerm{field("spec.providerID", "n1")}, false},
		{"an unknown operator", []v1.NodeSelectorTerm{expr("zone", "Near", "a")}, false},
	} {
		check.Equal(t, node.Match(c.terms), c.want, "%s", c.name)
	}
}
