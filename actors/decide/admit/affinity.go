package admit

import (
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
)

// affinity checks nodeSelector and the required node affinity. The labels for operating system,
// architecture and host name have defaults.
func affinity(r *Request) *Rejection {
	no := predicate("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")
	for k, v := range r.Pod.Spec.NodeSelector { // order-free: all must match
		if got, ok := r.Node.label(k); !ok || got != v {
			return no
		}
	}
	a := r.Pod.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return nil
	}
	terms := a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	for i := range terms {
		if r.Node.matches(&terms[i]) {
			return nil
		}
	}
	return no
}

func (n *Node) label(key string) (string, bool) {
	if v, ok := n.Labels[key]; ok {
		return v, true
	}
	switch key {
	case v1.LabelOSStable:
		return n.OS, n.OS != ""
	case v1.LabelArchStable:
		return n.Arch, n.Arch != ""
	case v1.LabelHostname:
		return n.Name, n.Name != ""
	}
	return "", false
}

// matches says whether the node meets all requirements of a term. No node meets an empty term.
func (n *Node) matches(t *v1.NodeSelectorTerm) bool {
	if len(t.MatchExpressions) == 0 && len(t.MatchFields) == 0 {
		return false
	}
	for i := range t.MatchExpressions {
		v, ok := n.label(t.MatchExpressions[i].Key)
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
