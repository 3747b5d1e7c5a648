package volumeplan

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/nodeobject"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// ErrNodeUnknown is why a volume waits whose place depends on the labels of a Node that is not known yet.
var ErrNodeUnknown = errors.New("the Node object is not known yet")

// errElsewhere is said with the words of the kubelet.
var errElsewhere = errors.New("no matching NodeSelectorTerms")

// Barred is why a PersistentVolume may not be brought to a node: its nodeAffinity. node is nil while it is not known. A
// volume that is there already stays.
func Barred(pv *v1.PersistentVolume, node *v1.Node) error {
	if pv == nil || pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil {
		return nil
	}
	if node == nil {
		return ErrNodeUnknown
	}
	n := nodeobject.Node{Label: func(key string) (string, bool) { v, is := node.Labels[key]; return v, is }}
	if !n.Match(pv.Spec.NodeAffinity.Required.NodeSelectorTerms) {
		return errElsewhere
	}
	return nil
}

// ErrTaken is why a volume waits that one pod at a time may have, in the words of the kubelet.
var ErrTaken = errors.New("volume uses the ReadWriteOncePod access mode and is already in use by another pod")

// Alone is the name of a PersistentVolume that only one pod at a time may have (access mode ReadWriteOncePod), and that
// this node mounts once for all pods; empty for others. CSI volumes have a rule of their own (decide/csi).
func (m *Mount) Alone() string {
	pv := m.Persistent
	if pv == nil || !slices.Equal(pv.Spec.AccessModes, []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}) ||
		pv.Spec.Local == nil && pv.Spec.ISCSI == nil && pv.Spec.FC == nil {
		return ""
	}
	return pv.Name
}

// Shown is the name of a volume in events: that of its PersistentVolume, if it has one.
func (m *Mount) Shown() string {
	switch {
	case m.Persistent != nil:
		return m.Persistent.Name
	case m.CSI != nil && m.CSI.Name != "":
		return m.CSI.Name
	}
	return m.Name
}

// Reason is that of the event when it is not there: a device is mapped, and a file system is mounted. err is why it is
// not, nil for unknown: of one that is not for this node a kubelet says FailedMount in either case.
func (m *Mount) Reason(err error) string {
	if podspec.IsDevice(m.Persistent) && !errors.Is(err, errElsewhere) {
		return "FailedMapVolume"
	}
	return "FailedMount"
}

// Failed is the message of an event, in the words of the kubelet: why the volume is not there. missing are the names of
// all volumes of the pod that are not there.
func (m *Mount) Failed(err error, why string, missing []string) string {
	step := "SetUp"
	switch {
	case m.Unprocessed:
		return fmt.Sprintf("Unable to attach or mount volumes: unmounted volumes=[%s], unattached volumes=[], "+
			"failed to process volumes=[%s]: %s", strings.Join(missing, " "), m.Name, why)
	case errors.Is(err, errElsewhere):
		return fmt.Sprintf("%s.NodeAffinity check failed for volume %q : %s", m.verb(), m.Shown(), why)
	case podspec.IsDevice(m.Persistent) && why == ErrTaken.Error():
		step = "SetUpDevice"
	case podspec.IsDevice(m.Persistent):
		step = "MapPodDevice"
	}
	return fmt.Sprintf("%s.%s failed for volume %q : %s", m.verb(), step, m.Shown(), why)
}

func (m *Mount) verb() string {
	if podspec.IsDevice(m.Persistent) {
		return "MapVolume"
	}
	return "MountVolume"
}
