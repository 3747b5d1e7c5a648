package differ

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// makeObjects makes the namespace, and what its pods refer to.
func (s *side) makeObjects(ctx context.Context) (err error) {
	defer check.Return(&err)
	core, options := s.admin.CoreV1(), metav1.CreateOptions{}
	name := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }
	check.Must(core.Namespaces().Create(ctx, &v1.Namespace{ObjectMeta: name(s.namespace)}, options))
	check.Must(core.ConfigMaps(s.namespace).Create(ctx, &v1.ConfigMap{
		ObjectMeta: name("cm"), Data: map[string]string{"plain": "value", "file.txt": "two\nlines\n", "empty": "", "1st": "not a C name"},
		BinaryData: map[string][]byte{"binary": {0, 1, 254}},
	}, options))
	check.Must(core.Secrets(s.namespace).Create(ctx, &v1.Secret{ObjectMeta: name("sec"), StringData: map[string]string{"user": "me", "pass.word": "s3cret"}}, options))
	check.Must(core.Secrets(s.namespace).Create(ctx, &v1.Secret{
		ObjectMeta: name("pull"), Type: v1.SecretTypeDockerConfigJson,
		StringData: map[string]string{v1.DockerConfigJsonKey: `{"auths":{"troupe.local":{"username":"u","password":"p"}}}`},
	}, options))
	check.Must(core.ServiceAccounts(s.namespace).Create(ctx, &v1.ServiceAccount{
		ObjectMeta: name("other"), AutomountServiceAccountToken: new(false), ImagePullSecrets: []v1.LocalObjectReference{{Name: "pull"}},
	}, options))
	service := check.Must(core.Services(s.namespace).Create(ctx, &v1.Service{ObjectMeta: name("web"), Spec: v1.ServiceSpec{
		Selector: map[string]string{"no": "pod"}, Ports: []v1.ServicePort{{Name: "http", Port: 80}, {Name: "dns", Port: 53, Protocol: v1.ProtocolUDP}},
	}}, options))
	s.serviceIP = service.Spec.ClusterIP
	check.Must(core.Services(s.namespace).Create(ctx, &v1.Service{ObjectMeta: name("headless"), Spec: v1.ServiceSpec{
		ClusterIP: v1.ClusterIPNone, Ports: []v1.ServicePort{{Port: 80}},
	}}, options))
	for _, claim := range []string{"host", "local", "group"} {
		check.OK(s.makeClaim(ctx, claim))
	}
	return lab.Eventually(ctx, patience, "the namespace has what the controllers make", func() error {
		check.Must(core.ServiceAccounts(s.namespace).Get(ctx, "default", metav1.GetOptions{}))
		check.Must(core.ConfigMaps(s.namespace).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{}))
		for _, c := range check.Must(core.PersistentVolumeClaims(s.namespace).List(ctx, metav1.ListOptions{})).Items {
			if c.Status.Phase != v1.ClaimBound {
				return fmt.Errorf("claim %s is %s", c.Name, c.Status.Phase)
			}
		}
		return nil
	})
}

// makeClaim makes a claim and its volume.
func (s *side) makeClaim(ctx context.Context, name string) (err error) {
	defer check.Return(&err)
	size := v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
	path := s.host + "/claims/" + name
	source := v1.PersistentVolumeSource{HostPath: &v1.HostPathVolumeSource{Path: path}}
	volume := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: s.namespace + "-" + name}}
	switch name {
	case "local":
		source = v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: path}}
		here := v1.NodeSelectorRequirement{Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn, Values: []string{s.Node()}}
		volume.Spec.NodeAffinity = &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{
			NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{here}}},
		}}
	case "group":
		volume.Annotations = map[string]string{"pv.beta.kubernetes.io/gid": "4321"}
	}
	access := []v1.PersistentVolumeAccessMode{v1.ReadWriteMany}
	volume.Spec.PersistentVolumeSource, volume.Spec.Capacity, volume.Spec.AccessModes = source, size, access
	volume.Spec.ClaimRef = &v1.ObjectReference{Namespace: s.namespace, Name: name}
	check.Must(s.admin.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{}))
	claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.PersistentVolumeClaimSpec{
		AccessModes: access, StorageClassName: new(""), VolumeName: volume.Name, Resources: v1.VolumeResourceRequirements{Requests: size},
	}}
	check.Must(s.admin.CoreV1().PersistentVolumeClaims(s.namespace).Create(ctx, claim, metav1.CreateOptions{}))
	return nil
}
