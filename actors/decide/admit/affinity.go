package admit

import (
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/nodeobject"
)

// affinity checks nodeSelector and the required node affinity. The labels for operating system,
// architecture and host name have defaults.
func affinity(r *Request) *Rejection {
	no := predicate("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")
	no.ByLabels = nodeName(r) == nil && hostPorts(r) == nil && taints(r) == nil
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
	if (nodeobject.Node{Name: r.Node.Name, Label: r.Node.label}).Match(terms) {
		return nil
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
