package nodeobject

import (
	"maps"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubelet/pkg/apis"
)

// Annotations of a node that controllers look for.
const (
	// AttachesVolumes: the attach-detach controller attaches the volumes of this node.
	AttachesVolumes = "volumes.kubernetes.io/controller-managed-attach-detach"
	// ProvidedIP has the addresses of --node-ip for the controller of a cloud (k8s.io/cloud-provider/api).
	ProvidedIP = "alpha.kubernetes.io/provided-node-ip"
)

// always are the labels that nobody else may change while the agent runs: what a program can run on does not change.
var always = [...]string{v1.LabelOSStable, v1.LabelArchStable}

// atStart are the labels that say what the machine is and where it stands. An agent that starts sets them again, as it
// may have been configured anew; those of them that it does not know are others'.
var atStart = [...]string{
	v1.LabelHostname, v1.LabelTopologyZone, v1.LabelTopologyRegion, v1.LabelFailureDomainBetaZone,
	v1.LabelFailureDomainBetaRegion, v1.LabelInstanceTypeStable, v1.LabelInstanceType, apis.LabelOS, apis.LabelArch,
}

// Meta is a node that is there already with the metadata and spec that the agent keeps, and whether that differs from
// have. All other labels and annotations are others' to change, also those that it was registered with (--node-labels):
// what an operator has changed is not undone. starts: the agent has not met this node before.
func Meta(own *Own, have *v1.Node, starts bool) (*v1.Node, bool) {
	labels, annotations := edit{of: have.Labels}, edit{of: have.Annotations}
	for _, key := range always {
		labels.keep(own.Labels, key)
	}
	annotations.same(own.Annotations, ProvidedIP)
	if starts {
		for _, key := range atStart {
			if v, known := own.Labels[key]; known && v == "" {
				labels.same(nil, key)
			}
			labels.keep(own.Labels, key)
		}
		annotations.same(own.Annotations, AttachesVolumes)
	}
	provider := have.Spec.ProviderID == "" && own.ProviderID != ""
	if !labels.changed && !annotations.changed && !provider {
		return have, false
	}
	n := *have
	n.Labels, n.Annotations = labels.of, annotations.of
	if provider {
		n.Spec.ProviderID = own.ProviderID
	}
	return &n, true
}

// edit is a map that is copied before its first change.
type edit struct {
	of      map[string]string
	changed bool
}

// keep sets what want has for a key, if it has anything.
func (e *edit) keep(want map[string]string, key string) {
	if want[key] != "" {
		e.same(want, key)
	}
}

// same sets what want has for a key, and deletes what it does not have.
func (e *edit) same(want map[string]string, key string) {
	v, wanted := want[key]
	if old, is := e.of[key]; is == wanted && old == v {
		return
	}
	if !e.changed {
		e.of, e.changed = maps.Clone(e.of), true
	}
	switch {
	case !wanted:
		delete(e.of, key)
	case e.of == nil:
		e.of = map[string]string{key: v}
	default:
		e.of[key] = v
	}
}
