package csi

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
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
	out, _ := MigrationNoted(&storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{
		Name: name, OwnerReferences: owned(name, uid),
	}})
	return out
}

// owned: it is deleted with its Node.
func owned(name string, uid types.UID) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: name, UID: uid}}
}

// Node is have with what drivers say, and whether that differs. A driver with a nil Info is removed; others stay. uid
// is that of the Node: one that is deleted and registers again has another, and what belongs to the old one is deleted.
func Node(have *storagev1.CSINode, uid types.UID, drivers map[string]*Info) (*storagev1.CSINode, bool) {
	noted, differs := MigrationNoted(have)
	out := *noted
	out.OwnerReferences = slices.DeleteFunc(slices.Clone(have.OwnerReferences), func(r metav1.OwnerReference) bool {
		return r.Kind == "Node"
	})
	out.OwnerReferences = append(out.OwnerReferences, owned(have.Name, uid)...)
	mine := slices.ContainsFunc(have.OwnerReferences, func(r metav1.OwnerReference) bool { return r.UID == uid }) &&
		len(have.OwnerReferences) == len(out.OwnerReferences)
	if mine {
		out.OwnerReferences = have.OwnerReferences
	}
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
	return &out, differs || !mine || !apiequality.Semantic.DeepEqual(before, out.Spec.Drivers)
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

// Refuse takes the drivers out of infos that can't be shown in the Node have, and notes why in refused. A driver's
// labels must agree with those that the Node has, and with those of the drivers before it in the order of their names.
func Refuse(have *v1.Node, infos map[string]*Info, refused map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(infos)) {
		info := infos[name]
		if info == nil {
			continue
		}
		err := check(name, info)
		if err == nil {
			var to *v1.Node
			if to, _, err = Labelled(have, map[string]*Info{name: info}); err == nil {
				have = to
				continue
			}
		}
		refused[name], infos[name] = err.Error(), nil
	}
}

const (
	// maxNodeID is the API's limit of the node ID of a driver in a CSINode, in bytes.
	maxNodeID = 256
	// maxTopology bounds the keys and values of one driver's topology, in bytes: they are labels of the Node, whose other
	// fields need room, too.
	maxTopology = 64 << 10
)

// check is why the apiserver would reject what a driver says; nil if it would not.
func check(name string, info *Info) error {
	if info.NodeID == "" {
		return fmt.Errorf("CSI driver %s has no node ID: NodeGetInfo has answered without one", name)
	}
	if len(info.NodeID) > maxNodeID {
		return fmt.Errorf("the node ID of CSI driver %s (NodeGetInfo) is longer than %d bytes", name, maxNodeID)
	}
	if !utf8.ValidString(info.NodeID) {
		return fmt.Errorf("the node ID of CSI driver %s (NodeGetInfo) is no UTF-8 text", name)
	}
	size := 0
	for k, value := range info.Topology { // order-free: a sum
		size += len(k) + len(value)
	}
	if size > maxTopology {
		return fmt.Errorf("the topology of CSI driver %s (NodeGetInfo) has %d bytes: more than %d can't be labels of a Node",
			name, size, maxTopology)
	}
	for _, k := range slices.Sorted(maps.Keys(info.Topology)) {
		if bad := validation.IsQualifiedName(k); len(bad) > 0 {
			return fmt.Errorf("the topology of CSI driver %s has the key %q, which can't be a label of a Node: %s", name, k,
				strings.Join(bad, "; "))
		}
		if bad := validation.IsValidLabelValue(info.Topology[k]); len(bad) > 0 {
			return fmt.Errorf("the topology of CSI driver %s has %s=%q, which can't be a label of a Node: %s", name, k,
				info.Topology[k], strings.Join(bad, "; "))
		}
	}
	return nil
}
