package csi

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Info is what a driver says of this node (NodeGetInfo).
type Info struct {
	NodeID string
	// MaxVolumes is how many of its volumes can be attached; 0 or less: no limit.
	MaxVolumes int64
	Topology   map[string]string
}

// NodeIDs is the annotation of a Node with the IDs that drivers have for it.
const NodeIDs = "csi.volume.kubernetes.io/nodeid"

// NewNode is the CSINode of a node without drivers.
func NewNode(name string, uid types.UID) *storagev1.CSINode {
	return &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{
		Name: name, OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: name, UID: uid}},
	}}
}

// Node is have with what drivers say, and whether that differs. A driver with a nil Info is removed; others stay.
func Node(have *storagev1.CSINode, drivers map[string]*Info) (*storagev1.CSINode, bool) {
	out := *have
	out.Spec.Drivers = slices.DeleteFunc(slices.Clone(have.Spec.Drivers), func(d storagev1.CSINodeDriver) bool {
		_, known := drivers[d.Name]
		return known
	})
	for _, name := range slices.Sorted(maps.Keys(drivers)) {
		info := drivers[name]
		if info == nil {
			continue
		}
		d := storagev1.CSINodeDriver{Name: name, NodeID: info.NodeID, TopologyKeys: slices.Sorted(maps.Keys(info.Topology))}
		if info.MaxVolumes > 0 {
			count := int32(min(info.MaxVolumes, math.MaxInt32)) //nolint:gosec // bounded
			d.Allocatable = &storagev1.VolumeNodeResources{Count: &count}
		}
		out.Spec.Drivers = append(out.Spec.Drivers, d)
	}
	slices.SortFunc(out.Spec.Drivers, func(a, b storagev1.CSINodeDriver) int { return compare(a.Name, b.Name) })
	before := slices.Clone(have.Spec.Drivers)
	slices.SortFunc(before, func(a, b storagev1.CSINodeDriver) int { return compare(a.Name, b.Name) })
	return &out, !apiequality.Semantic.DeepEqual(before, out.Spec.Drivers)
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	default:
		return 0
	}
}

// Labelled is the Node with what drivers say: the annotation with their IDs, and their topology as labels. It fails for
// a label that has another value already.
func Labelled(have *v1.Node, drivers map[string]*Info) (*v1.Node, bool, error) {
	ids := map[string]string{}
	if text := have.Annotations[NodeIDs]; text != "" {
		if err := json.Unmarshal([]byte(text), &ids); err != nil {
			return nil, false, fmt.Errorf("annotation %s of the Node is no JSON object of strings: %w", NodeIDs, err)
		}
		if ids == nil {
			ids = map[string]string{}
		}
	}
	before, labels := maps.Clone(ids), maps.Clone(have.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	for _, name := range slices.Sorted(maps.Keys(drivers)) {
		info := drivers[name]
		if info == nil {
			delete(ids, name)
			continue
		}
		ids[name] = info.NodeID
		for _, k := range slices.Sorted(maps.Keys(info.Topology)) {
			if was, is := labels[k]; is && was != info.Topology[k] {
				return nil, false, fmt.Errorf("topology of CSI driver %s has %s=%s, but the Node has the label %s=%s",
					name, k, info.Topology[k], k, was)
			}
			labels[k] = info.Topology[k]
		}
	}
	if maps.Equal(before, ids) && maps.Equal(labels, have.Labels) {
		return have, false, nil
	}
	out := *have
	out.Labels, out.Annotations = labels, maps.Clone(have.Annotations)
	if out.Annotations == nil {
		out.Annotations = map[string]string{}
	}
	if len(ids) == 0 {
		delete(out.Annotations, NodeIDs)
		return &out, true, nil
	}
	text, err := json.Marshal(ids)
	if err != nil {
		return nil, false, err
	}
	out.Annotations[NodeIDs] = string(text)
	return &out, true, nil
}

// Conflicts is why what one driver says can't be shown beside what the Node has; nil if it can.
func Conflicts(have *v1.Node, name string, info *Info) error {
	if info.NodeID == "" {
		return fmt.Errorf("CSI driver %s has no node ID: NodeGetInfo has answered without one", name)
	}
	_, _, err := Labelled(have, map[string]*Info{name: info})
	return err
}
