package controlplane

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/apiclient/simapi"
)

const (
	// maxWaitForUnmount is how long a volume that no pod uses stays attached to a node that is not ready and may have
	// it mounted (kube-controller-manager, maxWaitForUnmountDuration).
	maxWaitForUnmount = 6 * time.Minute
	// firstRetry and lastRetry bound the pause after an attachment has failed (external-attacher --retry-interval-start
	// and -max).
	firstRetry, lastRetry = time.Second, 5 * time.Minute
)

// attachment is a VolumeAttachment: what the attach/detach controller of a kube-controller-manager and an
// external-attacher have of a volume on a node.
//
//	none ──a pod is bound there, and no other node has it (ReadWriteOnce)──► attaching ──driver──► attached
//	  ▲                                                                          └──────┬──────────────┘
//	  └──driver── detaching ◄──no pod uses it; not in use there, or the node is lost────┘
//
// Invariant: Node.status.volumesAttached has exactly those that are attached and are not to be detached.
type attachment struct {
	key    onNode
	pv     string
	object *storagev1.VolumeAttachment // the newest
	// calling: a call of the driver is under way, which may hang, or the pause after one that has failed. call counts
	// them.
	calling, hangs, pauses bool
	call, failed           int
	// unused is since when no pod uses it; zero: one does.
	unused time.Time
}

// finalizer of an attacher keeps a VolumeAttachment until it is detached.
func finalizer(driver string) string { return "external-attacher/" + driver }

func attachmentKey(k onNode) port.APIKey {
	return port.APIKey{Kind: port.VolumeAttachmentKind, Name: csi.AttachmentName(k.Key, k.node)}
}

func (s *storage) seeAttachment(e simapi.Event) {
	o := e.Object.(*storagev1.VolumeAttachment)
	if o.Spec.Source.PersistentVolumeName == nil || s.drivers[o.Spec.Attacher] == nil {
		return
	}
	s.changes++
	pv := *o.Spec.Source.PersistentVolumeName
	if e.Type == simapi.Deleted {
		s.gone(o)
		return
	}
	v := s.volumes[pv]
	if v == nil {
		s.early[o.Name] = o
		return
	}
	of, is := keyOfVolume(v)
	if !is {
		return
	}
	k := onNode{of, o.Spec.NodeName}
	a := s.attachments[k]
	if a == nil || a.object.UID != o.UID {
		a = &attachment{key: k, pv: pv}
		s.attachments[k] = a
		s.index(k)
	}
	a.object = o
	s.touch(k)
}

// gone: a VolumeAttachment is no more.
func (s *storage) gone(o *storagev1.VolumeAttachment) {
	delete(s.early, o.Name)
	for k := range s.byNode[o.Spec.NodeName] { // order-free: one has it
		a := s.attachments[onNode{k, o.Spec.NodeName}]
		if a == nil || a.object.UID != o.UID {
			continue
		}
		delete(s.attachments, a.key)
		s.index(a.key)
		s.reports[o.Spec.NodeName] = true
		for node := range s.byVolume[k] { // order-free: a set
			s.touch(onNode{k, node}) // it may have waited
		}
		if v := s.volumes[a.pv]; v != nil {
			s.reclaim(v)
		}
		s.cp.soon()
		s.cp.retry()
		return
	}
}

// reconcile does what is to be done about a volume on a node.
func (s *storage) reconcile(k onNode) {
	a, used := s.attachments[k], len(s.users[k]) > 0
	switch {
	case a == nil && used:
		s.attach(k)
	case a == nil:
	case a.object.DeletionTimestamp != nil:
		s.drive(a)
	case used:
		a.unused = time.Time{}
		s.drive(a)
		s.reports[k.node] = true
	default:
		s.detach(a)
	}
}

// attach makes a VolumeAttachment, unless another node still has the volume.
func (s *storage) attach(k onNode) {
	pv := s.volumeByKey(k.Key)
	d := s.drivers[k.Driver]
	if pv == nil || d == nil || d.NoAttach || s.cp.byName[k.node] == nil {
		return
	}
	if !shared(pv) {
		for node := range s.byVolume[k.Key] { // order-free: any
			if node != k.node && s.attachments[onNode{k.Key, node}] != nil {
				return // it is looked at again when that one is gone
			}
		}
	}
	o, err := s.cp.api.Create(&storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: attachmentKey(k).Name, Finalizers: []string{finalizer(k.Driver)}},
		Spec: storagev1.VolumeAttachmentSpec{
			Attacher: k.Driver, NodeName: k.node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &pv.Name},
		},
	})
	if err != nil {
		return // there is one already, and it is seen
	}
	// It is known at once: another node that is looked at in the same round must not get it.
	s.attachments[k] = &attachment{key: k, pv: pv.Name, object: o.(*storagev1.VolumeAttachment)}
	s.index(k)
}

// detach gives a volume back that no pod uses, once its node has unmounted it, or is known not to be able to.
func (s *storage) detach(a *attachment) {
	now := s.cp.config.Clock.Now()
	if a.unused.IsZero() {
		a.unused = now
	}
	may, at := mayDetach(s.nodeOf(a.key.node), a.key.UniqueName(), a.unused, now)
	if !may {
		if !at.IsZero() {
			s.after(at.Sub(now), func() { s.touch(a.key) })
		}
		return
	}
	// First the node is told: a volume that it sees as attached stays so.
	s.reportWithout(a.key.node, a.key.UniqueName())
	_ = s.cp.api.Delete(port.APIDelete{Key: attachmentKey(a.key), UID: a.object.UID}) // gone: that is seen
	// Known at once: the next report must not have it again.
	if o, err := simapi.Object[*storagev1.VolumeAttachment](s.cp.api, "", a.object.Name); err == nil {
		a.object = o
	}
}

// mayDetach says whether a volume that no pod has used since then may be detached; if only time can change that, when.
// A node that is nil is deleted: what it had mounted is not known.
func mayDetach(n *v1.Node, name v1.UniqueVolumeName, unused, now time.Time) (may bool, at time.Time) {
	force := unused.Add(maxWaitForUnmount)
	switch {
	case n != nil && !slices.Contains(n.Status.VolumesInUse, name):
		return true, time.Time{}
	case n != nil && outOfService(n):
		return true, time.Time{}
	case n != nil && nodeReady(n):
		return false, time.Time{}
	}
	return !now.Before(force), force
}

func nodeReady(n *v1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c v1.NodeCondition) bool {
		return c.Type == v1.NodeReady && c.Status == v1.ConditionTrue
	})
}

// nodeOf is the newest version of a node, nil if there is none.
func (s *storage) nodeOf(name string) *v1.Node {
	n, err := simapi.Object[*v1.Node](s.cp.api, "", name)
	if err != nil {
		return nil
	}
	return n
}

// report writes into the status of a node what is attached to it, reportWithout leaves one out.
func (s *storage) report(node string) { s.reportWithout(node, "") }

func (s *storage) reportWithout(node string, without v1.UniqueVolumeName) {
	n := s.nodeOf(node)
	if n == nil {
		return
	}
	var all []v1.AttachedVolume
	for k := range s.byNode[node] { // order-free: sorted
		a := s.attachments[onNode{k, node}]
		if a == nil || !a.object.Status.Attached || a.object.DeletionTimestamp != nil || k.UniqueName() == without {
			continue
		}
		all = append(all, v1.AttachedVolume{Name: k.UniqueName()})
	}
	slices.SortFunc(all, func(a, b v1.AttachedVolume) int { return cmp.Compare(a.Name, b.Name) })
	if slices.Equal(all, n.Status.VolumesAttached) {
		return
	}
	out := *n
	out.Status.VolumesAttached = all
	if _, err := s.cp.api.UpdateStatus(&out); err != nil {
		panic(fmt.Sprintf("controlplane: volumesAttached of node %s: %v", node, err)) // it is the newest version
	}
}

// drive has the driver attach or detach, one call at a time.
func (s *storage) drive(a *attachment) {
	undo := a.object.DeletionTimestamp != nil
	if a.calling && (!undo || !a.pauses) || !undo && a.object.Status.Attached {
		return
	}
	d := s.drivers[a.key.Driver]
	a.calling, a.pauses = true, false
	a.call++
	call, took := a.call, d.Attach.Sample(s.rand)
	if undo {
		took = d.Detach.Sample(s.rand)
		s.after(took, func() { s.detached(a, call) })
		return
	}
	failure := ""
	if f := s.fault(a.key); f != nil {
		took += f.Takes
		switch {
		case f.Hang:
			a.hangs = true
			return
		case f.Times > 0:
			failure = f.message()
			f.Times--
		}
	}
	s.after(took, func() { s.attached(a, call, failure) })
}

// attached is the end of a call to attach.
func (s *storage) attached(a *attachment, call int, failure string) {
	if s.attachments[a.key] != a || a.call != call {
		return
	}
	if a.object.DeletionTimestamp != nil { // it is detached again
		a.calling = false
		s.drive(a)
		return
	}
	out := *a.object
	if failure == "" {
		a.calling, a.failed = false, 0
		out.Status = storagev1.VolumeAttachmentStatus{Attached: true}
	} else {
		out.Status.AttachError = &storagev1.VolumeError{Time: metav1.NewTime(s.cp.config.Clock.Now()), Message: failure}
		pause := min(firstRetry<<min(a.failed, 16), lastRetry)
		a.failed++
		a.pauses = true
		s.after(pause, func() {
			if s.attachments[a.key] == a && a.call == call {
				a.calling, a.pauses = false, false
				s.touch(a.key)
			}
		})
	}
	_, _ = s.cp.api.UpdateStatus(&out) // changed meanwhile: that is seen
}

// detached is the end of a call to detach.
func (s *storage) detached(a *attachment, call int) {
	if s.attachments[a.key] != a || a.call != call {
		return
	}
	out := *a.object
	out.Finalizers = slices.DeleteFunc(slices.Clone(out.Finalizers), func(f string) bool {
		return f == finalizer(a.key.Driver)
	})
	_, _ = s.cp.api.Update(&out) // changed meanwhile: that is seen
	a.calling = false
}

// seeNode looks at the volumes of a node that has changed.
func (s *storage) seeNode(n *v1.Node) {
	node := n.Name
	if len(n.Status.VolumesAttached)+len(s.byNode[node]) > 0 {
		s.reports[node] = true
		s.cp.soon()
	}
	for k := range s.byNode[node] { // order-free: a set
		if s.attachments[onNode{k, node}] != nil {
			s.touch(onNode{k, node})
		}
	}
}

// AttachFault is what goes wrong when a driver attaches volumes.
type AttachFault struct {
	// Times is how many calls fail with Message.
	Times   int
	Message string
	// Takes comes on top of the driver's own time. Hang: calls do not end, until the fault is taken away.
	Takes time.Duration
	Hang  bool
}

func (f *AttachFault) message() string {
	if f.Message != "" {
		return f.Message
	}
	return "rpc error: code = Internal desc = the volume could not be attached"
}

// driverOn is a driver with regard to a node.
type driverOn struct{ driver, node string }

// FailAttach has attachments to a node go wrong from now on; nil ends that, also for calls that hang.
func (cp *ControlPlane) FailAttach(driver, node string, f *AttachFault) error {
	s := cp.storage
	if s == nil || s.drivers[driver] == nil {
		return fmt.Errorf("controlplane: there is no storage driver %s", driver)
	}
	if f != nil {
		s.faults[driverOn{driver, node}] = new(*f)
		return nil
	}
	delete(s.faults, driverOn{driver, node})
	for k := range s.byNode[node] { // order-free: a set
		if a := s.attachments[onNode{k, node}]; a != nil && a.hangs && k.Driver == driver {
			a.hangs, a.calling = false, false
			s.touch(a.key)
		}
	}
	return nil
}

func (s *storage) fault(k onNode) *AttachFault { return s.faults[driverOn{k.Driver, k.node}] }
