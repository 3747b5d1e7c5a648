package apicontract

import (
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

// kinds are all kinds, each with a way to make an object of it that any
// apiserver takes.
var kinds = []struct {
	kind port.APIKind
	make func(*suite) port.APIObject
}{
	{port.PodKind, func(s *suite) port.APIObject { return s.pod("o", "") }},
	{port.NodeKind, func(s *suite) port.APIObject { return s.node("o") }},
	{port.LeaseKind, func(s *suite) port.APIObject { return s.lease("o") }},
	{port.EventKind, func(s *suite) port.APIObject {
		return &v1.Event{
			ObjectMeta: s.meta("o"), Reason: "Started", Message: "it is here", Type: v1.EventTypeNormal,
			InvolvedObject: v1.ObjectReference{Kind: "Pod", Namespace: s.Namespace, Name: "p"},
			Source:         v1.EventSource{Component: "contract", Host: "n"},
			FirstTimestamp: metav1.NewTime(s.now()), LastTimestamp: metav1.NewTime(s.now()), Count: 1,
		}
	}},
	{port.ConfigMapKind, func(s *suite) port.APIObject { return s.configMap("o") }},
	{port.SecretKind, func(s *suite) port.APIObject {
		return &v1.Secret{ObjectMeta: s.meta("o"), Type: v1.SecretTypeOpaque, Data: map[string][]byte{"k": {0, 1, 255}}}
	}},
	{port.ServiceKind, func(s *suite) port.APIObject {
		return &v1.Service{ObjectMeta: s.meta("o"), Spec: v1.ServiceSpec{
			Ports: []v1.ServicePort{{Name: "web", Port: 80}}, Selector: map[string]string{"app": "contract"},
		}}
	}},
	{port.ServiceAccountKind, func(s *suite) port.APIObject { return &v1.ServiceAccount{ObjectMeta: s.meta("o")} }},
	{port.RuntimeClassKind, func(s *suite) port.APIObject {
		return &nodev1.RuntimeClass{ObjectMeta: s.clusterMeta("o"), Handler: "runc"}
	}},
	{port.PersistentVolumeClaimKind, func(s *suite) port.APIObject {
		return &v1.PersistentVolumeClaim{ObjectMeta: s.meta("o"), Spec: v1.PersistentVolumeClaimSpec{
			AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}, StorageClassName: new(string),
			Resources: v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}},
		}}
	}},
	{port.PersistentVolumeKind, func(s *suite) port.APIObject {
		return &v1.PersistentVolume{ObjectMeta: s.clusterMeta("o"), Spec: v1.PersistentVolumeSpec{
			AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}, PersistentVolumeReclaimPolicy: v1.PersistentVolumeReclaimRetain,
			Capacity:               v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")},
			PersistentVolumeSource: v1.PersistentVolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/data"}},
		}}
	}},
	{port.CSINodeKind, func(s *suite) port.APIObject {
		return &storagev1.CSINode{ObjectMeta: s.clusterMeta("o"), Spec: storagev1.CSINodeSpec{
			Drivers: []storagev1.CSINodeDriver{{Name: "csi.contract.test", NodeID: "n-1", TopologyKeys: []string{"zone"}}},
		}}
	}},
	{port.VolumeAttachmentKind, func(s *suite) port.APIObject {
		return &storagev1.VolumeAttachment{ObjectMeta: s.clusterMeta("o"), Spec: storagev1.VolumeAttachmentSpec{
			Attacher: "csi.contract.test", NodeName: "n", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new("pv")},
		}}
	}},
	{port.CSIDriverKind, func(s *suite) port.APIObject {
		return &storagev1.CSIDriver{ObjectMeta: s.clusterMeta("o")}
	}},
	{port.ResourceClaimKind, func(s *suite) port.APIObject {
		return &resourcev1.ResourceClaim{ObjectMeta: s.meta("o"), Spec: resourcev1.ResourceClaimSpec{
			Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
				Name: "one", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "contract.test"},
			}}},
		}}
	}},
	{port.ClusterTrustBundleKind, func(s *suite) port.APIObject { return s.trustBundle("o") }},
	{port.PodCertificateRequestKind, func(s *suite) port.APIObject { return s.certificateRequest("o") }},
}

// meta is the metadata of a namespaced object.
func (s *suite) meta(name string) metav1.ObjectMeta {
	m := s.clusterMeta(name)
	m.Namespace = s.Namespace
	return m
}

func (s *suite) clusterMeta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: s.name + "-" + name, Labels: map[string]string{"contract": s.name, "keep": "1"}}
}

// pod is a pod with two containers, bound to a node if node isn't empty.
func (s *suite) pod(name, node string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: s.meta(name),
		Spec: v1.PodSpec{
			NodeName: node, TerminationGracePeriodSeconds: new(int64(30)), AutomountServiceAccountToken: new(bool),
			Containers: []v1.Container{{Name: "a", Image: "contract.test/a:1"}, {Name: "b", Image: "contract.test/b:1"}},
		},
	}
}

// bound is a pod on a node that nobody else has.
func (s *suite) bound(name string) *v1.Pod { return s.pod(name, s.name+"-node") }

func (s *suite) node(name string) *v1.Node {
	return &v1.Node{
		ObjectMeta: s.clusterMeta(name),
		// Unschedulable keeps a scheduler, if there is one, from using it.
		Spec: v1.NodeSpec{Unschedulable: true},
		Status: v1.NodeStatus{
			Capacity:   v1.ResourceList{v1.ResourceCPU: resource.MustParse("4"), v1.ResourcePods: resource.MustParse("110")},
			Conditions: []v1.NodeCondition{nodeCondition(v1.NodeReady, v1.ConditionTrue, s.now())},
		},
	}
}

func nodeCondition(t v1.NodeConditionType, status v1.ConditionStatus, at time.Time) v1.NodeCondition {
	return v1.NodeCondition{Type: t, Status: status, Reason: "Contract", LastHeartbeatTime: metav1.NewTime(at), LastTransitionTime: metav1.NewTime(at)}
}

func (s *suite) lease(name string) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: s.meta(name), Spec: coordinationv1.LeaseSpec{
		HolderIdentity: new("contract"), LeaseDurationSeconds: new(int32(40)), RenewTime: new(metav1.NewMicroTime(s.now())),
	}}
}

func (s *suite) configMap(name string) *v1.ConfigMap {
	return &v1.ConfigMap{ObjectMeta: s.meta(name), Data: map[string]string{"k": "v", "l": "w"}}
}

func label(key, value string) func(port.APIObject) {
	return func(o port.APIObject) {
		labels := map[string]string{key: value}
		for k, v := range o.GetLabels() {
			if k != key {
				labels[k] = v
			}
		}
		if value == "" {
			delete(labels, key)
		}
		o.SetLabels(labels)
	}
}

// testKind is the life of one object of a kind.
func testKind(s *suite, of func(*suite) port.APIObject) {
	o := of(s)
	k := port.APIKeyOf(o)
	v := s.started(port.Selection{Kind: k.Kind, Namespace: k.Namespace, Field: "metadata.name=" + k.Name})
	s.get(k).fails(port.NotFound)

	made := s.made(o)
	created := made.GetCreationTimestamp()
	if made.GetUID() == "" || created.IsZero() || versionOf(s, made) == 0 {
		s.Errorf("%s was created without a UID, a creation time or a version: %+v", k, made)
	}
	if o.GetUID() != "" || o.GetResourceVersion() != "" {
		s.Errorf("%s: Create changed what it was given", k)
	}
	check.Equal(s, port.APIKeyOf(made), k, "Create of %s gave %s", k, port.APIKeyOf(made))
	s.create(of(s)).fails(port.AlreadyExists)
	v.reaches(made)

	got := s.get(k).ok()
	check.Equal(s, got.GetUID(), made.GetUID(), "Get gave UID %s, Create %s", got.GetUID(), made.GetUID())

	updated := s.update(with(got, label("a", "1"))).ok()
	if versionOf(s, updated) <= versionOf(s, got) || updated.GetLabels()["a"] != "1" || updated.GetUID() != made.GetUID() {
		s.Errorf("Update of version %s gave %+v", got.GetResourceVersion(), updated)
	}
	s.update(with(got, label("a", "2"))).fails(port.Conflict)
	v.reaches(updated)

	// A patch from an old version leaves alone what others did since.
	patched := s.patch(got, with(got, func(o port.APIObject) { label("b", "1")(o); label("keep", "")(o) })).ok()
	if l := patched.GetLabels(); l["a"] != "1" || l["b"] != "1" || l["contract"] != s.name || len(l) != 3 {
		s.Errorf("%s: labels are %v after Update set a, and Patch set b and took keep away", k, l)
	}
	v.reaches(patched)
	s.patchAs(port.APIPatch{Key: k, From: withUID(patched), To: with(withUID(patched), label("c", "1"))}).fails(port.Conflict)

	s.unfinalized(patched)
	s.delete(port.APIDelete{Key: k, UID: "somebody-else", Grace: new(int64)}).fails(port.Conflict)
	s.deleteNow(patched).ok()
	s.get(k).fails(port.NotFound)
	s.deleteNow(patched).fails(port.NotFound)
	s.patch(patched, with(patched, label("d", "1"))).fails(port.NotFound)
	if k.Kind != port.LeaseKind && k.Kind != port.EventKind { // Update makes these
		s.update(patched).fails(port.NotFound, port.Conflict)
	}
	v.loses(k)

	again := s.create(of(s)).ok()
	if again.GetUID() == made.GetUID() || versionOf(s, again) <= versionOf(s, patched) {
		s.Errorf("%s: the next one has UID %s and version %s, the last one had %s and %s", k,
			again.GetUID(), again.GetResourceVersion(), patched.GetUID(), patched.GetResourceVersion())
	}
	v.reaches(again)
	s.patch(patched, with(patched, label("e", "1"))).fails(port.Conflict)
}

// withUID is a copy that claims to be another object of the name.
func withUID(o port.APIObject) port.APIObject {
	return with(o, func(o port.APIObject) { o.SetUID("12345678-1234-1234-1234-123456789abc") })
}

func kindName(k port.APIKind) string { return fmt.Sprintf("Kind/%s", k) }
