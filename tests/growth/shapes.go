package growth

import (
	"encoding/base64"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/troupe-dev/troupe/actors/port"
)

// Shape is a pod with n of something, and the objects that it needs.
type Shape struct {
	Name string
	// Most is about how many fit into what an apiserver takes.
	Most int
	Make func(p *v1.Pod, n int) []port.APIObject
}

// Base is a pod with one container.
func Base(name string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: v1.PodSpec{
			TerminationGracePeriodSeconds: ptr.To(int64(1)),
			Containers:                    []v1.Container{{Name: "c", Image: "registry.test/app:1"}},
		},
	}
}

// Few are fields that are short, or that nothing of a node reads, and why.
var Few = map[string]string{
	"Container.ResizePolicy":                                          "one for CPU and one for memory",
	"EphemeralContainerCommon.ResizePolicy":                           "not for ephemeral containers",
	"Container.RestartPolicyRules":                                    "20",
	"EphemeralContainerCommon.RestartPolicyRules":                     "not for ephemeral containers",
	"ContainerRestartRuleOnExitCodes.Values":                          "255",
	"EphemeralContainerCommon.Ports":                                  "not for ephemeral containers",
	"PersistentVolumeClaimSpec.AccessModes":                           "4, and for the controller of ephemeral volumes",
	"VolumeResourceRequirements.Limits":                               "for the controller of ephemeral volumes",
	"VolumeResourceRequirements.Requests":                             "for the controller of ephemeral volumes",
	"PodDNSConfig.Nameservers":                                        "3",
	"PodDNSConfig.Searches":                                           "32",
	"PodSpec.Overhead":                                                "what the RuntimeClass says",
	"PodSpec.SchedulingGates":                                         "none when the pod comes to a node",
	"PodSpec.ResourceClaims":                                          "no simulated node has drivers; actors/claims.TestManyClaims",
	"ResourceRequirements.Claims":                                     "no simulated node has drivers; decide/claims.TestManyUses",
	"RBDVolumeSource.CephMonitors":                                    "no such volumes any more",
	"CephFSVolumeSource.Monitors":                                     "no such volumes any more",
	"FlexVolumeSource.Options":                                        "not supported",
	"LabelSelectorRequirement.Values":                                 "read by the scheduler",
	"PodCertificateProjection.UserAnnotations":                        "copied into the request",
	"PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution":      "read by the scheduler; as that of PodAntiAffinity",
	"PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution":     "read by the scheduler; as that of PodAntiAffinity",
	"PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution": "read by the scheduler; as the required ones",
	"PodAffinityTerm.Namespaces":                                      "read by the scheduler",
	"PodAffinityTerm.MatchLabelKeys":                                  "read by the scheduler",
	"PodAffinityTerm.MismatchLabelKeys":                               "read by the scheduler",
	"TopologySpreadConstraint.MatchLabelKeys":                         "read by the scheduler",
	"LabelSelector.MatchLabels":                                       "read by the scheduler",
}

func of(f func(p *v1.Pod, i int)) func(*v1.Pod, int) []port.APIObject {
	return func(p *v1.Pod, n int) []port.APIObject {
		for i := range n {
			f(p, i)
		}
		return nil
	}
}

func inContainer(f func(c *v1.Container, i int)) func(*v1.Pod, int) []port.APIObject {
	return of(func(p *v1.Pod, i int) { f(&p.Spec.Containers[0], i) })
}

func inEphemeral(f func(c *v1.EphemeralContainer, i int)) func(*v1.Pod, int) []port.APIObject {
	return of(func(p *v1.Pod, i int) {
		if len(p.Spec.EphemeralContainers) == 0 {
			p.Spec.EphemeralContainers = []v1.EphemeralContainer{ephemeral(0)}
		}
		f(&p.Spec.EphemeralContainers[0], i)
	})
}

func ephemeral(i int) v1.EphemeralContainer {
	return v1.EphemeralContainer{EphemeralContainerCommon: v1.EphemeralContainerCommon{
		Name: name("e", i), Image: "registry.test/app:1",
	}}
}

func name(prefix string, i int) string { return fmt.Sprint(prefix, i) }

// mounts adds a volume that the container mounts.
func mounts(p *v1.Pod, name string, s v1.VolumeSource) {
	p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: name, VolumeSource: s})
	c := &p.Spec.Containers[0]
	c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: name, MountPath: "/" + name})
}

func volumes(
	s func(i int) v1.VolumeSource, objects ...func(n int) []port.APIObject,
) func(*v1.Pod, int) []port.APIObject {
	return func(p *v1.Pod, n int) (out []port.APIObject) {
		for i := range n {
			mounts(p, name("v", i), s(i))
		}
		for _, f := range objects {
			out = append(out, f(n)...)
		}
		return out
	}
}

func emptyDir(int) v1.VolumeSource { return v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}} }

func meta(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "default", Name: name} }

func local(name string) v1.LocalObjectReference { return v1.LocalObjectReference{Name: name} }

// long is the value of the key a of the objects that pods name.
var long = strings.Repeat("x", 16<<10)

func configMaps(n int) (out []port.APIObject) {
	for i := range n {
		out = append(out, &v1.ConfigMap{ObjectMeta: meta(name("m", i)), Data: map[string]string{"a": "x"}})
	}
	return out
}

func theMap() []port.APIObject {
	return []port.APIObject{&v1.ConfigMap{ObjectMeta: meta("m"), Data: map[string]string{"a": long}}}
}

func theSecret() []port.APIObject {
	return []port.APIObject{&v1.Secret{ObjectMeta: meta("s"), Data: map[string][]byte{"a": []byte(long)}}}
}

func items(n int) (out []v1.KeyToPath) {
	for i := range n {
		out = append(out, v1.KeyToPath{Key: "a", Path: name("p", i)})
	}
	return out
}

func files(n int) (out []v1.DownwardAPIVolumeFile) {
	for i := range n {
		out = append(out, v1.DownwardAPIVolumeFile{
			Path: name("p", i), FieldRef: &v1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.annotations"},
		})
	}
	return out
}

func one(s func(n int) v1.VolumeSource, objects func() []port.APIObject) func(*v1.Pod, int) []port.APIObject {
	return func(p *v1.Pod, n int) []port.APIObject {
		p.Annotations = map[string]string{"long": long}
		mounts(p, "v", s(n))
		if objects == nil {
			return nil
		}
		return objects()
	}
}

func projected(s func(n int) v1.VolumeProjection) func(n int) v1.VolumeSource {
	return func(n int) v1.VolumeSource {
		return v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{s(n)}}}
	}
}

// credentials are a pull secret with n credentials that fit an image, for which it is refused.
func credentials(p *v1.Pod, n int) []port.APIObject {
	auths := make([]string, n)
	for i := range n {
		auths[i] = fmt.Sprintf(`"[p%d]rivate.test":{"auth":%q}`, i,
			base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "u:%d", i)))
	}
	p.Spec.Containers[0].Image = PrivateImage
	p.Spec.ImagePullSecrets = []v1.LocalObjectReference{local("pull")}
	return []port.APIObject{&v1.Secret{
		ObjectMeta: meta("pull"), Type: v1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{v1.DockerConfigJsonKey: []byte(`{"auths":{` + strings.Join(auths, ",") + `}}`)},
	}}
}

// PrivateImage needs credentials that no pod has.
const PrivateImage = "private.test/app:1"

// Driver is a CSI driver of the node. It attaches nothing, because a node alone has no controller that does.
const Driver = "csi.example.com"

func inline(driver string) v1.VolumeSource {
	return v1.VolumeSource{CSI: &v1.CSIVolumeSource{Driver: driver}}
}

func theDriver(int) []port.APIObject {
	d := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: Driver}}
	d.Spec.AttachRequired = new(false)
	d.Spec.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{
		storagev1.VolumeLifecycleEphemeral, storagev1.VolumeLifecyclePersistent,
	}
	return []port.APIObject{d}
}

// claims are bound to volumes of Driver.
func claims(n int) (out []port.APIObject) {
	size := v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	for i := range n {
		claim, pv := name("p", i), name("pv", i)
		out = append(out, &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: pv}, Spec: v1.PersistentVolumeSpec{
			AccessModes: modes, Capacity: size,
			ClaimRef: &v1.ObjectReference{Namespace: "default", Name: claim, UID: types.UID(claim)},
			PersistentVolumeSource: v1.PersistentVolumeSource{
				CSI: &v1.CSIPersistentVolumeSource{Driver: Driver, VolumeHandle: pv},
			},
		}}, &v1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: claim, UID: types.UID(claim)},
			Spec:       v1.PersistentVolumeClaimSpec{AccessModes: modes, VolumeName: pv},
			Status:     v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound, Capacity: size},
		})
	}
	return out
}

func term(i int) v1.NodeSelectorTerm {
	return v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{
		{Key: name("k", i), Operator: v1.NodeSelectorOpDoesNotExist},
	}}
}

func affinity(p *v1.Pod) *v1.NodeAffinity {
	if p.Spec.Affinity == nil {
		p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{}}},
		}}
	}
	return p.Spec.Affinity.NodeAffinity
}

func selector(p *v1.Pod) *v1.NodeSelector {
	return affinity(p).RequiredDuringSchedulingIgnoredDuringExecution
}

func antiAffinity(p *v1.Pod) *v1.PodAntiAffinity {
	if p.Spec.Affinity == nil {
		p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{}}
	}
	return p.Spec.Affinity.PodAntiAffinity
}

func more(i int) resource.Quantity { return resource.MustParse(fmt.Sprint(i%9 + 1)) }
