package controlplane

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/actors/decide/podobjects"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/apiclient/simapi"
)

const (
	// selectedNode is the annotation in which the scheduler tells a provisioner where the pod of a claim is to run.
	selectedNode = "volume.kubernetes.io/selected-node"
	// protection keeps a claim that is deleted until no pod uses it (pvc-protection controller).
	protection = "kubernetes.io/pvc-protection"
)

// used is a claim that a pod names; claim is nil if there is none.
type used struct {
	name  string
	claim *v1.PersistentVolumeClaim
}

func hasClaims(p *v1.Pod) bool {
	for i := range p.Spec.Volumes {
		if podobjects.ClaimName(p, &p.Spec.Volumes[i]) != "" {
			return true
		}
	}
	return false
}

// claimsOf are the claims of a pod's volumes.
func (s *storage) claimsOf(p *v1.Pod) (out []used) {
	for i := range p.Spec.Volumes {
		if name := podobjects.ClaimName(p, &p.Spec.Volumes[i]); name != "" {
			out = append(out, used{name, s.claims[types.NamespacedName{Namespace: p.Namespace, Name: name}]})
		}
	}
	return out
}

// volumeOf is the volume that a claim is bound to, nil if it is not.
func (s *storage) volumeOf(c *v1.PersistentVolumeClaim) *v1.PersistentVolume {
	if c == nil || c.Status.Phase != v1.ClaimBound {
		return nil
	}
	v := s.volumes[c.Spec.VolumeName]
	if v == nil || v.Spec.ClaimRef == nil || v.Spec.ClaimRef.UID != c.UID {
		return nil
	}
	return v
}

// keyOfVolume is the volume of a CSI driver, false for another one.
func keyOfVolume(v *v1.PersistentVolume) (csi.Key, bool) {
	if v.Spec.CSI == nil {
		return csi.Key{}, false
	}
	return csi.Key{Driver: v.Spec.CSI.Driver, Handle: v.Spec.CSI.VolumeHandle}, true
}

func (s *storage) volumeByKey(k csi.Key) *v1.PersistentVolume { return s.volumes[s.names[k]] }

// shared reports whether several nodes may have a volume at once.
func shared(v *v1.PersistentVolume) bool {
	return slices.ContainsFunc(v.Spec.AccessModes, func(m v1.PersistentVolumeAccessMode) bool {
		return m == v1.ReadWriteMany || m == v1.ReadOnlyMany
	})
}

func (s *storage) seeVolume(e simapi.Event) {
	v := e.Object.(*v1.PersistentVolume)
	s.changes++
	if e.Type == simapi.Deleted {
		delete(s.volumes, v.Name)
		if k, is := keyOfVolume(v); is && s.names[k] == v.Name {
			delete(s.names, k)
		}
		return
	}
	s.know(v)
	if r := v.Spec.ClaimRef; r != nil {
		s.wake(types.NamespacedName{Namespace: r.Namespace, Name: r.Name})
		if c := s.claims[types.NamespacedName{Namespace: r.Namespace, Name: r.Name}]; c != nil && c.UID == r.UID {
			s.serve(c)
		}
	}
}

func (s *storage) know(v *v1.PersistentVolume) {
	s.volumes[v.Name] = v
	if k, is := keyOfVolume(v); is {
		s.names[k] = v.Name
	}
	for _, name := range slices.Sorted(maps.Keys(s.early)) {
		if o := s.early[name]; *o.Spec.Source.PersistentVolumeName == v.Name {
			delete(s.early, name)
			s.seeAttachment(simapi.Event{Type: simapi.Added, Object: o})
		}
	}
}

// seeClaim follows a claim:
//
//	Pending ──(selected node, if its driver has a topology)──► made ──► Bound ──asks for more──► expanded ──► Bound
//	any ──deleted, and no pod uses it──► gone ──► its volume is deleted, once it is detached
func (s *storage) seeClaim(e simapi.Event) {
	c := e.Object.(*v1.PersistentVolumeClaim)
	key := types.NamespacedName{Namespace: c.Namespace, Name: c.Name}
	s.changes++
	if e.Type == simapi.Deleted {
		delete(s.claims, key)
		s.wake(key)
		if v := s.volumes[c.Spec.VolumeName]; v != nil {
			s.reclaim(v)
		}
		return
	}
	s.claims[key] = c
	s.serve(c)
	for _, uid := range slices.Sorted(maps.Keys(s.unclear)) {
		s.arrive(s.unclear[uid])
	}
	s.wake(key)
}

// serve does what is to be done about a claim.
func (s *storage) serve(c *v1.PersistentVolumeClaim) {
	v := s.volumes[c.Spec.VolumeName]
	switch {
	case c.DeletionTimestamp != nil:
		s.remove(c)
	case c.Status.Phase == v1.ClaimBound && v != nil:
		s.grow(c, v)
	case c.Spec.VolumeName == "":
		s.provision(c)
	case v != nil && (v.Spec.ClaimRef == nil || v.Spec.ClaimRef.UID == c.UID || v.Spec.ClaimRef.UID == ""):
		s.bind(c, v)
	}
}

// driverOf makes the volumes of a claim; nil if no driver does.
func (s *storage) driverOf(c *v1.PersistentVolumeClaim) (string, *StorageDriver) {
	if c.Spec.StorageClassName == nil {
		return "", nil
	}
	return *c.Spec.StorageClassName, s.drivers[*c.Spec.StorageClassName]
}

// provision has a volume made for a claim.
func (s *storage) provision(c *v1.PersistentVolumeClaim) {
	name, d := s.driverOf(c)
	if d == nil || s.busy[c.UID] {
		return
	}
	where := ""
	if d.Topology != "" {
		n := s.nodeOf(c.Annotations[selectedNode])
		if n == nil || n.Labels[d.Topology] == "" {
			return // the scheduler chooses
		}
		where = n.Labels[d.Topology]
	}
	s.busy[c.UID] = true
	s.after(d.Provision.Sample(s.rand), func() {
		delete(s.busy, c.UID)
		now := s.claims[types.NamespacedName{Namespace: c.Namespace, Name: c.Name}]
		if now == nil || now.UID != c.UID || now.DeletionTimestamp != nil || now.Spec.VolumeName != "" {
			return
		}
		v, err := s.cp.api.Create(newVolume(now, name, d.Topology, where))
		if err != nil {
			panic(fmt.Sprintf("controlplane: make a volume for PVC %s/%s: %v", c.Namespace, c.Name, err))
		}
		s.know(v.(*v1.PersistentVolume))
		s.bind(now, v.(*v1.PersistentVolume))
	})
}

// newVolume is the PersistentVolume that a driver has made for a claim, accessible where its topology says.
func newVolume(c *v1.PersistentVolumeClaim, driver, topology, where string) *v1.PersistentVolume {
	name := "pvc-" + string(c.UID)
	v := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.PersistentVolumeSpec{
		AccessModes: c.Spec.AccessModes, Capacity: c.Spec.Resources.Requests, VolumeMode: c.Spec.VolumeMode,
		PersistentVolumeReclaimPolicy: v1.PersistentVolumeReclaimDelete, StorageClassName: driver,
		ClaimRef: refOf(c),
		PersistentVolumeSource: v1.PersistentVolumeSource{
			CSI: &v1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: name},
		},
	}}
	if topology != "" {
		v.Spec.NodeAffinity = &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
			MatchExpressions: []v1.NodeSelectorRequirement{{
				Key: topology, Operator: v1.NodeSelectorOpIn, Values: []string{where},
			}},
		}}}}
	}
	return v
}

func refOf(c *v1.PersistentVolumeClaim) *v1.ObjectReference {
	return &v1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: c.Namespace, Name: c.Name, UID: c.UID}
}

// bind binds a claim and a volume to each other.
func (s *storage) bind(c *v1.PersistentVolumeClaim, v *v1.PersistentVolume) {
	if r := v.Spec.ClaimRef; r == nil || r.UID == "" {
		out := *v
		out.Spec.ClaimRef = refOf(c)
		next, err := s.cp.api.Update(&out)
		if err != nil {
			return // changed meanwhile: that is seen
		}
		v = next.(*v1.PersistentVolume)
	}
	to := *v
	to.Status.Phase = v1.VolumeBound
	if _, err := s.cp.api.UpdateStatus(&to); err != nil {
		return
	}
	out := *c
	out.Spec.VolumeName = v.Name
	next, err := s.cp.api.Update(&out)
	if err != nil {
		return
	}
	bound := *next.(*v1.PersistentVolumeClaim)
	bound.Status.Phase, bound.Status.AccessModes = v1.ClaimBound, v.Spec.AccessModes
	bound.Status.Capacity = v.Spec.Capacity
	_, _ = s.cp.api.UpdateStatus(&bound) // changed meanwhile: that is seen
}

// grow makes the volume of a claim as large as it asks for. Its node does the rest.
func (s *storage) grow(c *v1.PersistentVolumeClaim, v *v1.PersistentVolume) {
	want, has := c.Spec.Resources.Requests[v1.ResourceStorage], v.Spec.Capacity[v1.ResourceStorage]
	d := s.drivers[v.Spec.StorageClassName]
	if d == nil || want.Cmp(has) <= 0 || s.busy[v.UID] {
		return
	}
	s.busy[v.UID] = true
	s.after(d.Expand.Sample(s.rand), func() {
		delete(s.busy, v.UID)
		s.grown(v.Name, c, want)
	})
}

// grown is the end of a call to expand a volume.
func (s *storage) grown(volume string, of *v1.PersistentVolumeClaim, size resource.Quantity) {
	v, c := s.volumes[volume], s.claims[types.NamespacedName{Namespace: of.Namespace, Name: of.Name}]
	if v == nil || c == nil || c.UID != of.UID {
		return
	}
	sized := v1.ResourceList{v1.ResourceStorage: size}
	out := *v
	out.Spec.Capacity = sized
	if _, err := s.cp.api.Update(&out); err != nil {
		s.grow(c, v) // changed meanwhile
		return
	}
	to := *c
	to.Status.AllocatedResources = sized
	to.Status.AllocatedResourceStatuses = map[v1.ResourceName]v1.ClaimResourceStatus{
		v1.ResourceStorage: v1.PersistentVolumeClaimNodeResizePending,
	}
	to.Status.Conditions = append(slices.DeleteFunc(slices.Clone(c.Status.Conditions),
		func(k v1.PersistentVolumeClaimCondition) bool {
			return k.Type == v1.PersistentVolumeClaimFileSystemResizePending
		}),
		v1.PersistentVolumeClaimCondition{
			Type: v1.PersistentVolumeClaimFileSystemResizePending, Status: v1.ConditionTrue,
			LastTransitionTime: metav1.NewTime(s.cp.config.Clock.Now()),
			Message:            "Waiting for user to (re-)start a pod to finish file system resize of volume on node.",
		})
	_, _ = s.cp.api.UpdateStatus(&to) // changed meanwhile: the node expands it all the same
}

// remove lets a claim go that is being deleted, once no pod uses it.
func (s *storage) remove(c *v1.PersistentVolumeClaim) {
	if !slices.Contains(c.Finalizers, protection) {
		return
	}
	pods, err := simapi.Objects[*v1.Pod](s.cp.api, simapi.Select{Namespace: c.Namespace})
	if err != nil {
		panic(err) // the selector is ours
	}
	for _, p := range pods {
		if !finished(p) && slices.ContainsFunc(s.claimsOf(p), func(u used) bool { return u.name == c.Name }) {
			return // looked at again when it ends
		}
	}
	out := *c
	out.Finalizers = slices.DeleteFunc(slices.Clone(c.Finalizers), func(f string) bool { return f == protection })
	_, _ = s.cp.api.Update(&out) // changed meanwhile: that is seen
}

// reclaim deletes a volume whose claim is gone, once it is attached nowhere.
func (s *storage) reclaim(v *v1.PersistentVolume) {
	r := v.Spec.ClaimRef
	d := s.drivers[v.Spec.StorageClassName]
	if r == nil || d == nil || s.busy[v.UID] || v.Spec.PersistentVolumeReclaimPolicy != v1.PersistentVolumeReclaimDelete {
		return
	}
	c := s.claims[types.NamespacedName{Namespace: r.Namespace, Name: r.Name}]
	k, _ := keyOfVolume(v)
	if c != nil && c.UID == r.UID || len(s.byVolume[k]) > 0 {
		return
	}
	s.busy[v.UID] = true
	s.after(d.Provision.Sample(s.rand), func() {
		delete(s.busy, v.UID)
		// It may be gone.
		_ = s.cp.api.Delete(port.APIDelete{Key: port.APIKey{Kind: port.PersistentVolumeKind, Name: v.Name}, UID: v.UID})
	})
}

// Expand asks for larger volumes of a workload.
func (cp *ControlPlane) Expand(workload string, size resource.Quantity) error {
	s, found := cp.storage, false
	if s != nil {
		for _, c := range s.claimsFor(workload) {
			found = true
			if has := c.Spec.Resources.Requests[v1.ResourceStorage]; size.Cmp(has) <= 0 {
				return fmt.Errorf("controlplane: expand %s: PVC %s/%s has %s, and can't become smaller", workload, c.Namespace,
					c.Name, has.String())
			}
			out := *c
			out.Spec.Resources.Requests = v1.ResourceList{v1.ResourceStorage: size}
			if _, err := cp.api.Update(&out); err != nil {
				return err
			}
		}
	}
	if !found {
		return fmt.Errorf("controlplane: expand %s: there are no claims of this workload", workload)
	}
	return nil
}

// RemoveClaims deletes the claims of a workload. Each goes when no pod uses it, and its volume after it.
func (cp *ControlPlane) RemoveClaims(workload string) {
	if cp.storage == nil {
		return
	}
	for _, c := range cp.storage.claimsFor(workload) {
		_ = cp.api.Delete(port.APIDelete{Key: port.APIKeyOf(c), UID: c.UID}) // it is gone otherwise
	}
}

// claimsFor are the claims of a workload, the newest versions, in order.
func (s *storage) claimsFor(workload string) []*v1.PersistentVolumeClaim {
	all, err := simapi.Objects[*v1.PersistentVolumeClaim](s.cp.api, simapi.Select{Label: workloadLabel + "=" + workload})
	if err != nil {
		panic(err) // the selector is ours
	}
	return all
}
