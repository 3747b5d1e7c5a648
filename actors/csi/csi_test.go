package csi_test

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/csi"
	decide "github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

var notAttached = storagev1.CSIDriverSpec{AttachRequired: new(false)}

// registered is a rig with a driver that attaches nothing.
func registered(t *testing.T, change ...func(*rig)) *rig {
	t.Helper()
	r := newRig(t, change...)
	r.register(notAttached)
	r.nodeSays(nil, nil)
	r.calls.Answer(nil, "info "+driver)
	r.Settle()
	r.Forget()
	return r
}

// TestShownAgain: a CSINode that somebody deletes comes back, and so does a label. What is right is not written again.
func TestShownAgain(t *testing.T) {
	r := registered(t)
	check.Equal(t, r.written, 1, "nodestatus is told that there is a CSINode")
	r.Advance(time.Hour)
	r.Keep("api:")
	r.WantByListener("all is right")
	delete(r.stored, port.APIKey{Kind: port.CSINodeKind, Name: "n"})
	r.Advance(11 * time.Minute)
	r.Keep("api:")
	r.WantByListener("written again", "api: create CSINode n: d.example.com=id [zone]")
	n := r.stored[port.APIKey{Kind: port.NodeKind, Name: "n"}].(*v1.Node).DeepCopy()
	delete(n.Labels, "zone")
	r.stored[port.APIKeyOf(n)] = n
	r.Advance(11 * time.Minute)
	r.Keep("api:")
	r.WantByListener("labelled again", `api: patch Node n: labels map[zone:a], IDs {"d.example.com":"id"}`)
	check.Equal(t, r.written, 1, "nodestatus is told once")
}

// TestMute: of a driver that registers and then says nothing people are told once, not of one that needs a moment.
func TestMute(t *testing.T) {
	r := newRig(t)
	r.nodeSays(nil, nil)
	r.register(notAttached)
	for i := range 6 {
		r.calls.Answer(fails(port.Unavailable, "not yet"), "info "+driver)
		if i < 2 {
			r.events.Want("it may be about to start")
		}
		r.Advance(2 * time.Minute)
	}
	r.events.Want("told once", "n: CSIDriverNotShown: CSI driver d.example.com has registered, but does not say how this node is to be shown. "+
		"Until it does, no volumes of it are attached here, and the CSINode may lack it: "+fails(port.Unavailable, "not yet").Error()+"; look at the log of the driver")
	r.calls.Answer(nil, "info "+driver)
	r.Keep("api: update")
	r.WantByListener("shown", "api: update CSINode n: d.example.com=id [zone]")
}

// TestShown: a driver is shown when it has said how, and is not any more when it is gone and has not come back in time.
func TestShown(t *testing.T) {
	r := newRig(t)
	r.nodeSays(nil, nil)
	r.WantByListener("an empty CSINode", "api: create CSINode n:", "watch CSIDriver")
	r.register(notAttached)
	r.calls.Answer(fails(port.Unavailable, "not yet"), "info "+driver)
	r.Advance(time.Second)
	r.calls.Answer(nil, "info "+driver)
	r.WantByListener("shown", "api: patch Node n: labels map[zone:a], IDs {\"d.example.com\":\"id\"}",
		"api: update CSINode n: d.example.com=id [zone]", "driver: info d.example.com", "driver: info d.example.com", "node: in use []")
	r.watch(port.CSIDriver{Name: driver, Gone: true})
	r.Advance(csi.Grace - time.Second)
	r.watch(port.CSIDriver{Name: driver, Endpoint: "/e"})
	r.calls.Answer(nil, "info "+driver)
	r.Advance(csi.Grace)
	r.WantByListener("back in time", "driver: info d.example.com")
	r.watch(port.CSIDriver{Name: driver, Gone: true})
	r.WantAfter("not yet", csi.Grace-time.Second)
	r.WantAfter("gone", 2*time.Second, "api: patch Node n: labels map[zone:a], IDs", "api: update CSINode n:")
	n := r.node.DeepCopy()
	n.Labels = map[string]string{"zone": "b"}
	r.stored[port.APIKeyOf(n)] = n
	r.watch(port.CSIDriver{Name: driver, Endpoint: "/e"})
	r.calls.Answer(nil, "info "+driver)
	r.WantByListener("refused", "driver: info d.example.com")
	r.events.Want("an event",
		"n: CSIDriverRefused: topology of CSI driver d.example.com has zone=a, but the Node has the label zone=b")
}

// TestLeft: what an earlier agent has shown of a driver goes if the driver does not register. Each incarnation gives it its
// whole time.
func TestLeft(t *testing.T) {
	const gone = "gone.example.com"
	r := newRig(t, func(r *rig) {
		infos := map[string]*decide.Info{
			driver: {NodeID: "id", MaxVolumes: 5, Topology: map[string]string{"zone": "a"}}, gone: {NodeID: "1", MaxVolumes: 3},
		}
		n, _, err := decide.Labelled(r.node, infos)
		check.Fatal(t, err)
		of, _ := decide.Node(decide.NewNode("n", r.node.UID), r.node.UID, infos)
		r.node, r.stored[port.APIKeyOf(n)], r.stored[port.APIKeyOf(of)] = n, n, of
	})
	begins := func() {
		r.nodeSays(nil, nil)
		r.register(notAttached)
		r.calls.Answer(nil, "info "+driver)
		r.Advance(csi.Grace - time.Minute)
		r.Keep("api:")
		r.WantByListener("it may come")
	}
	begins()
	r.actor.Crash()
	r.release("other")
	r.Advance(time.Second)
	begins()
	r.Advance(2 * time.Minute)
	r.Keep("api:")
	r.WantByListener("it did not", `api: patch Node n: labels map[zone:a], IDs {"d.example.com":"id"}`,
		"api: update CSINode n: d.example.com=id [zone]")
	if count := r.stored[port.APIKey{Kind: port.CSINodeKind, Name: "n"}].(*storagev1.CSINode).Spec.Drivers[0].Allocatable.Count; *count != 5 {
		t.Errorf("the other takes %d volumes", *count)
	}
}

// TestRejected: a driver whose values the apiserver rejects does not keep out the others. One whose entry has to change
// is removed and added again.
func TestRejected(t *testing.T) {
	const other = "e.example.com"
	r := newRig(t, func(r *rig) {
		r.infos = map[string]decide.Info{driver: {NodeID: "bad", Topology: map[string]string{"forbidden": "1"}}, other: {NodeID: "1"}}
		r.rejects = func(o port.APIObject) error {
			switch o := o.(type) {
			case *v1.Node:
				if o.Labels["forbidden"] != "" {
					return fails(port.Forbidden, "is not allowed to modify labels: forbidden")
				}
			case *storagev1.CSINode:
				was, _ := r.stored[port.APIKeyOf(o)].(*storagev1.CSINode)
				for _, d := range o.Spec.Drivers {
					if d.NodeID == "bad" || was != nil && len(was.Spec.Drivers) == 1 && was.Spec.Drivers[0].NodeID != d.NodeID {
						return fails(port.Invalid, "drivers: "+d.NodeID)
					}
				}
			}
			return nil
		}
	})
	r.nodeSays(nil, nil)
	r.register(notAttached)
	r.watch(port.CSIDriver{Name: other, Endpoint: "/e"})
	r.Settle()
	r.calls.Answer(nil, "info "+driver, "info "+other)
	r.Keep("api:")
	r.WantByListener("the other is shown", "api: create CSINode n:", `api: patch Node n: labels map[], IDs {"e.example.com":"1"}`,
		"api: update CSINode n: e.example.com=1 []")
	r.events.Want("refused", "n: CSIDriverRefused: Node d.example.com: forbidden: is not allowed to modify labels: forbidden")
	r.infos[driver], r.infos[other] = decide.Info{NodeID: "bad"}, decide.Info{NodeID: "2"}
	r.watch(port.CSIDriver{Name: other, Endpoint: "/f"})
	r.Settle()
	r.calls.Answer(nil, "info "+other)
	r.Keep("api: update")
	r.WantByListener("removed and added", "api: update CSINode n:", "api: update CSINode n: e.example.com=2 []")
	r.Advance(time.Minute)
	r.calls.Answer(nil, "info "+driver)
	r.Keep("api: patch")
	r.WantByListener("no label, but no entry", `api: patch Node n: labels map[], IDs {"d.example.com":"bad","e.example.com":"2"}`)
	r.events.Want("refused", "n: CSIDriverRefused: Node d.example.com: invalid: drivers: bad")
}

// TestNodeReplaced: the CSINode of a Node that was deleted is given to the one that registers again, and is made anew if it
// is gone by then.
func TestNodeReplaced(t *testing.T) {
	r := registered(t)
	r.node = r.node.DeepCopy()
	r.node.UID = "new"
	r.stored[port.APIKeyOf(r.node)] = r.node
	r.nodeSays(nil, nil)
	key := port.APIKey{Kind: port.CSINodeKind, Name: "n"}
	if of := r.stored[key].GetOwnerReferences(); len(of) != 1 || of[0].UID != "new" {
		t.Errorf("it is deleted with the old Node: %v", of)
	}
	r.Forget()
	delete(r.stored, key)
	r.node = r.node.DeepCopy()
	r.node.UID = "newer"
	r.stored[port.APIKeyOf(r.node)] = r.node
	r.nodeSays(nil, nil)
	r.WantByListener("anew", "api: patch Node n: labels map[zone:a], IDs {\"d.example.com\":\"id\"}", "api: create CSINode n: d.example.com=id [zone]")
}

// TestRefusedPeriod: a driver that is refused is asked once in its time, however often it was before.
func TestRefusedPeriod(t *testing.T) {
	r := newRig(t)
	r.infos, r.prompt = map[string]decide.Info{driver: {}}, true
	r.nodeSays(nil, nil)
	r.register(storagev1.CSIDriverSpec{AttachRequired: new(false), NodeAllocatableUpdatePeriodSeconds: new(int64(30))})
	r.Forget()
	for range 5 {
		r.Advance(time.Minute)
		r.Keep("driver:")
		r.WantByListener("once a minute", "driver: info d.example.com")
	}
	r.events.Forget()
}

// TestLook: the claim of a volume is asked for once a minute, and not while there is no answer.
func TestLook(t *testing.T) {
	r := registered(t)
	claim := port.APIKey{Kind: port.PersistentVolumeClaimKind, Namespace: "default", Name: "c"}
	for _, pod := range []string{"a", "b"} {
		s := spec(pod, "v")
		s.Claim = "c"
		r.use(s)
	}
	r.calls.Answer(nil, "stage v", "publish v for a", "publish v for b")
	r.Advance(time.Minute)
	check.Equal(t, r.gets[claim], 1, "asked for %d times", r.gets[claim])
	r.silent = claim
	r.Advance(time.Minute)
	r.Advance(time.Minute)
	if r.gets[claim] != 3 { // the deadline of the second has passed
		t.Errorf("asked for %d times", r.gets[claim])
	}
	r.Forget()
}

// TestAttached: a volume waits until the Node names it as in use, and then as attached. The driver is given what its
// controller says.
func TestAttached(t *testing.T) {
	r := newRig(t)
	r.register(storagev1.CSIDriverSpec{})
	r.nodeSays(nil, nil)
	r.calls.Answer(nil, "info "+driver)
	r.Settle()
	r.Forget()
	r.use(spec("a", "v"))
	r.WantByListener("not named", "node: in use [kubernetes.io/csi/d.example.com^v]",
		"volumes: a data-v waits, unattached: status.volumesInUse of the Node does not name it yet")
	r.nodeSays([]string{"v"}, nil)
	r.WantByListener("not attached", "volumes: a data-v waits, unattached: it is not attached to this node (status.volumesAttached, VolumeAttachment of CSI driver d.example.com)")
	r.nodeSays([]string{"v"}, []string{"v"})
	r.WantByListener("no object", "volumes: a data-v waits: CSI driver d.example.com has not answered GetVolumeAttachment of volume v", `volumes: a data-v failed: AttachVolume.Attach failed for volume "pv-v" : Get VolumeAttachment `+
		decide.AttachmentName(decide.Key{Driver: driver, Handle: "v"}, "n")+`: not found: not found`)
	o := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: decide.AttachmentName(decide.Key{Driver: driver, Handle: "v"}, "n")}}
	o.Status = storagev1.VolumeAttachmentStatus{Attached: true, AttachmentMetadata: map[string]string{"lun": "1"}}
	r.stored[port.APIKeyOf(o)] = o
	r.Advance(time.Second)
	r.calls.Answer(nil, "stage v", "publish v for a")
	r.Keep("driver:", "volumes: a data-v at")
	r.WantByListener("up", "driver: stage v", "driver: publish v for a", "volumes: a data-v at /a")
	if r.stages[0].Context["lun"] != "1" || r.publish[0].Context["lun"] != "1" {
		t.Error("the driver does not know how it is attached")
	}
	r.release("a")
	r.calls.Answer(nil, "unpublish v for a")
	r.WantByListener("still in use", "driver: unpublish v for a", "driver: unstage v",
		"volumes: a  waits: volume \"pv-v\" is being unpublished: CSI driver d.example.com has not answered NodeUnpublishVolume of volume v", "volumes: a released")
	r.calls.Answer(nil, "unstage v")
	r.WantByListener("not in use", "node: in use []")
	// What the Node says from before its removal does not count for the next pod: it may be detached by then.
	r.use(spec("b", "v"))
	r.WantByListener("removed first", "volumes: b data-v waits: status.volumesInUse of the Node does not name it yet")
	r.nodeSays(nil, []string{"v"})
	r.WantByListener("then named", "node: in use [kubernetes.io/csi/d.example.com^v]")
	r.nodeSays([]string{"v"}, []string{"v"})
	r.Keep("driver:")
	r.WantByListener("attached", "driver: stage v")
}

// TestHung: a call that hangs holds up its own volume. After its deadline it is made again, or undone.
func TestHung(t *testing.T) {
	r := registered(t)
	r.use(spec("a", "one"))
	r.use(spec("b", "two"))
	r.calls.Answer(nil, "stage two", "publish two for b")
	r.Keep("driver:", "volumes: b data-two at", "volumes: a")
	r.WantByListener("the other is up", "driver: stage one", "driver: stage two", "driver: publish two for b",
		"volumes: a data-one waits: CSI driver d.example.com has not answered NodeStageVolume of volume one", "volumes: b data-two at /b")
	r.release("a")
	r.Advance(2 * time.Minute)
	r.WantByListener("undone", "driver: stage one: given up", "driver: unstage one", "volumes: a released")
	r.calls.Answer(nil, "unstage one")
	r.WantByListener("and no more")
}

// TestFailure: pods are told why, and the call is made again, with a backoff.
func TestFailure(t *testing.T) {
	r := registered(t)
	r.use(spec("a", "v"))
	r.calls.Answer(nil, "stage v")
	r.Settle()
	r.Forget()
	r.calls.Answer(fails(port.Other, "rpc error: code = Internal desc = no disk"), "publish v for a")
	r.WantByListener("told", `volumes: a data-v failed: MountVolume.SetUp failed for volume "pv-v" : Node d.example.com: rpc error: code = Internal desc = no disk`)
	r.WantAfter("in a second", time.Second, "driver: publish v for a",
		"volumes: a data-v waits: CSI driver d.example.com has not answered NodePublishVolume of volume v")
	r.calls.Answer(fails(port.Other, "again"), "publish v for a")
	r.Forget()
	r.Advance(time.Second)
	r.WantByListener("not yet")
	r.watch(port.CSIDriver{Name: driver, Endpoint: "/new"})
	r.Settle()
	r.Keep("driver: publish")
	r.WantByListener("a new process is asked at once", "driver: publish v for a")
	r.release("a")
	r.calls.Answer(nil, "publish v for a", "unpublish v for a", "unstage v")
	r.Keep("driver: un", "volumes: a released")
	r.WantByListener("down", "driver: unpublish v for a", "driver: unstage v", "volumes: a released")
}

// TestFound: what an earlier agent left is published again for its pods, and taken down for those that are gone, as
// soon as there is a driver.
func TestFound(t *testing.T) {
	key := decide.Key{Driver: driver, Handle: "v"}
	r := newRig(t, func(r *rig) {
		r.found = []decide.Found{
			{Key: key}, {Key: key, Target: decide.Target{Pod: "a", Name: "pv-v"}}, {Key: key, Target: decide.Target{Pod: "gone", Name: "pv-v"}},
		}
		r.living["a"] = true
	})
	r.objects.Tell(port.APIReplaced{})
	r.Forget()
	r.Advance(time.Minute + 10*time.Second)
	r.events.Want("named", "n: FailedUnMount: CSI driver d.example.com is not registered on this node: volume v stays mounted until it is")
	r.register(notAttached)
	r.calls.Answer(nil, "unpublish v for gone")
	r.Keep("driver: un", "driver: pub")
	r.WantByListener("the one that is gone", "driver: unpublish v for gone")
	r.use(spec("a", "v"))
	r.calls.Answer(nil, "stage v", "publish v for a")
	r.Keep("driver: stage", "driver: publish", "volumes: a data-v at")
	r.WantByListener("the one that is there", "driver: stage v", "driver: publish v for a", "volumes: a data-v at /a")
}

// TestFoundAttached: after a restart nothing has to change in the Node for what it says already to count.
func TestFoundAttached(t *testing.T) {
	key := decide.Key{Driver: driver, Handle: "v"}
	r := newRig(t, func(r *rig) { r.found = []decide.Found{{Key: key}} })
	o := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: decide.AttachmentName(key, "n")}, Status: storagev1.VolumeAttachmentStatus{Attached: true}}
	r.stored[port.APIKeyOf(o)] = o
	r.nodeSays([]string{"v"}, []string{"v"})
	r.use(spec("a", "v"))
	r.watch(port.CSIDriver{Name: driver, Endpoint: "/d"})
	r.Settle()
	r.objects.Tell(port.APIReplaced{})
	r.Keep("driver: stage", "node: in use")
	r.WantByListener("staged", "driver: stage v", "node: in use [kubernetes.io/csi/d.example.com^v]")
}

// TestRestart: a new incarnation waits for the calls of its predecessor, and reads what there is after that.
func TestRestart(t *testing.T) {
	r := registered(t)
	s := spec("a", "v")
	r.use(s)
	r.actor.Crash()
	r.release("other")
	r.Advance(time.Second)
	r.Keep("driver:", "volumes: restarted")
	r.WantByListener("given up", "driver: stage v", "driver: stage v: given up", "volumes: restarted")
	r.register(notAttached)
	r.use(s)
	r.WantByListener("nothing yet", "driver: info d.example.com")
	r.found = []decide.Found{{Key: s.Key}}
	r.calls.Answer(fails(port.Canceled, ""), "stage v")
	r.Advance(time.Second)
	r.calls.Answer(nil, "stage v", "publish v for a")
	r.Keep("driver: stage", "driver: publish", "volumes: a data-v at")
	r.WantByListener("up", "driver: stage v", "driver: publish v for a", "volumes: a data-v at /a")
}

// TestTokens: a driver that wants tokens of pods gets them each time, among the secrets if it says so.
func TestTokens(t *testing.T) {
	r := registered(t)
	r.objects.Tell(port.APISet{Object: &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driver}, Spec: storagev1.CSIDriverSpec{
		AttachRequired: new(false), RequiresRepublish: new(true), ServiceAccountTokenInSecrets: new(true),
		TokenRequests: []storagev1.TokenRequest{{Audience: "x"}, {}},
	}}})
	r.use(spec("a", "v"))
	r.calls.Answer(nil, "stage v", "publish v for a")
	r.Settle()
	r.Forget()
	r.Advance(2 * time.Minute)
	r.calls.Answer(nil, "publish v for a")
	r.WantByListener("again", "api: token of default/sa for [x]", "api: token of default/sa for []", "driver: publish v for a")
	p := r.publish[1]
	if got := p.Secrets["csi.storage.k8s.io/serviceAccount.tokens"]; got == "" || p.Fresh || len(p.Attributes) != 0 {
		t.Errorf("published with %+v", p)
	}
}

// TestRepeatFails: a publication that is repeated and fails is said to the pod, which keeps what it has. It is tried again
// in its turn.
func TestRepeatFails(t *testing.T) {
	r := registered(t)
	r.objects.Tell(port.APISet{Object: &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driver}, Spec: storagev1.CSIDriverSpec{
		AttachRequired: new(false), RequiresRepublish: new(true),
	}}})
	r.use(spec("a", "v"))
	r.calls.Answer(nil, "stage v", "publish v for a")
	r.Settle()
	for range 2 {
		r.Forget()
		r.Advance(2 * time.Minute)
		r.calls.Answer(fails(port.Other, "no"), "publish v for a")
		r.Settle()
		r.WantByListener("it stays", "driver: publish v for a",
			`volumes: a data-v failed: MountVolume.SetUp failed for volume "pv-v" : Node d.example.com: no at /a`)
	}
}

// TestComesBack: a pod that uses a volume again while it is released has it published anew.
func TestComesBack(t *testing.T) {
	r := registered(t)
	r.use(spec("a", "v"))
	r.calls.Answer(nil, "stage v", "publish v for a")
	r.release("a")
	r.use(spec("a", "v"))
	r.Settle()
	r.Forget()
	r.calls.Answer(nil, "unpublish v for a")
	r.calls.Answer(nil, "publish v for a")
	r.Keep("driver:", "volumes: a data-v at", "volumes: a released")
	r.WantByListener("anew", "driver: publish v for a", "volumes: a data-v at /a")
}

// TestTwice: a pod may have two volumes of one claim. Each is told where it is, also one that is asked for later.
func TestTwice(t *testing.T) {
	r := registered(t)
	s := spec("a", "v")
	ask := func(volume string) {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: s.PodName, UID: s.Pod}}
		r.actor.Tell(asks(p, volume, s))
		r.Settle()
	}
	ask("one")
	ask("two")
	r.calls.Answer(nil, "stage v")
	r.calls.Answer(fails(port.Other, "no"), "publish v for a")
	r.Keep("volumes: a one failed", "volumes: a two failed")
	r.WantByListener("both are told", `volumes: a one failed: MountVolume.SetUp failed for volume "pv-v" : Node d.example.com: no`,
		`volumes: a two failed: MountVolume.SetUp failed for volume "pv-v" : Node d.example.com: no`)
	r.Advance(time.Second)
	r.calls.Answer(nil, "publish v for a")
	r.Keep("volumes: a one at", "volumes: a two at")
	r.WantByListener("both are there", "volumes: a one at /a", "volumes: a two at /a")
	ask("three")
	r.WantByListener("at once", "volumes: a three at /a")
	// A pod that comes back before anything was undone is told as well.
	r.watch(port.CSIDriver{Name: driver, Gone: true})
	r.release("a")
	r.Forget()
	ask("one")
	r.WantByListener("it is still there", "volumes: a one at /a")
}

// TestBoundAnew: a volume stays published under running containers when its claim is bound to another one, until its pod
// goes.
func TestBoundAnew(t *testing.T) {
	r := registered(t)
	old, now := spec("a", "old"), spec("a", "new")
	r.living["a"] = true
	ask := func(volume string, s *decide.Spec) {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: s.PodName, UID: s.Pod}}
		r.actor.Tell(asks(p, volume, s))
		r.Settle()
	}
	ask("one", old)
	ask("two", old)
	r.calls.Answer(nil, "stage old", "publish old for a")
	r.Forget()
	ask("one", now)
	r.calls.Answer(nil, "stage new", "publish new for a")
	r.Advance(5 * time.Minute)
	ask("two", now)
	r.Advance(5 * time.Minute)
	r.Keep("driver:")
	r.WantByListener("the old one stays", "driver: stage new", "driver: publish new for a")
	r.release("a")
	r.calls.Answer(nil, "unpublish new for a", "unpublish old for a", "unstage new", "unstage old")
	r.Keep("driver:", "volumes: a released")
	r.WantByListener("both go", "driver: unpublish new for a", "driver: unpublish old for a", "driver: unstage new", "driver: unstage old", "volumes: a released")
}

// TestReplaced: a volume is not published over another one that has a PersistentVolume of the same name.
func TestReplaced(t *testing.T) {
	r := registered(t)
	old, now := spec("a", "old"), spec("a", "new")
	r.living["a"] = true
	now.Target = old.Target
	r.use(old)
	r.calls.Answer(nil, "stage old")
	r.Settle()
	r.Forget()
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", UID: "a"}}
	r.actor.Tell(asks(p, "data-old", now))
	r.WantByListener("not over it", `volumes: a data-old waits: volume old of CSI driver d.example.com is still published for the pod as "pv-old"; `+
		`delete the pod to have it replaced by volume new`)
	r.calls.Answer(fails(port.Other, "no"), "publish old for a")
	r.Keep("driver:")
	r.WantByListener("it never was", "driver: unstage old")
	r.Advance(time.Minute + 10*time.Second)
	r.calls.Answer(nil, "stage new", "publish new for a")
	r.Keep("volumes: a data-old at")
	r.WantByListener("so the other is", "volumes: a data-old at /a")
}

// TestNobody: a pod without volumes is released at once.
func TestNobody(t *testing.T) {
	r := registered(t)
	r.release("x")
	r.release("x")
	r.WantByListener("at once", "volumes: x released", "volumes: x released")
	r.living[types.UID("x")] = true
}

// TestExpand: a claim whose volume was expanded by its controller is expanded on the node, and says so.
func TestExpand(t *testing.T) {
	r := registered(t)
	s := spec("a", "v")
	s.Claim, s.ClaimUID, s.Name = "c", "c1", "pv-v"
	size := func(text string) v1.ResourceList {
		return v1.ResourceList{v1.ResourceStorage: resource.MustParse(text)}
	}
	claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c"}, Spec: v1.PersistentVolumeClaimSpec{
		Resources: v1.VolumeResourceRequirements{Requests: size("1Ki")}}, Status: v1.PersistentVolumeClaimStatus{Capacity: size("1Ki")}}
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-v"}, Spec: v1.PersistentVolumeSpec{Capacity: size("1Ki")}}
	r.stored[port.APIKeyOf(claim)], r.stored[port.APIKeyOf(pv)] = claim, pv
	r.use(s)
	r.calls.Answer(nil, "stage v", "publish v for a")
	r.Advance(time.Minute)
	r.Forget()
	r.Advance(time.Minute)
	r.WantByListener("nothing to do")
	claim.Spec.Resources.Requests, pv.Spec.Capacity = size("2Ki"), size("2Ki")
	claim.Status.Conditions = []v1.PersistentVolumeClaimCondition{{Type: v1.PersistentVolumeClaimFileSystemResizePending, Status: v1.ConditionTrue}}
	claim.Status.AllocatedResourceStatuses = map[v1.ResourceName]v1.ClaimResourceStatus{v1.ResourceStorage: v1.PersistentVolumeClaimNodeResizePending}
	r.Advance(time.Minute)
	r.WantByListener("begun", "api: patch PersistentVolumeClaim default/c: 1Ki map[storage:NodeResizeInProgress] 1", "driver: expand v to 2048 for a")
	r.calls.Answer(fails(port.Other, "busy"), "expand v to 2048 for a")
	r.Advance(time.Second)
	r.Forget()
	r.calls.Answer(nil, "expand v to 2048 for a")
	r.WantByListener("done", "api: patch PersistentVolumeClaim default/c: 2Ki map[] 0")
	r.events.Want("events", `a: VolumeResizeFailed: NodeExpandVolume.NodeExpandVolume failed for volume "pv-v" (data-v): Node d.example.com: busy`,
		`a: FileSystemResizeSuccessful: MountVolume.NodeExpandVolume succeeded for volume "pv-v"`,
		`PersistentVolumeClaim default/c c1: FileSystemResizeSuccessful: MountVolume.NodeExpandVolume succeeded for volume "pv-v"`)
	// A pod that begins gets a volume that is too small once that was tried. What can't be is not tried again.
	big := spec("b", "w")
	big.Claim, big.Size, big.Name = "c2", 4096, "pv-w"
	more := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c2"}, Spec: v1.PersistentVolumeClaimSpec{
		Resources: v1.VolumeResourceRequirements{Requests: size("4Ki")}}, Status: v1.PersistentVolumeClaimStatus{Capacity: size("2Ki"),
		AllocatedResourceStatuses: map[v1.ResourceName]v1.ClaimResourceStatus{v1.ResourceStorage: v1.PersistentVolumeClaimNodeResizePending}}}
	bigger := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-w"}, Spec: v1.PersistentVolumeSpec{Capacity: size("4Ki")}}
	r.stored[port.APIKeyOf(more)], r.stored[port.APIKeyOf(bigger)] = more, bigger
	r.use(big)
	r.calls.Answer(nil, "stage w", "publish w for b")
	r.Keep("driver:", "volumes: b data-w at")
	r.WantByListener("it waits", "driver: stage w", "driver: publish w for b", "driver: expand w to 4096 for b")
	// That it can't be is asked again, until the claim says so.
	r.rejects = func(o port.APIObject) error {
		if c, is := o.(*v1.PersistentVolumeClaim); is && c.Status.AllocatedResourceStatuses[v1.ResourceStorage] == v1.PersistentVolumeClaimNodeResizeInfeasible {
			return fails(port.Invalid, "not now")
		}
		return nil
	}
	r.calls.Answer(fails(port.Invalid, "never"), "expand w to 4096 for b")
	r.rejects = nil
	r.Advance(time.Second)
	r.calls.Answer(fails(port.Invalid, "never"), "expand w to 4096 for b")
	r.Advance(time.Hour)
	r.Keep("driver:", "api:", "volumes: b data-w at")
	r.WantByListener("it begins", "api: patch PersistentVolumeClaim default/c2: 2Ki map[storage:NodeResizeInProgress] 0",
		"api: patch PersistentVolumeClaim default/c2: 2Ki map[storage:NodeResizeInfeasible] 1", "driver: expand w to 4096 for b",
		"volumes: b data-w at /b")
}
