package chaos

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/apiclient/simapi"
	"github.com/troupe-dev/troupe/supervisor/chaos/plan"
	"github.com/troupe-dev/troupe/supervisor/invariants"
	"github.com/troupe-dev/troupe/supervisor/sim"
	"github.com/troupe-dev/troupe/supervisor/sim/machine"
)

// attacher has volumes attached to the one node of a case, as the controllers of a cluster do it.
//
//	a pod needs it ──VolumeAttachment──► attaching ──attachTime──► attached ──named in status.volumesAttached──► usable
//	no pod needs it, and status.volumesInUse does not name it ──► not named in volumesAttached, VolumeAttachment deleted
type attacher struct {
	// claims are those that were made; sizes are what they are to be expanded to, 0 if nobody wants that.
	claims map[string]int64
	// looks: a look at what there is to attach is due. ready are the VolumeAttachments whose volumes are attached.
	looks bool
	ready map[types.UID]bool
}

const (
	// lookTime is until controllers look at what has changed, attachTime until a volume is attached. ESTIMATES.
	lookTime   = 20 * time.Millisecond
	attachTime = 100 * time.Millisecond
)

// drive gives a machine the CSI driver of the case.
func (r *runner) drive(s *sim.NodeSpec) {
	if r.c.CSI != "" {
		s.CSI = map[string]machine.CSIDriver{plan.Driver: {Boot: time.Second}}
	}
}

// driven has the rules hear of the CSI driver of a machine.
func (r *runner) driven(m *caseNode) {
	if r.c.CSI == plan.Attached {
		m.rules.Attaches(plan.Driver)
	}
	m.Machine().CSI.Changed = func(c machine.CSIChange) {
		if !r.bare {
			m.rules.Driven(c)
		}
		if r.inj.watches(plan.Host) {
			role := plan.Role{Pod: r.role(r.nameOf(c.Target.Pod))}
			r.inj.at(m.Name(), plan.Host, plan.DrivenPoint(c.Op.String(), c.Worked), role)
		}
		r.dirty = true
	}
}

// registerDriver makes the CSIDriver object, and watches what there is to attach.
func (r *runner) registerDriver() {
	if r.c.CSI == "" {
		return
	}
	r.claims, r.ready = map[string]int64{}, map[types.UID]bool{}
	r.put(&storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: plan.Driver},
		Spec:       storagev1.CSIDriverSpec{AttachRequired: new(r.c.CSI == plan.Attached)},
	})
	if r.c.CSI != plan.Attached {
		return
	}
	for _, kind := range []port.APIKind{port.PodKind, port.NodeKind, port.VolumeAttachmentKind} {
		see := func(simapi.Event) { r.lookLater() }
		if _, err := r.world.API().Watch(simapi.WatchOptions{Select: simapi.Select{Kind: kind}}, see); err != nil {
			panic(err)
		}
	}
}

func (r *runner) lookLater() {
	if !r.looks {
		r.looks = true
		r.v.AfterFunc(lookTime, func() {
			r.looks = false
			r.attach()
		})
	}
}

// put creates an object of the case, unless it is there.
func (r *runner) put(o port.APIObject) port.APIObject {
	if have, err := r.world.API().Get(port.APIKeyOf(o)); err == nil {
		return have
	}
	made, err := r.world.API().Create(o)
	if err != nil {
		panic(err) // the case was validated
	}
	return made
}

// volumeOf is the PersistentVolume of a claim.
func volumeOf(claim string) string { return "pv-" + claim }

func csiKey(claim string) csi.Key { return csi.Key{Driver: plan.Driver, Handle: "handle-" + claim} }

// provide makes the claims of a pod, and their volumes.
func (r *runner) provide(s *v1.PodSpec) {
	size := v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
	once := []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	for _, name := range claimsOf(s) {
		if _, is := r.claims[name]; !is {
			r.claims[name] = 0
		}
		claim := r.put(&v1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
			Spec: v1.PersistentVolumeClaimSpec{
				VolumeName: volumeOf(name), AccessModes: once, Resources: v1.VolumeResourceRequirements{Requests: size},
			},
		}).(*v1.PersistentVolumeClaim)
		if claim.Status.Phase != v1.ClaimBound {
			bound := *claim
			bound.Status = v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound, AccessModes: once, Capacity: size}
			r.writeStatus(&bound)
		}
		k := csiKey(name)
		r.put(&v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: volumeOf(name)}, Spec: v1.PersistentVolumeSpec{
			Capacity: size, AccessModes: once,
			ClaimRef: &v1.ObjectReference{Namespace: metav1.NamespaceDefault, Name: name, UID: claim.UID},
			PersistentVolumeSource: v1.PersistentVolumeSource{
				CSI: &v1.CSIPersistentVolumeSource{Driver: k.Driver, VolumeHandle: k.Handle},
			},
		}})
	}
}

// claimsOf are the claims that a pod names, each once.
func claimsOf(s *v1.PodSpec) (out []string) {
	for i := range s.Volumes {
		if c := s.Volumes[i].PersistentVolumeClaim; c != nil && !slices.Contains(out, c.ClaimName) {
			out = append(out, c.ClaimName)
		}
	}
	return out
}

// writeStatus writes the status of an object that was just read.
func (r *runner) writeStatus(o port.APIObject) {
	if _, err := r.world.API().UpdateStatus(o); err != nil {
		panic(err) // nobody else wrote it since
	}
}

// expand has a claim ask for more, and its volume expanded as by a controller.
func (r *runner) expand(o *plan.Op) {
	name := o.Arg("claim")
	size, _ := plan.Size(o.Arg("size"))
	claim, err := simapi.Object[*v1.PersistentVolumeClaim](r.world.API(), metav1.NamespaceDefault, name)
	pv, failed := simapi.Object[*v1.PersistentVolume](r.world.API(), "", volumeOf(name))
	if err != nil || failed != nil {
		return // no pod has had it yet, or the apiserver was restored to before that
	}
	to := *resource.NewQuantity(int64(size), resource.BinarySI)
	if was := pv.Spec.Capacity[v1.ResourceStorage]; to.Cmp(was) <= 0 {
		return // it only grows
	}
	pv, claim = pv.DeepCopy(), claim.DeepCopy()
	pv.Spec.Capacity[v1.ResourceStorage] = to
	if _, err := r.world.API().Update(pv); err != nil {
		panic(err) // nobody else wrote it since
	}
	claim.Spec.Resources.Requests[v1.ResourceStorage] = to
	made, err := r.world.API().Update(claim)
	if err != nil {
		panic(err) // nobody else wrote it since
	}
	claim = made.(*v1.PersistentVolumeClaim).DeepCopy()
	claim.Status.Conditions = []v1.PersistentVolumeClaimCondition{{
		Type: v1.PersistentVolumeClaimFileSystemResizePending, Status: v1.ConditionTrue,
	}}
	r.writeStatus(claim)
	r.claims[name] = int64(size)
}

// attach attaches what pods need, and detaches what is not in use.
func (r *runner) attach() {
	node, err := simapi.Object[*v1.Node](r.world.API(), "", r.nodes[0])
	if err != nil {
		return // it has not registered yet
	}
	pods, err := simapi.Objects[*v1.Pod](r.world.API(), simapi.Select{})
	if err != nil {
		panic(err)
	}
	needed := map[string]bool{}
	for _, p := range pods {
		for _, claim := range claimsOf(&p.Spec) {
			needed[claim] = needed[claim] || p.Spec.NodeName == node.Name && !podspec.Finished(p)
		}
	}
	var attached []v1.AttachedVolume
	for _, claim := range sorted(r.claims) {
		name := csiKey(claim).UniqueName()
		is := slices.ContainsFunc(node.Status.VolumesAttached, func(v v1.AttachedVolume) bool { return v.Name == name })
		if needed[claim] || slices.Contains(node.Status.VolumesInUse, name) {
			if r.attachOne(claim) {
				attached = append(attached, v1.AttachedVolume{Name: name})
			}
		} else if !is { // it is not named any more
			_ = r.world.API().Delete(port.APIDelete{Key: attachmentKey(claim, node.Name)}) // it may not be there
		}
	}
	if !slices.Equal(attached, node.Status.VolumesAttached) {
		to := *node
		to.Status.VolumesAttached = attached
		r.writeStatus(&to)
	}
}

func attachmentKey(claim, node string) port.APIKey {
	return port.APIKey{Kind: port.VolumeAttachmentKind, Name: csi.AttachmentName(csiKey(claim), node)}
}

// attachOne has a volume attached, and reports whether it is.
func (r *runner) attachOne(claim string) bool {
	node := r.nodes[0]
	have := r.put(&storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: attachmentKey(claim, node).Name},
		Spec: storagev1.VolumeAttachmentSpec{
			Attacher: plan.Driver, NodeName: node,
			Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new(volumeOf(claim))},
		},
	}).(*storagev1.VolumeAttachment)
	switch {
	case have.Status.Attached:
		return true
	case r.ready[have.UID]:
		to := *have
		to.Status.Attached = true
		r.writeStatus(&to)
		return true
	default:
		r.v.AfterFunc(attachTime, func() {
			r.ready[have.UID] = true
			r.lookLater()
		})
		return false
	}
}

// breakDriver does an operation on the CSI driver of a machine.
func (r *runner) breakDriver(m *caseNode, o *plan.Op, wait time.Duration) {
	d := m.Machine().CSI
	if o.Verb == plan.StopDriver {
		d.Stop(plan.Driver)
	} else {
		d.Crash(plan.Driver)
	}
	r.v.AfterFunc(max(wait, restartDelay), func() { d.Start(plan.Driver) })
}

// mislaid says what is wrong with the volumes of CSI drivers on a machine at rest; empty if nothing is.
func (r *runner) mislaid(m *caseNode) string {
	if r.c.CSI == "" {
		return ""
	}
	uses, used := map[types.UID][]string{}, map[string]bool{}
	for _, c := range r.pods { // order-free: a map
		if c.asked == nil || c.shown == nil || podspec.Finished(c.shown) {
			continue
		}
		for _, claim := range claimsOf(&c.shown.Spec) {
			uses[c.shown.UID] = append(uses[c.shown.UID], volumeOf(claim))
			used[claim] = true
		}
	}
	node, err := simapi.Object[*v1.Node](r.world.API(), "", m.Name())
	if err != nil {
		return err.Error()
	}
	attached := func(string) bool { return r.c.CSI == plan.Attached }
	return cmp.Or(invariants.CSIVolumes(m.Machine().CSI, node, uses, attached), r.small(used))
}

// small says which claim that is in use has not the size that it is to have; empty for none.
func (r *runner) small(used map[string]bool) string {
	for _, name := range sorted(used) {
		claim, err := simapi.Object[*v1.PersistentVolumeClaim](r.world.API(), metav1.NamespaceDefault, name)
		if err != nil {
			return err.Error()
		}
		if has := claim.Status.Capacity[v1.ResourceStorage]; has.Value() < r.claims[name] {
			return fmt.Sprintf("claim %s has %s, and is to have %d bytes", name, &has, r.claims[name])
		}
	}
	return ""
}
