package controlplane

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/port/simport"
	"github.com/troupe-dev/troupe/apiclient/simapi"
	"github.com/troupe-dev/troupe/tests/check"
)

const disk = "disk.example.com"

// newStorage is a cluster with a driver. Nodes say what they have in use: from a pod's binding until a second after its
// end, unless they are dead.
func newStorage(t *testing.T, nodes int, d StorageDriver) *cluster {
	t.Helper()
	c := newCluster(t, nodes)
	check.Fatal(c.t, c.cp.ServeStorage(disk, d))
	uses := map[types.UID][]v1.UniqueVolumeName{}
	check.Value(c.api.Watch(simapi.WatchOptions{Select: simapi.Select{Kind: port.PodKind}}, func(e simapi.Event) {
		p := e.Object.(*v1.Pod)
		if p.Spec.NodeName == "" || e.Type == simapi.Modified && p.DeletionTimestamp != nil {
			return
		}
		after := time.Duration(0)
		if e.Type == simapi.Deleted {
			after = time.Second
		} else {
			for _, u := range c.cp.storage.claimsOf(p) {
				if k, is := keyOfVolume(c.cp.storage.volumeOf(u.claim)); is && !slices.Contains(uses[p.UID], k.UniqueName()) {
					uses[p.UID] = append(uses[p.UID], k.UniqueName())
				}
			}
		}
		c.clock.AfterFunc(after, func() { c.inUse(p.Spec.NodeName, uses[p.UID], e.Type != simapi.Deleted) })
	}))(c.t)
	return c
}

func (c *cluster) inUse(node string, names []v1.UniqueVolumeName, is bool) {
	n, err := simapi.Object[*v1.Node](c.api, "", node)
	if err != nil || c.dead[node] {
		return
	}
	out := *n
	out.Status.VolumesInUse = slices.DeleteFunc(slices.Clone(n.Status.VolumesInUse), func(name v1.UniqueVolumeName) bool { return slices.Contains(names, name) })
	if is {
		out.Status.VolumesInUse = append(out.Status.VolumesInUse, names...)
	}
	check.Value(c.api.UpdateStatus(&out))(c.t)
}

func db(replicas int) Workload {
	class := disk
	w := web(replicas, "db", "1")
	w.Name = "db"
	w.Stateful = &Stateful{Parallel: true, Claims: []v1.PersistentVolumeClaim{{
		ObjectMeta: metav1.ObjectMeta{Name: "data"},
		Spec: v1.PersistentVolumeClaimSpec{
			StorageClassName: &class, AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			Resources: v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}}}
	return w
}

func (c *cluster) volumeAttachments() []*storagev1.VolumeAttachment {
	c.t.Helper()
	return check.Value(simapi.Objects[*storagev1.VolumeAttachment](c.api, simapi.Select{}))(c.t)
}

// attached says what VolumeAttachments there are, as CLAIM@NODE; ? not attached yet, ! being detached. It holds each
// Node to them.
func (c *cluster) attached() string {
	c.t.Helper()
	var out []string
	status := map[string]int{}
	for _, a := range c.volumeAttachments() {
		v := check.Value(simapi.Object[*v1.PersistentVolume](c.api, "", *a.Spec.Source.PersistentVolumeName))(c.t)
		text := strings.TrimPrefix(v.Spec.ClaimRef.Name, "data-") + "@" + a.Spec.NodeName
		switch {
		case a.DeletionTimestamp != nil:
			text += "!"
		case !a.Status.Attached:
			text += "?"
		default:
			status[a.Spec.NodeName]++
		}
		out = append(out, text)
	}
	nodes := check.Value(simapi.Objects[*v1.Node](c.api, simapi.Select{}))(c.t)
	for _, n := range nodes {
		if len(n.Status.VolumesAttached) != status[n.Name] {
			c.t.Errorf("node %s: volumesAttached %v; %d are", n.Name, n.Status.VolumesAttached, status[n.Name])
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func (c *cluster) wantAttached(what, want string) {
	c.t.Helper()
	check.Equal(c.t, c.attached(), want, "%s", what)
}

var quick = StorageDriver{
	Provision: simport.Constant(time.Second), Attach: simport.Constant(2 * time.Second), Detach: simport.Constant(3 * time.Second),
	Expand: simport.Constant(time.Second),
}

// TestStorage: claims are bound, volumes attached and detached, and the claims of a workload outlive its pods.
func TestStorage(t *testing.T) {
	c := newStorage(t, 2, quick)
	check.Fatal(c.t, c.cp.Apply(db(2)))
	c.clock.Advance(1500 * time.Millisecond)
	c.wantAttached("bound", "db-0@n0? db-1@n1?")
	check.Equal(t, c.cp.StorageOf("db"), (StorageCounts{Attaching: 2, Bound: 2}), "it")
	c.clock.Advance(2 * time.Second)
	c.wantAttached("attached", "db-0@n0 db-1@n1")
	w := db(1)
	check.Fatal(c.t, c.cp.Apply(w))
	c.clock.Advance(1500 * time.Millisecond) // the pod is gone, and in use
	c.wantAttached("in use", "db-0@n0 db-1@n1")
	if got := c.cp.Unused(); len(got) != 1 || !strings.HasSuffix(got[0], "on n1") {
		t.Errorf("%v", got)
	}
	c.clock.Advance(time.Second)
	c.wantAttached("not in use", "db-0@n0 db-1@n1!")
	c.clock.Advance(3 * time.Second)
	c.wantAttached("detached", "db-0@n0")
	check.Fatal(c.t, c.cp.Apply(db(2)))
	c.clock.Advance(5 * time.Second)
	c.wantAttached("again, with the same claim", "db-0@n0 db-1@n1")
	check.Equal(t, c.cp.StorageOf(""), (StorageCounts{Attached: 2, Bound: 2}), "it")
	check.Fatal(c.t, c.cp.Remove("default", "db"))
	c.cp.RemoveClaims("db")
	c.clock.Advance(time.Minute)
	c.wantAttached("removed", "")
	if len(c.cp.storage.claims)+len(c.cp.storage.volumes)+len(c.cp.storage.byNode)+len(c.cp.storage.byVolume)+len(c.cp.storage.uses) > 0 {
		t.Errorf("left: %+v", c.cp.storage)
	}
}

// TestVolumesFollow: the pod of a lost node keeps its name and its volume, until an operator says that the node is off.
func TestVolumesFollow(t *testing.T) {
	c := newStorage(t, 2, quick)
	check.Fatal(c.t, c.cp.Apply(db(2)))
	c.clock.Advance(10 * time.Second)
	c.dead["n1"] = true
	c.clock.Advance(20 * time.Minute)
	c.want("lost", "n0:1 n1!:1")
	c.wantAttached("lost", "db-0@n0 db-1@n1")
	check.Fatal(c.t, c.cp.OutOfService("n1", true))
	c.clock.Advance(monitorPeriod + time.Second)
	c.want("out of service", "n0:2")
	c.wantAttached("out of service", "db-0@n0 db-1@n1!")
	c.clock.Advance(3 * time.Second)
	c.wantAttached("detached", "db-0@n0 db-1@n0?")
	c.clock.Advance(3 * time.Second)
	c.wantAttached("followed", "db-0@n0 db-1@n0")
	c.dead["n1"] = false
	check.Fatal(c.t, c.cp.OutOfService("n1", false))
	c.clock.Advance(time.Minute)
	n := check.Value(simapi.Object[*v1.Node](c.api, "", "n1"))(c.t)
	check.None(t, n.Spec.Taints, "taints")
}

// TestForceDetach: a volume that no pod uses is detached from a lost node after six minutes, from one that is ready
// never while it is in use.
func TestForceDetach(t *testing.T) {
	for _, c := range []struct {
		name         string
		inUse, ready bool
		oos, deleted bool
		unused       time.Duration
		may          bool
		after        time.Duration // until it is asked again; 0: only a change of the node matters
	}{
		{name: "not in use", ready: true, may: true},
		{name: "in use", inUse: true, ready: true, unused: time.Hour},
		{name: "in use, lost", inUse: true, unused: time.Minute, after: 5 * time.Minute},
		{name: "in use, lost for long", inUse: true, unused: 6 * time.Minute, may: true},
		{name: "in use, out of service", inUse: true, oos: true, may: true},
		{name: "of a node that is deleted", deleted: true, unused: time.Minute, after: 5 * time.Minute},
		{name: "of a node that is long deleted", deleted: true, unused: 6 * time.Minute, may: true},
	} {
		n := &v1.Node{Status: v1.NodeStatus{Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionUnknown}}}}
		if c.ready {
			n.Status.Conditions[0].Status = v1.ConditionTrue
		}
		if c.inUse {
			n.Status.VolumesInUse = []v1.UniqueVolumeName{"v"}
		}
		if c.oos {
			n.Spec.Taints = []v1.Taint{{Key: v1.TaintNodeOutOfService, Effect: v1.TaintEffectNoExecute}}
		}
		if c.deleted {
			n = nil
		}
		may, at := mayDetach(n, "v", t0.Add(-c.unused), t0)
		if may != c.may || !may && !at.IsZero() != (c.after > 0) || c.after > 0 && at.Sub(t0) != c.after {
			t.Errorf("%s: %v, %v", c.name, may, at)
		}
	}
}

// TestForcedAfterSixMinutes: a pod that was deleted by force leaves its volume, which its successor gets then.
func TestForcedAfterSixMinutes(t *testing.T) {
	c := newStorage(t, 2, quick)
	check.Fatal(c.t, c.cp.Apply(db(2)))
	c.clock.Advance(10 * time.Second)
	c.dead["n1"] = true
	c.clock.Advance(2 * time.Minute)
	zero := int64(0)
	check.Fatal(c.t,
		c.api.Delete(port.APIDelete{Key: port.APIKey{Kind: port.PodKind, Namespace: "default", Name: "db-1"}, Grace: &zero}))
	c.clock.Advance(5 * time.Minute)
	c.want("deleted by force", "n0:2")
	c.wantAttached("five minutes later", "db-0@n0 db-1@n1")
	c.clock.Advance(2 * time.Minute)
	c.wantAttached("seven minutes later", "db-0@n0 db-1@n0")
}

// TestFailAttach: calls that fail are made again, later each time; one that hangs goes on when that is mended.
func TestFailAttach(t *testing.T) {
	c := newStorage(t, 1, quick)
	check.Fails(t, c.cp.FailAttach("other.example.com", "n0", nil), "a driver that is not there")
	check.Fatal(c.t, c.cp.FailAttach(disk, "n0", &AttachFault{Times: 2, Message: "no slot is free"}))
	check.Fatal(c.t, c.cp.Apply(db(1)))
	// 1 s to be made; 2 s, 1 s pause, 2 s, 2 s pause, 2 s.
	c.clock.Advance(3500 * time.Millisecond)
	if a := c.volumeAttachments()[0]; a.Status.AttachError == nil || a.Status.AttachError.Message != "no slot is free" {
		t.Errorf("%+v", a.Status)
	}
	c.clock.Advance(6 * time.Second)
	c.wantAttached("failed twice", "db-0@n0?")
	c.clock.Advance(time.Second)
	c.wantAttached("worked", "db-0@n0")
	if a := c.volumeAttachments()[0]; a.Status.AttachError != nil {
		t.Errorf("%+v", a.Status)
	}
	check.Fatal(c.t, c.cp.FailAttach(disk, "n0", &AttachFault{Hang: true}))
	check.Fatal(c.t, c.cp.Apply(db(2)))
	c.clock.Advance(10 * time.Minute)
	c.wantAttached("hangs", "db-0@n0 db-1@n0?")
	check.Fatal(c.t, c.cp.FailAttach(disk, "n0", nil))
	c.clock.Advance(3 * time.Second)
	c.wantAttached("mended", "db-0@n0 db-1@n0")
	check.Fatal(c.t, c.cp.FailAttach(disk, "n0", &AttachFault{Takes: time.Minute}))
	check.Fatal(c.t, c.cp.Apply(db(3)))
	c.clock.Advance(time.Minute)
	c.wantAttached("slow", "db-0@n0 db-1@n0 db-2@n0?")
	// Nobody wants it any more: it is detached when it is attached.
	check.Fatal(c.t, c.cp.Apply(db(2)))
	c.clock.Advance(10 * time.Second)
	c.wantAttached("no more wanted", "db-0@n0 db-1@n0")
}

// TestLimitAndTopology: the scheduler minds how many volumes a node takes, and where volumes can be used.
func TestLimitAndTopology(t *testing.T) {
	d := quick
	d.Topology = "topology.example.com/zone"
	c := newStorage(t, 3, d)
	for i := range 3 {
		n := check.Value(simapi.Object[*v1.Node](c.api, "", fmt.Sprintf("n%d", i)))(c.t)
		out := *n
		out.Labels = map[string]string{d.Topology: []string{"a", "b", "b"}[i]}
		check.Value(c.api.Update(&out))(c.t)
		driver := storagev1.CSINodeDriver{Name: disk, NodeID: n.Name, Allocatable: &storagev1.VolumeNodeResources{Count: new(int32(2))}}
		check.Value(c.api.Create(&storagev1.CSINode{
			ObjectMeta: metav1.ObjectMeta{Name: n.Name}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{driver}},
		}))(c.t)
	}
	check.Fatal(c.t, c.cp.Apply(db(7)))
	c.clock.Advance(time.Minute)
	c.want("seven, with room for six", "-:1 n0:2 n1:2 n2:2")
	for _, p := range c.pods() {
		if p.Spec.NodeName == "" && !strings.Contains(p.Status.Conditions[0].Message, "node(s) exceed max volume count") &&
			!strings.Contains(p.Status.Conditions[0].Message, "unbound immediate") {
			t.Errorf("%+v", p.Status.Conditions)
		}
	}
	// A volume of zone a finds no place in b.
	var on string
	for _, p := range c.pods() {
		if p.Spec.NodeName == "n0" {
			on = p.Name
		}
	}
	check.Fatal(c.t, c.cp.Apply(db(6)))
	c.clock.Advance(time.Minute)
	check.Fatal(c.t, c.cp.Drain("n0"))
	c.clock.Advance(time.Minute)
	c.want("drained", "-:2 n1:2 n2:2")
	p := check.Value(simapi.Object[*v1.Pod](c.api, "default", on))(c.t)
	if !strings.Contains(p.Status.Conditions[0].Message, "didn't match PersistentVolume's node affinity") {
		t.Errorf("%+v", p.Status.Conditions)
	}
	check.Fatal(c.t, c.cp.Cordon("n0", false))
	c.clock.Advance(time.Minute)
	c.want("back", "n0:2 n1:2 n2:2")
}

// TestExpand: the controller makes the volume larger and leaves the rest to the node.
func TestExpand(t *testing.T) {
	c := newStorage(t, 1, quick)
	check.Fails(t, c.cp.Expand("db", resource.MustParse("2Gi")), "there are no claims")
	check.Fatal(c.t, c.cp.Apply(db(1)))
	c.clock.Advance(10 * time.Second)
	check.Fails(t, c.cp.Expand("db", resource.MustParse("1Gi")), "it has that")
	check.Fatal(c.t, c.cp.Expand("db", resource.MustParse("2Gi")))
	c.clock.Advance(2 * time.Second)
	claim := check.Value(simapi.Object[*v1.PersistentVolumeClaim](c.api, "default", "data-db-0"))(c.t)
	if got := csi.Outgrown(claim, c.cp.storage.volumes[claim.Spec.VolumeName]); got != 2<<30 || c.cp.StorageOf("db").Resizing != 1 {
		t.Errorf("expand to %d: %+v", got, claim.Status)
	}
	check.Value(c.api.UpdateStatus(csi.Expanded(claim, 2<<30)))(c.t)
	c.clock.Advance(time.Second)
	if got := c.cp.StorageOf("db"); got.Resizing != 0 {
		t.Errorf("%+v", got)
	}
}

// TestServeStorage: what a driver can't be.
func TestServeStorage(t *testing.T) {
	c := newCluster(t, 1)
	for _, bad := range []struct {
		name string
		d    StorageDriver
	}{{"A_B", quick}, {disk, StorageDriver{Attach: simport.Constant(-1)}}, {disk, StorageDriver{Topology: "a/b/c"}}} {
		check.Fails(t, c.cp.ServeStorage(bad.name, bad.d), "%+v was taken", bad)
	}
	c.cp.config.Rand = nil
	check.Fails(t, c.cp.ServeStorage(disk, quick), "without Rand")
}

// TestStorageRestored: an apiserver that is restored to a backup has its volumes attached again.
func TestStorageRestored(t *testing.T) {
	for at := range 9 {
		c := newStorage(t, 2, quick)
		check.Fatal(c.t, c.cp.Apply(db(2)))
		c.clock.Advance(time.Duration(at) * 500 * time.Millisecond)
		backup := c.api.Checkpoint()
		c.clock.Advance(10 * time.Second)
		c.api.Restore(backup)
		c.clock.Advance(30 * time.Second)
		c.wantAttached(fmt.Sprintf("restored to %d", at), "db-0@n0 db-1@n1")
		check.Fatal(c.t, c.cp.Apply(db(0)))
		c.clock.Advance(10 * time.Second)
		c.wantAttached("scaled to none", "")
	}
}
