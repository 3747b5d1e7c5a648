package nodeobject

import (
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
)

// Node is what terms ask about.
type Node struct {
	Name string
	// Label is the value of a label, if the node has it.
	Label func(key string) (string, bool)
}

// Match says whether the node meets one of the terms.
func (n Node) Match(terms []v1.NodeSelectorTerm) bool {
	return slices.ContainsFunc(terms, func(t v1.NodeSelectorTerm) bool { return n.matches(&t) })
}

// matches says whether the node meets all requirements of a term. No node meets an empty term.
func (n Node) matches(t *v1.NodeSelectorTerm) bool {
	if len(t.MatchExpressions) == 0 && len(t.MatchFields) == 0 {
		return false
	}
	for i := range t.MatchExpressions {
		v, ok := n.Label(t.MatchExpressions[i].Key)
		if !meets(&t.MatchExpressions[i], v, ok) {
			return false
		}
	}
	for i := range t.MatchFields {
		// The only supported field is metadata.name.
		if t.MatchFields[i].Key != "metadata.name" || !meets(&t.MatchFields[i], n.Name, true) {
			return false
		}
	}
	return true
}

func meets(r *v1.NodeSelectorRequirement, value string, exists bool) bool {
	switch r.Operator {
	case v1.NodeSelectorOpIn:
		return exists && slices.Contains(r.Values, value)
	case v1.NodeSelectorOpNotIn:
		return !exists || !slices.Contains(r.Values, value)
	case v1.NodeSelectorOpExists:
		return exists
	case v1.NodeSelectorOpDoesNotExist:
		return !exists
	case v1.NodeSelectorOpGt, v1.NodeSelectorOpLt:
		if !exists || len(r.Values) != 1 {
			return false
		}
		got, err1 := strconv.ParseInt(value, 10, 64)
		want, err2 := strconv.ParseInt(r.Values[0], 10, 64)
		if err1 != nil || err2 != nil {
			return false
		}
		return r.Operator == v1.NodeSelectorOpGt && got > want || r.Operator == v1.NodeSelectorOpLt && got < want
	default:
		return false
	}
}
