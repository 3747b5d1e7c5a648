package scenarios

import (
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/actors/decide/podstatus"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/apiclient/simapi"
	"github.com/troupe-dev/troupe/supervisor/invariants"
	"github.com/troupe-dev/troupe/supervisor/sim"
	"github.com/troupe-dev/troupe/supervisor/sim/machine"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/podtest"
)

const disks = "disks.example.com"

// mover is two nodes with one volume that is attached to one of them at a time. It plays the controllers, which rely on
// status.volumesInUse alone.
type mover struct {
	*testing.T
	w     *sim.World
	key   csi.Key
	nodes []string
}

func newMover(t *testing.T, seed uint64) *mover {
	w := check.Value(sim.New(sim.Config{Seed: seed, Bare: true}))(t)
	m := &mover{T: t, w: w, key: csi.Key{Driver: disks, Handle: "h"}, nodes: []string{"n1", "n2"}}
	models := map[string]*invariants.Node{}
	for _, name := range m.nodes {
		n := check.Value(w.AddNode(sim.NodeSpec{Name: name, CSI: map[string]machine.CSIDriver{disks: {}}}))(t)
		of := invariants.New(w.Now, func(v invariants.Violation) { t.Errorf("%s: %s at %v", name, v, w.Elapsed()) })
		of.Attaches(disks)
		n.Machine().CSI.Changed = of.Driven
		models[name] = of
	}
	m.watch(port.NodeKind, func(e simapi.Event) { models[e.Object.GetName()].NodeShown(e.Object.(*v1.Node)) })
	m.watch(port.VolumeAttachmentKind, func(e simapi.Event) {
		to := e.Object.(*storagev1.VolumeAttachment)
		for _, name := range m.nodes {
			other := to.Spec.NodeName
			if e.Type == simapi.Deleted || !to.Status.Attached {
				other = ""
			}
			if name != to.Spec.NodeName {
				models[name].Attached(m.key, other)
			}
		}
	})
	w.Advance(5 * time.Second)
	m.create(&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: disks}, Spec: storagev1.CSIDriverSpec{AttachRequired: new(true)}})
	once := []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	claim := m.create(&v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data", Namespace: "default"},
		Spec: v1.PersistentVolumeClaimSpec{VolumeName: "pv", AccessModes: once}}).(*v1.PersistentVolumeClaim)
	bound := *claim
	bound.Status = v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound, AccessModes: once}
	m.status(&bound)
	m.create(&v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: v1.PersistentVolumeSpec{
		AccessModes: once, ClaimRef: &v1.ObjectReference{Namespace: "default", Name: "data", UID: claim.UID},
		PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: disks, VolumeHandle: "h"}},
	}})
	return m
}

func (m *mover) watch(kind port.APIKind, see func(simapi.Event)) {
	check.Value(m.w.API().Watch(simapi.WatchOptions{Select: simapi.Select{Kind: kind}}, see))(m)
}

func (m *mover) create(o port.APIObject) port.APIObject {
	m.Helper()
	return check.Value(m.w.API().Create(o))(m)
}

func (m *mover) status(o port.APIObject) {
	m.Helper()
	check.Value(m.w.API().UpdateStatus(o))(m)
}

func (m *mover) pod(name string) *v1.Pod {
	p, _ := simapi.Object[*v1.Pod](m.w.API(), "default", name) // nil if it is not there
	return p
}

// run makes a pod with the volume on a node.
func (m *mover) run(name, node string) {
	s := aPod(name)
	s.Namespace, s.UID, s.Spec.NodeName = "default", "", node
	s.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
	podtest.UseVolumes(&s.Spec)
	m.create(&s.Pod)
}

// attach does what a controller does: it detaches what is not in use and not needed, and attaches what is needed.
func (m *mover) attach() {
	pods := check.Value(simapi.Objects[*v1.Pod](m.w.API(), simapi.Select{}))(m)
	taken := ""
	for _, name := range m.nodes {
		if _, err := m.w.API().Get(m.attachment(name)); err == nil {
			taken = name
		}
	}
	for _, name := range m.nodes {
		n := check.Value(simapi.Object[*v1.Node](m.w.API(), "", name))(m)
		needed := slices.ContainsFunc(pods, func(p *v1.Pod) bool { return p.Spec.NodeName == name })
		to := *n
		switch {
		case needed && taken == "":
			made := *m.create(&storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: m.attachment(name).Name},
				Spec: storagev1.VolumeAttachmentSpec{Attacher: disks, NodeName: name, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new("pv")}},
			}).(*storagev1.VolumeAttachment)
			made.Status.Attached = true
			m.status(&made)
			to.Status.VolumesAttached, taken = []v1.AttachedVolume{{Name: m.key.UniqueName()}}, name
			m.status(&to)
		case taken == name && !needed && !slices.Contains(n.Status.VolumesInUse, m.key.UniqueName()):
			to.Status.VolumesAttached = nil
			m.status(&to)
			check.Fatal(m, m.w.API().Delete(port.APIDelete{Key: m.attachment(name)}))
		}
	}
}

func (m *mover) attachment(node string) port.APIKey {
	return port.APIKey{Kind: port.VolumeAttachmentKind, Name: csi.AttachmentName(m.key, node)}
}

func (m *mover) until(what string, cond func() bool) {
	m.Helper()
	for range 6000 {
		m.attach()
		if cond() {
			return
		}
		m.w.Advance(100 * time.Millisecond)
	}
	m.Fatalf("not %s: volumes on n1 %+v, on n2 %+v", what, m.w.Node("n1").Machine().CSI.Places(), m.w.Node("n2").Machine().CSI.Places())
}

// TestCSIVolumeMoves: a volume that one node has at a time goes to another with its pod, while the agent that has had it
// is killed at any time, and its driver fails and hangs. It is never mounted on a node when it is attached to another.
func TestCSIVolumeMoves(t *testing.T) {
	t.Parallel()
	for _, seed := range seeds(t, 1, 20) {
		m := newMover(t, seed)
		old := m.w.Node("n1")
		m.run("web", "n1")
		m.until("the pod is Ready", func() bool { p := m.pod("web"); return p != nil && podstatus.Ready(&p.Status) })
		calls := 0
		old.Machine().SetFault(func(c machine.Call) machine.Fault {
			if c.Verb != "NodeUnpublishVolume" && c.Verb != "NodeUnstageVolume" {
				return machine.Fault{}
			}
			calls++
			return []machine.Fault{
				{}, {WorkLate: 3 * time.Second}, {Err: &port.Error{Kind: port.Unavailable}, Works: true}, {Hang: true}, {Err: &port.Error{}},
			}[(calls+int(seed))%5]
		})
		m.run("next", "n2")
		check.Fatal(t, m.w.API().Delete(port.APIDelete{Key: port.APIKeyOf(m.pod("web"))}))
		for range 3 {
			for range 1 + seed*7%20 {
				m.attach()
				m.w.Advance(time.Duration(1+seed*13%40) * time.Millisecond)
			}
			old.RestartAgent()
		}
		m.until("the next pod is Ready", func() bool { p := m.pod("next"); return p != nil && podstatus.Ready(&p.Status) })
		if places := old.Machine().CSI.Places(); len(places) > 0 || calls < 2 {
			t.Errorf("seed %d: after %d calls there is left %+v", seed, calls, places)
		}
	}
}
