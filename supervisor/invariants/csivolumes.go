package invariants

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/supervisor/sim/machine"
)

// csiVolumes is what has been seen of the volumes of CSI drivers of one node.
type csiVolumes struct {
	// driven: a driver was asked for something.
	driven bool
	// staged and published are what drivers have mounted.
	staged    map[csi.Key]*csi.Stage
	published map[csi.Target]csi.Key
	// attach are the drivers whose volumes are attached before they are used.
	attach map[string]bool
	// inUse is what the Node in the API names; elsewhere are the nodes that volumes are attached to, this one excepted.
	inUse     []v1.UniqueVolumeName
	elsewhere map[csi.Key]string
}

// Attaches: volumes of the driver are attached by a controller before they are used.
func (n *Node) Attaches(driver string) {
	if n.volumes.attach == nil {
		n.volumes.attach = map[string]bool{}
	}
	n.volumes.attach[driver] = true
}

// Driven: a CSI driver is asked for something, or has done it.
func (n *Node) Driven(c machine.CSIChange) {
	p := n.pods[c.Target.Pod]
	for i := range rules {
		if f := rules[i].driven; f != nil {
			if what := f(n, p, &c); what != "" {
				n.violated(&rules[i], p, what)
			}
		}
	}
	n.volumes.changed(&c)
}

// changed takes in what a driver has done.
func (v *csiVolumes) changed(c *machine.CSIChange) {
	if !v.driven {
		v.driven, v.staged, v.published = true, map[csi.Key]*csi.Stage{}, map[csi.Target]csi.Key{}
	}
	if !c.Worked {
		return
	}
	switch c.Op {
	case csi.StageVolume:
		v.staged[c.Key] = c.Stage
	case csi.UnstageVolume:
		delete(v.staged, c.Key)
	case csi.PublishVolume:
		v.published[c.Target] = c.Key
	case csi.UnpublishVolume:
		delete(v.published, c.Target)
	case csi.Attachment, csi.ExpandVolume:
	}
}

// LostPower: the machine has lost what only its kernel had.
func (n *Node) LostPower() {
	clear(n.volumes.staged)
	clear(n.volumes.published)
}

// Attached: a VolumeAttachment says that a volume is attached to another node; to none if the name is empty.
func (n *Node) Attached(k csi.Key, other string) {
	v := &n.volumes
	if other != "" && v.elsewhere[k] == "" && v.mounted(k) {
		n.violated(&attachedHere, nil, fmt.Sprintf("volume %s is attached to node %s, and mounted here", k, other))
	}
	if v.elsewhere == nil {
		v.elsewhere = map[csi.Key]string{}
	}
	v.elsewhere[k] = other
}

// mounted: a driver has the volume staged or published.
func (v *csiVolumes) mounted(k csi.Key) bool { return v.staged[k] != nil || v.user(k) != "" }

// user is a pod that a volume is published for, empty for none.
func (v *csiVolumes) user(k csi.Key) types.UID {
	for t, of := range v.published { // order-free: any
		if of == k {
			return t.Pod
		}
	}
	return ""
}

// of is how many volumes are published for a pod.
func (v *csiVolumes) of(uid types.UID) (count int) {
	for t := range v.published { // order-free: a count
		if t.Pod == uid {
			count++
		}
	}
	return count
}

// claims are how many claims a pod has.
func claims(s *v1.PodSpec) int {
	var names []string
	for i := range s.Volumes {
		if c := s.Volumes[i].PersistentVolumeClaim; c != nil && !slices.Contains(names, c.ClaimName) {
			names = append(names, c.ClaimName)
		}
	}
	return len(names)
}

// csiNodeShown is each version of the Node in the API.
func (n *Node) csiNodeShown(of *v1.Node) {
	v := &n.volumes
	v.inUse = of.Status.VolumesInUse
	if len(v.attach) == 0 || !n.restoredAt.IsZero() && n.now().Sub(n.restoredAt) < recovery {
		return
	}
	for k := range v.staged { // order-free: any is an error
		if v.attach[k.Driver] && !slices.Contains(v.inUse, k.UniqueName()) {
			n.violated(&attachedHere, nil, fmt.Sprintf("volume %s is staged, and status.volumesInUse does not name it", k))
		}
	}
}

// CSIVolumes compares, of a node at rest, what there is of the volumes of CSI drivers with what its pods need. uses are
// the volumes that a pod has which is to run, by its UID: the names of its PersistentVolumes. node is the Node in the
// API, and attached says whether volumes of a driver are attached before they are used. It says what is wrong, empty
// for nothing.
func CSIVolumes(
	disk *machine.CSI, node *v1.Node, uses map[types.UID][]string, attached func(driver string) bool,
) string {
	published := map[csi.Key]bool{}
	has := map[types.UID]int{}
	staged := map[csi.Key]bool{}
	for _, p := range disk.Places() {
		switch {
		case !p.Mounted:
			return fmt.Sprintf("volume %s has a directory and notes for pod %q, and is not mounted", p.Key, p.Target.Pod)
		case p.Target.Pod == "":
			staged[p.Key] = true
		case !slices.Contains(uses[p.Target.Pod], p.Target.Name):
			return fmt.Sprintf("volume %s is published for pod %s, which does not need it", p.Key, p.Target.Pod)
		default:
			published[p.Key] = true
			has[p.Target.Pod]++
		}
	}
	for uid, names := range uses { // order-free: any is an error
		if has[uid] != len(names) {
			return fmt.Sprintf("pod %s needs the volumes %v, and %d are published", uid, names, has[uid])
		}
	}
	var used []v1.UniqueVolumeName
	for k := range staged { // order-free: sorted, and any is an error
		if !published[k] {
			return fmt.Sprintf("volume %s is staged, and no pod needs it", k)
		}
	}
	for k := range published { // order-free: sorted
		if attached(k.Driver) {
			used = append(used, k.UniqueName())
		}
	}
	slices.Sort(used)
	if node != nil && !slices.Equal(used, node.Status.VolumesInUse) {
		return fmt.Sprintf("status.volumesInUse is %v, and in use are %v", node.Status.VolumesInUse, used)
	}
	return ""
}
