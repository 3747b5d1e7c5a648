package controlplane

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/port/simport"
	"github.com/troupe-dev/troupe/apiclient/simapi"
)

// StorageDriver is the controller's side of a CSI driver: provisioner, attacher and resizer. Calls that are not set
// take the usual times.
type StorageDriver struct {
	// Provision is how long a volume takes to be made or deleted, Expand to be made larger.
	Provision, Attach, Detach, Expand simapi.Dist
	// NoAttach: its volumes need no attachment (API CSIDriverSpec.attachRequired).
	NoAttach bool
	// Topology is a label of nodes. A volume is made for the value of the node on which its pod is to run, and can be
	// used only on nodes with that value (WaitForFirstConsumer). Empty: everywhere.
	Topology string
}

// Usual times of a cloud's block storage. They are estimates.
var (
	usualProvision = simport.Lognormal(2*time.Second, 8*time.Second)
	usualAttach    = simport.Lognormal(3*time.Second, 12*time.Second)
	usualDetach    = simport.Lognormal(3*time.Second, 12*time.Second)
	usualExpand    = simport.Lognormal(4*time.Second, 15*time.Second)
)

// Validate says what of the driver can't be.
func (d *StorageDriver) Validate() error {
	var errs []error
	for _, t := range []struct {
		name string
		is   simapi.Dist
	}{{"Provision", d.Provision}, {"Attach", d.Attach}, {"Detach", d.Detach}, {"Expand", d.Expand}} {
		if err := t.is.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", t.name, err))
		}
	}
	if d.Topology != "" {
		if why := validation.IsQualifiedName(d.Topology); len(why) > 0 {
			errs = append(errs, fmt.Errorf("the label of Topology, %q: %s", d.Topology, why[0]))
		}
	}
	return errors.Join(errs...)
}

// storage is what is known of volumes. There is none in a cluster without storage drivers.
//
//	watches of PVCs, PVs, VolumeAttachments, CSINodes ──► what is known ──(Delay)──► round: attach, detach
//	PVC ──provisioner──► PV, bound
//	pod with a bound PVC ──► VolumeAttachment ──attacher──► Node.status.volumesAttached
type storage struct {
	cp      *ControlPlane
	rand    *rand.Rand
	drivers map[string]*StorageDriver
	claims  map[types.NamespacedName]*v1.PersistentVolumeClaim
	volumes map[string]*v1.PersistentVolume
	names   map[csi.Key]string // of volumes
	// busy are claims and volumes by UID of which a driver makes something, or deletes it.
	busy     map[types.UID]bool
	csinodes map[string]*storagev1.CSINode

	// users are the bound pods of a volume on a node, uses what each pod uses.
	users map[onNode]map[types.UID]bool
	uses  map[types.UID][]onNode
	// coming are volumes that are made for pods that are to run on a node.
	coming map[types.UID][]onNode
	// parked are pods that wait for a claim before they can be bound.
	parked map[types.NamespacedName]map[types.UID]*v1.Pod
	// unclear are bound pods with claims that are not bound.
	unclear     map[types.UID]*v1.Pod
	attachments map[onNode]*attachment
	// early are VolumeAttachments whose PersistentVolume was not seen yet, by name.
	early    map[string]*storagev1.VolumeAttachment
	byNode   map[string]map[csi.Key]bool
	byVolume map[csi.Key]map[string]bool
	faults   map[driverOn]*AttachFault
	dirty    map[onNode]bool
	reports  map[string]bool // nodes that may say something else of what is attached
	changes  uint64
}

// onNode is a volume on a node.
type onNode struct {
	csi.Key
	node string
}

func (k onNode) compare(o onNode) int {
	return cmp.Or(cmp.Compare(k.Driver, o.Driver), cmp.Compare(k.Handle, o.Handle), cmp.Compare(k.node, o.node))
}

// ServeStorage adds a storage driver, and its CSIDriver to the API. Claims with its name as their storage class get
// volumes of it. The drivers of the nodes are not its business.
func (cp *ControlPlane) ServeStorage(name string, d StorageDriver) error {
	if why := validation.IsDNS1123Subdomain(name); len(why) > 0 {
		return fmt.Errorf("controlplane: storage driver %q: %s", name, why[0])
	}
	if err := d.Validate(); err != nil {
		return fmt.Errorf("controlplane: storage driver %s: %w", name, err)
	}
	if cp.config.Rand == nil {
		return fmt.Errorf("controlplane: storage driver %s: Config.Rand is required", name)
	}
	for _, t := range []struct {
		is    *simapi.Dist
		usual simapi.Dist
	}{{&d.Provision, usualProvision}, {&d.Attach, usualAttach}, {&d.Detach, usualDetach}, {&d.Expand, usualExpand}} {
		if t.is.IsZero() {
			*t.is = t.usual
		}
	}
	attach := !d.NoAttach
	_, err := cp.api.Create(&storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSIDriverSpec{AttachRequired: &attach},
	})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	if cp.storage != nil {
		cp.storage.drivers[name] = &d
		return nil
	}
	cp.storage = &storage{
		cp: cp, rand: cp.config.Rand("storage"), drivers: map[string]*StorageDriver{name: &d},
		claims:  map[types.NamespacedName]*v1.PersistentVolumeClaim{},
		volumes: map[string]*v1.PersistentVolume{}, names: map[csi.Key]string{}, busy: map[types.UID]bool{},
		csinodes: map[string]*storagev1.CSINode{}, users: map[onNode]map[types.UID]bool{}, uses: map[types.UID][]onNode{},
		coming: map[types.UID][]onNode{}, unclear: map[types.UID]*v1.Pod{}, attachments: map[onNode]*attachment{},
		byNode: map[string]map[csi.Key]bool{}, byVolume: map[csi.Key]map[string]bool{}, faults: map[driverOn]*AttachFault{},
		parked: map[types.NamespacedName]map[types.UID]*v1.Pod{},
		early:  map[string]*storagev1.VolumeAttachment{}, dirty: map[onNode]bool{}, reports: map[string]bool{},
	}
	return cp.storage.watch()
}

func (s *storage) watch() error {
	for _, w := range []struct {
		kind port.APIKind
		see  func(simapi.Event)
	}{
		{port.PersistentVolumeKind, s.seeVolume}, {port.PersistentVolumeClaimKind, s.seeClaim},
		{port.VolumeAttachmentKind, s.seeAttachment}, {port.CSINodeKind, s.seeCSINode}, {port.PodKind, s.seePod},
	} {
		stop, err := s.cp.api.Watch(simapi.WatchOptions{Select: simapi.Select{Kind: w.kind}}, w.see)
		if err != nil {
			return err
		}
		s.cp.stops = append(s.cp.stops, stop)
	}
	return nil
}

// after does f when a call of a driver has taken d, and later if the apiserver can't be reached then.
func (s *storage) after(d time.Duration, f func()) {
	s.cp.config.Clock.AfterFunc(d, func() {
		switch {
		case s.cp.stops == nil:
		case s.cp.suspended:
			s.after(monitorPeriod, f)
		default:
			f()
		}
	})
}

func (s *storage) seeCSINode(e simapi.Event) {
	n := e.Object.(*storagev1.CSINode)
	if e.Type == simapi.Deleted {
		delete(s.csinodes, n.Name)
		return
	}
	s.csinodes[n.Name] = n
	s.cp.retry()
}

// seePod notes which volumes a bound pod uses on its node.
func (s *storage) seePod(e simapi.Event) {
	p := e.Object.(*v1.Pod)
	switch {
	case e.Type == simapi.Deleted || finished(p):
		s.leave(p)
	case p.Spec.NodeName != "":
		s.arrive(p)
	case s.uses[p.UID] != nil: // the apiserver was restored to before it was bound
		s.leave(p)
	}
}

// arrive counts a bound pod as a user of its volumes.
func (s *storage) arrive(p *v1.Pod) {
	if _, known := s.uses[p.UID]; known || !hasClaims(p) {
		return
	}
	var all []onNode
	for _, c := range s.claimsOf(p) {
		pv := s.volumeOf(c.claim)
		if pv == nil {
			s.unclear[p.UID] = p
			return
		}
		if k, is := keyOfVolume(pv); is {
			all = append(all, onNode{k, p.Spec.NodeName})
		}
	}
	delete(s.unclear, p.UID)
	s.came(p.UID)
	s.uses[p.UID] = all
	for _, k := range all {
		if s.users[k] == nil {
			s.users[k] = map[types.UID]bool{}
		}
		s.users[k][p.UID] = true
		s.index(k)
		s.touch(k)
	}
}

// place counts a pod on the node to which it was bound just now.
func (s *storage) place(p *v1.Pod, node string) {
	bound := *p
	bound.Spec.NodeName = node
	s.arrive(&bound)
}

// leave: a pod that has ended uses nothing.
func (s *storage) leave(p *v1.Pod) {
	delete(s.unclear, p.UID)
	s.came(p.UID)
	for _, k := range s.uses[p.UID] {
		if delete(s.users[k], p.UID); len(s.users[k]) == 0 {
			delete(s.users, k)
		}
		s.index(k)
		s.touch(k)
	}
	if _, known := s.uses[p.UID]; known {
		delete(s.uses, p.UID)
		s.cp.retry()
	}
	if !hasClaims(p) {
		return
	}
	for _, c := range s.claimsOf(p) {
		if c.claim != nil && c.claim.DeletionTimestamp != nil {
			s.remove(c.claim)
		}
	}
}

// index keeps which volumes there are on each node, and on which nodes a volume is.
func (s *storage) index(k onNode) {
	if s.attachments[k] != nil || s.users[k] != nil {
		put(s.byNode, k.node, k.Key)
		put(s.byVolume, k.Key, k.node)
		return
	}
	take(s.byNode, k.node, k.Key)
	take(s.byVolume, k.Key, k.node)
}

func put[A, B comparable](m map[A]map[B]bool, a A, b B) {
	if m[a] == nil {
		m[a] = map[B]bool{}
	}
	m[a][b] = true
}

func take[A, B comparable](m map[A]map[B]bool, a A, b B) {
	if delete(m[a], b); len(m[a]) == 0 {
		delete(m, a)
	}
}

// touch has a volume on a node looked at in the next round.
func (s *storage) touch(k onNode) {
	s.dirty[k] = true
	s.cp.soon()
}

// round attaches and detaches.
func (s *storage) round() {
	dirty := slices.SortedFunc(maps.Keys(s.dirty), onNode.compare)
	clear(s.dirty)
	for _, k := range dirty {
		s.reconcile(k)
	}
	nodes := slices.Sorted(maps.Keys(s.reports))
	clear(s.reports)
	for _, n := range nodes {
		s.report(n)
	}
}

// StorageChanges is how many changes of claims, volumes and attachments there were: while it stays, all that is counted
// of them stays.
func (cp *ControlPlane) StorageChanges() uint64 {
	if cp.storage == nil {
		return 0
	}
	return cp.storage.changes
}

// StorageCounts is what there is of the volumes of a workload.
type StorageCounts struct {
	// Attached are VolumeAttachments that say so, Attaching those that do not (yet). One that is being deleted counts
	// until it is gone.
	Attached, Attaching int
	// Bound are claims with a volume, Resizing those whose volume is smaller than they ask for, or not expanded on its
	// node.
	Bound, Resizing int
}

// StorageOf counts the volumes of a workload; all volumes if it is empty.
func (cp *ControlPlane) StorageOf(workload string) (out StorageCounts) {
	s := cp.storage
	if s == nil {
		return out
	}
	for _, a := range s.attachments { // order-free: counts
		if workload != "" && s.workloadOf(a.pv) != workload {
			continue
		}
		if a.object.Status.Attached {
			out.Attached++
		} else {
			out.Attaching++
		}
	}
	for _, c := range s.claims { // order-free: counts
		if workload != "" && c.Labels[workloadLabel] != workload {
			continue
		}
		if c.Status.Phase == v1.ClaimBound {
			out.Bound++
			if csi.Resizes(c) {
				out.Resizing++
			}
		}
	}
	return out
}

// workloadOf is the workload that the claim of a volume is of; empty if there is none.
func (s *storage) workloadOf(pv string) string {
	v := s.volumes[pv]
	if v == nil || v.Spec.ClaimRef == nil {
		return ""
	}
	c := s.claims[types.NamespacedName{Namespace: v.Spec.ClaimRef.Namespace, Name: v.Spec.ClaimRef.Name}]
	if c == nil {
		return ""
	}
	return c.Labels[workloadLabel]
}

// Unused are the VolumeAttachments that no pod uses, as PV on NODE: at rest there is none.
func (cp *ControlPlane) Unused() (out []string) {
	s := cp.storage
	if s == nil {
		return nil
	}
	for k, a := range s.attachments { // order-free: sorted
		if len(s.users[k]) == 0 {
			out = append(out, fmt.Sprintf("%s on %s", a.pv, k.node))
		}
	}
	slices.Sort(out)
	return out
}
