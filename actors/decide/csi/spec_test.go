package csi

import (
	"maps"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The names are the kubelet's: other agents and controllers find volumes by them.
func TestNames(t *testing.T) {
	k := Key{"d", "h"}
	if got := k.UniqueName(); got != "kubernetes.io/csi/d^h" {
		t.Error(got)
	}
	// printf hdn | sha256sum
	if got := AttachmentName(k, "n"); got != "csi-9072ed11cc1acb5fa433a877ff339b6311d013f33bddd1d0092711a8ace5b16d" {
		t.Error(got)
	}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u"}}
	if got := InlineHandle(pod, "v"); got != "csi-e6184ce10e266134fdcfa401e8f1a95005bcd4f18d16b62b757323e2833fe9a9" {
		t.Error(got)
	}
}

func TestOf(t *testing.T) {
	block := v1.PersistentVolumeBlock
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"}, Spec: v1.PodSpec{
		ServiceAccountName: "sa", SecurityContext: &v1.PodSecurityContext{FSGroup: new(int64(5)), FSGroupChangePolicy: new(v1.FSGroupChangeOnRootMismatch)},
	}}
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: v1.PersistentVolumeSpec{
		ClaimRef: &v1.ObjectReference{Name: "c", UID: "c1"}, VolumeMode: &block, MountOptions: []string{"o"},
		AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteMany, v1.ReadWriteOnce},
		PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{
			Driver: "d", VolumeHandle: "h", FSType: "xfs", VolumeAttributes: map[string]string{"a": "1"},
		}},
	}}
	s := Of(pod, &v1.Volume{Name: "v"}, pv, true)
	if s.Key != (Key{"d", "h"}) || s.Target != (Target{"u", "pv"}) || s.Volume != "v" || !s.Block || !s.ReadOnly || s.Access != v1.ReadWriteMany ||
		!s.Once || s.FSType != "xfs" || s.Claim != "c" || s.ClaimUID != "c1" || *s.Group != 5 || !s.OnMismatch || s.Inline || s.SinglePod() {
		t.Errorf("got %+v", *s)
	}
	claim := func(name, of string, readOnly bool) v1.Volume {
		return v1.Volume{Name: name, VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: of, ReadOnly: readOnly}}}
	}
	pod.Spec.Volumes = []v1.Volume{
		claim("v", "c", true), claim("other", "d", false), claim("same", "c", true), claim("unused", "c", false),
	}
	pod.Spec.Containers = []v1.Container{{VolumeMounts: []v1.VolumeMount{{Name: "v"}, {Name: "other"}, {Name: "same"}}}}
	if !Of(pod, &pod.Spec.Volumes[0], pv, true).ReadOnly {
		t.Error("it can be written")
	}
	pod.Spec.Volumes[2] = claim("same", "c", false)
	if Of(pod, &pod.Spec.Volumes[0], pv, true).ReadOnly {
		t.Error("another volume of the same claim can't be written")
	}
	s = Of(pod, &v1.Volume{Name: "v", VolumeSource: v1.VolumeSource{CSI: &v1.CSIVolumeSource{Driver: "d", ReadOnly: new(true), FSType: new("ext4")}}}, nil, false)
	if s.Target != (Target{"u", "v"}) || !s.Inline || !s.ReadOnly || s.FSType != "ext4" || s.Handle != InlineHandle(pod, "v") || s.Access != v1.ReadWriteOnce {
		t.Errorf("got %+v", *s)
	}
}

// TestOwnGroup: who gives the files of a volume to the pod's group, by the policy of the driver.
func TestOwnGroup(t *testing.T) {
	base := func() *Spec { return &Spec{Group: new(int64(1)), FSType: "ext4", Once: true} }
	for _, c := range []struct {
		change func(*Spec)
		policy storagev1.FSGroupPolicy
		want   bool
	}{
		{func(*Spec) {}, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy, true},
		{func(s *Spec) { s.FSType = "" }, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy, false},
		{func(s *Spec) { s.Once = false }, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy, false},
		{func(s *Spec) { s.FSType, s.Once = "", false }, storagev1.FileFSGroupPolicy, true},
		{func(s *Spec) { s.ReadOnly = true }, storagev1.FileFSGroupPolicy, false},
		{func(s *Spec) { s.Group = nil }, storagev1.FileFSGroupPolicy, false},
		{func(s *Spec) { s.Block = true }, storagev1.FileFSGroupPolicy, false},
		{func(*Spec) {}, storagev1.NoneFSGroupPolicy, false},
	} {
		s := base()
		c.change(s)
		if got := s.ownGroup(&Driver{Group: c.policy}); got != c.want {
			t.Errorf("%s %+v: %v", c.policy, s, got)
		}
	}
}

func TestPublishing(t *testing.T) {
	v, s := NewVolume(key, true), specOf("a")
	s.Inline, s.Attributes, s.PublishSecrets, s.PodName, s.Namespace, s.ServiceAccount = true, map[string]string{"a": "1"}, map[string]string{"s": "2"}, "p", "ns", "sa"
	v.Use(s.Target, s)
	v.Begin(Step{PublishVolume, s.Target})
	d := &Driver{PodInfo: true, TokensInSecrets: true}
	p := v.Publishing(s.Target, d, "n")
	p.AddToken(d, "tok")
	want := map[string]string{
		"a": "1", "csi.storage.k8s.io/pod.name": "p", "csi.storage.k8s.io/pod.namespace": "ns", "csi.storage.k8s.io/pod.uid": "a",
		"csi.storage.k8s.io/serviceAccount.name": "sa", "csi.storage.k8s.io/ephemeral": "true",
	}
	if !maps.Equal(p.Attributes, want) || p.Secrets["csi.storage.k8s.io/serviceAccount.tokens"] != "tok" || p.Secrets["s"] != "2" || !p.Fresh || p.Node != "n" {
		t.Errorf("got %+v", p)
	}
	if len(s.Attributes) != 1 || len(s.PublishSecrets) != 1 {
		t.Error("the spec was changed")
	}
	p.AddToken(&Driver{}, "tok")
	if p.Attributes["csi.storage.k8s.io/serviceAccount.tokens"] != "tok" {
		t.Error("the token is not among the attributes")
	}
}

func TestAttachmentOf(t *testing.T) {
	a := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "x"}}
	if _, why := AttachmentOf(a); why != "VolumeAttachment x is not attached yet" {
		t.Error(why)
	}
	a.Status = storagev1.VolumeAttachmentStatus{Attached: true, AttachmentMetadata: map[string]string{"a": "1"}}
	if with, why := AttachmentOf(a); why != "" || with["a"] != "1" {
		t.Error(with, why)
	}
	a.Status.AttachError = &storagev1.VolumeError{Message: "no"}
	if with, why := AttachmentOf(a); why != "" || with["a"] != "1" {
		t.Error("it is attached, and an attempt to attach it again has failed:", with, why)
	}
	a.Status.Attached = false
	if _, why := AttachmentOf(a); why != "no" {
		t.Error(why)
	}
	a.DeletionTimestamp = new(metav1.Now())
	if _, why := AttachmentOf(a); why != "VolumeAttachment x is being deleted" {
		t.Error(why)
	}
}

// TestNode: what drivers say is in the CSINode and in the Node, and what other drivers said stays.
func TestNode(t *testing.T) {
	have := NewNode("n", "u")
	have.Spec.Drivers = []storagev1.CSINodeDriver{{Name: "z", NodeID: "1"}, {Name: "old", NodeID: "2"}}
	infos := map[string]*Info{"a": {NodeID: "id", MaxVolumes: 1 << 40, Topology: map[string]string{"y": "2", "x": "1"}}, "old": nil}
	got, differs := Node(have, "u", infos)
	if !differs || len(got.Spec.Drivers) != 2 || got.Spec.Drivers[0].Name != "a" || got.Spec.Drivers[1].Name != "z" ||
		!slices.Equal(got.Spec.Drivers[0].TopologyKeys, []string{"x", "y"}) || *got.Spec.Drivers[0].Allocatable.Count != 1<<31-1 || len(have.Spec.Drivers) != 2 || have.Spec.Drivers[0].Name != "z" {
		t.Errorf("got %+v", got.Spec)
	}
	if _, differs := Node(got, "u", infos); differs {
		t.Error("it never ends")
	}
	got.OwnerReferences = append(got.OwnerReferences, metav1.OwnerReference{Kind: "Other", UID: "o"})
	renewed, differs := Node(got, "u2", infos)
	if !differs || len(renewed.OwnerReferences) != 2 || renewed.OwnerReferences[1].UID != "u2" || got.OwnerReferences[0].UID != "u" {
		t.Errorf("it is of the old Node: %+v", renewed.OwnerReferences)
	}
	if _, differs := Node(renewed, "u2", infos); differs {
		t.Error("it never ends")
	}
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"k": "v"}, Annotations: map[string]string{NodeIDs: `{"old":"2","z":"1"}`}}}
	to, differs, err := Labelled(n, infos)
	if err != nil || !differs || to.Annotations[NodeIDs] != `{"a":"id","z":"1"}` || to.Labels["x"] != "1" || to.Labels["k"] != "v" || len(n.Labels) != 1 {
		t.Errorf("got %v %v, %v", to.Labels, to.Annotations, err)
	}
	if _, differs, _ := Labelled(to, infos); differs {
		t.Error("it never ends")
	}
	to, _, _ = Labelled(to, map[string]*Info{"a": nil, "z": nil})
	if _, is := to.Annotations[NodeIDs]; is || to.Labels["x"] != "1" {
		t.Errorf("got %v %v", to.Labels, to.Annotations)
	}
	n.Annotations[NodeIDs] = "["
	if _, _, err := Labelled(n, infos); err == nil {
		t.Error("an annotation that can't be read is replaced")
	}
}

// TestRefuse: what can't be shown is left out, and says why. The others are shown.
func TestRefuse(t *testing.T) {
	of := func(key, value string) *Info { return &Info{NodeID: "id", Topology: map[string]string{key: value}} }
	for _, c := range []struct {
		info *Info
		want string
	}{
		{of("x", "1"), "topology of CSI driver d has x=1, but the Node has the label x=other"},
		{of("zone", "b"), "topology of CSI driver d has zone=b, but the Node has the label zone=a"}, // of driver c
		{&Info{}, "CSI driver d has no node ID"},
		{&Info{NodeID: strings.Repeat("x", 257)}, "the node ID of CSI driver d (NodeGetInfo) is longer than 256 bytes"},
		{&Info{NodeID: "\xff"}, "is no UTF-8 text"},
		{of("a b", "1"), `has the key "a b", which can't be a label of a Node: name part must consist of`},
		{of("a", "b c"), `has a="b c", which can't be a label of a Node: a valid label must be`},
		{of("a", strings.Repeat("x", 64<<10)), "has 65537 bytes: more than 65536 can't be labels of a Node"},
		{of("zone", "a"), ""},
		{&Info{NodeID: strings.Repeat("x", 256)}, ""},
	} {
		n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"x": "other"}}}
		infos, refused := map[string]*Info{"c": of("zone", "a"), "d": c.info, "e": {NodeID: "id"}, "gone": nil}, map[string]string{}
		Refuse(n, infos, refused)
		if c.want == "" && len(refused) > 0 || !strings.Contains(refused["d"], c.want) || (infos["d"] == nil) != (c.want != "") {
			t.Errorf("got %v, want %q", refused, c.want)
		}
		if _, _, err := Labelled(n, infos); err != nil || infos["c"] == nil || infos["e"] == nil || len(n.Labels) != 1 {
			t.Errorf("%q: %v of %v", c.want, err, infos)
		}
	}
}

// TestExpanded: a claim is expanded on the node if its volume is bigger, and says so then.
func TestExpanded(t *testing.T) {
	size := func(text string) v1.ResourceList {
		return v1.ResourceList{v1.ResourceStorage: resource.MustParse(text)}
	}
	claim := &v1.PersistentVolumeClaim{Spec: v1.PersistentVolumeClaimSpec{Resources: v1.VolumeResourceRequirements{Requests: size("1Ki")}}}
	pv := &v1.PersistentVolume{Spec: v1.PersistentVolumeSpec{Capacity: size("2Ki")}}
	if Outgrown(claim, pv) != 0 {
		t.Error("a claim without a capacity is not bound yet")
	}
	claim.Status.Capacity = size("1Ki")
	if Outgrown(claim, pv) != 2048 || !Quiet(claim) || Resizes(claim) || Outgrown(Expanded(claim, 2048), pv) != 0 {
		t.Error("a controller from before KEP-1790, or none, says nothing in the claim", Outgrown(claim, pv), Resizes(claim))
	}
	claim.Status.AllocatedResources = size("1536")
	if Outgrown(claim, pv) != 0 || Quiet(claim) {
		t.Error("it is the controller's turn", Outgrown(claim, pv))
	}
	if got := Outgrown(Marked(claim, v1.PersistentVolumeClaimNodeResizePending), pv); got != 1536 {
		t.Error("the user has asked for less, and the controller has allocated it", got)
	}
	claim.Status.AllocatedResources = nil
	claim.Status.Conditions = []v1.PersistentVolumeClaimCondition{{Type: v1.PersistentVolumeClaimFileSystemResizePending, Status: v1.ConditionTrue}, {Type: "Other"}}
	busy := Marked(claim, v1.PersistentVolumeClaimNodeResizeInProgress)
	done := Expanded(busy, 2048)
	if !Resizes(claim) || len(claim.Status.AllocatedResourceStatuses) != 0 || len(done.Status.Conditions) != 1 || len(done.Status.AllocatedResourceStatuses) != 0 ||
		done.Status.Capacity.Storage().Value() != 2048 || claim.Status.Capacity.Storage().Value() != 1024 || Outgrown(done, pv) != 0 {
		t.Errorf("%+v, then %+v", busy.Status, done.Status)
	}
	claim.Spec.Resources.Requests = size("2G")
	if got := Expanded(claim, 2e9).Status.Capacity.Storage().String(); got != "2G" {
		t.Error("the capacity, as the claim asks for it:", got)
	}
	claim.Status.AllocatedResources = size("3M")
	if got := Expanded(claim, 3e6).Status.Capacity.Storage().String(); got != "3M" {
		t.Error("the capacity, as it was allocated:", got)
	}
	claim.Status.AllocatedResources = nil
	if Outgrown(Marked(claim, v1.PersistentVolumeClaimNodeResizeInfeasible), pv) != 0 {
		t.Error("what can't be done is tried again")
	}
}

// TestElsewhere: only a volume that several nodes have mounted is expanded here although its claim is done.
func TestElsewhere(t *testing.T) {
	size := func(text string) v1.ResourceList {
		return v1.ResourceList{v1.ResourceStorage: resource.MustParse(text)}
	}
	for name, c := range map[string]struct {
		has    int64
		change func(*v1.PersistentVolumeClaim)
		want   int64
	}{
		"expanded by another node":   {has: 1024, want: 2048},
		"has its size":               {has: 2048},
		"unknown here":               {},
		"of one node":                {has: 1024, change: func(c *v1.PersistentVolumeClaim) { c.Spec.AccessModes = c.Spec.AccessModes[:1] }},
		"needs no work on nodes":     {has: 1024, change: func(c *v1.PersistentVolumeClaim) { c.Annotations = map[string]string{notOnNodes: "true"} }},
		"another expansion goes on":  {has: 1024, change: func(c *v1.PersistentVolumeClaim) { *c = *Marked(c, v1.PersistentVolumeClaimNodeResizePending) }},
		"a node says it is too much": {has: 1024, change: func(c *v1.PersistentVolumeClaim) { *c = *Marked(c, v1.PersistentVolumeClaimNodeResizeInfeasible) }},
		"not bound":                  {has: 1024, change: func(c *v1.PersistentVolumeClaim) { c.Status.Capacity = nil }},
	} {
		claim := &v1.PersistentVolumeClaim{Spec: v1.PersistentVolumeClaimSpec{AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadOnlyMany, v1.ReadWriteMany}}}
		claim.Status.Capacity = size("2Ki")
		if c.change != nil {
			c.change(claim)
		}
		if got := Elsewhere(claim, c.has); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
