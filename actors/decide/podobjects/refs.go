package podobjects

import (
	"cmp"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"

	"github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// defaultTokenLife is the API's default for the life of a projected token, in seconds (core/v1
// ServiceAccountTokenProjection).
const defaultTokenLife = 3600

// Refs are the objects that a pod uses, sorted, without duplicates. known gives the volume of a
// claim, and the secrets of that volume. So more refs may follow when more is known, but none goes
// away that does not depend on it.
func Refs(pod *v1.Pod, known Set) []Ref {
	var c collector
	c.namespace = pod.Namespace
	spec := &pod.Spec
	for ct := range podspec.All(spec) {
		c.env(ct.Env, ct.EnvFrom)
	}
	for v := range podspec.Volumes(spec) {
		c.volume(pod, v, known)
	}
	for i := range spec.ImagePullSecrets {
		c.add(Secret, spec.ImagePullSecrets[i].Name)
	}
	if name := runtimeClass(pod); name != "" {
		c.addIn(RuntimeClass, "", name)
	}
	if !known.linkless {
		c.refs = append(c.refs, servicesRef(pod))
	}
	return sorted(c.refs)
}

// VolumeRefs are the objects that the volumes that a pod uses need.
func VolumeRefs(pod *v1.Pod, known Set) []Ref {
	c := collector{namespace: pod.Namespace}
	for v := range podspec.Volumes(&pod.Spec) {
		c.volume(pod, v, known)
	}
	return sorted(c.refs)
}

// EnvKnown says whether everything that a container's variables depend on is known, found or not:
// the named objects and the services. A static pod does not wait for services, because the
// apiserver may depend on it.
func (s Set) EnvKnown(pod *v1.Pod, container *v1.Container) bool {
	if !podspec.Static(pod) && s.Get(servicesRef(pod)).State == Unknown {
		return false
	}
	if len(container.Env) == 0 && len(container.EnvFrom) == 0 {
		return true
	}
	c := collector{namespace: pod.Namespace}
	c.env(container.Env, container.EnvFrom)
	return s.Settled(c.refs)
}

// SandboxKnown says whether everything that a pod's sandbox depends on is known: its RuntimeClass, and the groups of
// its PersistentVolumes.
func (s Set) SandboxKnown(pod *v1.Pod) bool {
	c := collector{namespace: pod.Namespace}
	c.addIn(RuntimeClass, "", runtimeClass(pod))
	for v := range podspec.Volumes(&pod.Spec) {
		name := ClaimName(pod, v)
		c.add(Claim, name)
		if claim, err := s.Claim(pod.Namespace, name); err == nil {
			c.addIn(Volume, "", claim.Spec.VolumeName)
		}
	}
	return s.Settled(c.refs)
}

// RuntimeHandler is the handler of a pod's RuntimeClass, empty for the runtime's default; or an
// *Error.
func (s Set) RuntimeHandler(pod *v1.Pod) (string, error) {
	name := runtimeClass(pod)
	if name == "" {
		return "", nil
	}
	class, err := find[*nodev1.RuntimeClass](s, Ref{Kind: RuntimeClass, Name: name})
	if err != nil {
		return "", err
	}
	return class.Handler, nil
}

func runtimeClass(pod *v1.Pod) string {
	if pod.Spec.RuntimeClassName == nil {
		return ""
	}
	return *pod.Spec.RuntimeClassName
}

// PullSecrets are the secrets for pulling a pod's images.
func PullSecrets(pod *v1.Pod) []Ref {
	c := collector{namespace: pod.Namespace}
	for i := range pod.Spec.ImagePullSecrets {
		c.add(Secret, pod.Spec.ImagePullSecrets[i].Name)
	}
	return sorted(c.refs)
}

// ReadPullSecrets reads the secrets for pulling a pod's images.
func ReadPullSecrets(pod *v1.Pod, objects Set) *imagepull.PullSecrets {
	known := true
	var found []*v1.Secret
	var absent []string
	for _, r := range PullSecrets(pod) {
		switch secret, err := objects.Secret(r.Namespace, r.Name); {
		case err == nil:
			found = append(found, secret)
		case StateOf(err) == Unknown:
			known = false
		default:
			absent = append(absent, r.Name)
		}
	}
	return imagepull.NewPullSecrets(known, found, absent)
}

// servicesRef: a pod without service links still gets default/kubernetes.
func servicesRef(pod *v1.Pod) Ref { return Ref{Kind: Services, Namespace: pod.Namespace} }

// TokenRef is the Ref of a projected token.
func TokenRef(pod *v1.Pod, t *v1.ServiceAccountTokenProjection) Ref {
	r := Ref{Kind: Token, Namespace: pod.Namespace, Name: ServiceAccount(pod), Audience: t.Audience,
		ExpirationSeconds: defaultTokenLife}
	if t.ExpirationSeconds != nil {
		r.ExpirationSeconds = *t.ExpirationSeconds
	}
	return r
}

// ServiceAccount is the name of a pod's service account.
func ServiceAccount(pod *v1.Pod) string {
	if pod.Spec.ServiceAccountName == "" {
		return "default"
	}
	return pod.Spec.ServiceAccountName
}

// ClaimName is the name of a volume's claim; empty if it has none. A generic ephemeral volume has
// its own claim (KEP-1698).
func ClaimName(pod *v1.Pod, v *v1.Volume) string {
	switch {
	case v.PersistentVolumeClaim != nil:
		return v.PersistentVolumeClaim.ClaimName
	case v.Ephemeral != nil:
		return pod.Name + "-" + v.Name
	default:
		return ""
	}
}

type collector struct {
	namespace string
	refs      []Ref
}

// add adds an object of the pod's namespace. It ignores references without a name, which the API
// allows in old pods.
func (c *collector) add(k Kind, name string) { c.addIn(k, c.namespace, name) }

func (c *collector) addIn(k Kind, namespace, name string) {
	if name != "" {
		c.refs = append(c.refs, Ref{Kind: k, Namespace: namespace, Name: name})
	}
}

func (c *collector) env(env []v1.EnvVar, from []v1.EnvFromSource) {
	for i := range from {
		if r := from[i].ConfigMapRef; r != nil {
			c.add(ConfigMap, r.Name)
		}
		if r := from[i].SecretRef; r != nil {
			c.add(Secret, r.Name)
		}
	}
	for i := range env {
		if env[i].ValueFrom == nil {
			continue
		}
		if r := env[i].ValueFrom.ConfigMapKeyRef; r != nil {
			c.add(ConfigMap, r.Name)
		}
		if r := env[i].ValueFrom.SecretKeyRef; r != nil {
			c.add(Secret, r.Name)
		}
	}
}

func (c *collector) volume(pod *v1.Pod, v *v1.Volume, known Set) {
	switch {
	case v.ConfigMap != nil:
		c.add(ConfigMap, v.ConfigMap.Name)
	case v.Secret != nil:
		c.add(Secret, v.Secret.SecretName)
	case v.Projected != nil:
		for i := range v.Projected.Sources {
			c.projection(pod, v, i)
		}
	case v.CSI != nil && v.CSI.NodePublishSecretRef != nil:
		c.add(Secret, v.CSI.NodePublishSecretRef.Name)
	case v.ISCSI != nil && v.ISCSI.SecretRef != nil:
		c.add(Secret, v.ISCSI.SecretRef.Name)
	}
	if pv, err := csi.MigratedInline(v, pod.Namespace); err == nil && pv != nil {
		c.persistent(&pv.Spec.PersistentVolumeSource)
	}
	name := ClaimName(pod, v)
	if name == "" {
		return
	}
	c.add(Claim, name)
	claim, err := known.Claim(pod.Namespace, name)
	if err != nil || claim.Spec.VolumeName == "" {
		return
	}
	c.refs = append(c.refs, Ref{Kind: Volume, Name: claim.Spec.VolumeName})
	pv, err := known.Volume(claim.Spec.VolumeName)
	if err == nil {
		pv, err = csi.Migrated(pv)
	}
	if err == nil {
		c.persistent(&pv.Spec.PersistentVolumeSource)
	}
}

func (c *collector) projection(pod *v1.Pod, v *v1.Volume, source int) {
	switch s := &v.Projected.Sources[source]; {
	case s.ConfigMap != nil:
		c.add(ConfigMap, s.ConfigMap.Name)
	case s.Secret != nil:
		c.add(Secret, s.Secret.Name)
	case s.ServiceAccountToken != nil:
		c.refs = append(c.refs, TokenRef(pod, s.ServiceAccountToken))
	case s.ClusterTrustBundle != nil:
		if r, err := BundleRef(s.ClusterTrustBundle); err == nil {
			c.refs = append(c.refs, r)
		}
	case s.PodCertificate != nil:
		c.refs = append(c.refs, CertificateRef(pod, v, source))
	}
}

// persistent adds the secrets that a node needs for a PersistentVolume.
func (c *collector) persistent(s *v1.PersistentVolumeSource) {
	var secrets []*v1.SecretReference
	switch {
	case s.CSI != nil:
		secrets = []*v1.SecretReference{s.CSI.NodeStageSecretRef, s.CSI.NodePublishSecretRef, s.CSI.NodeExpandSecretRef}
	case s.ISCSI != nil:
		secrets = []*v1.SecretReference{s.ISCSI.SecretRef}
	}
	for _, r := range secrets {
		if r != nil {
			c.addIn(Secret, cmp.Or(r.Namespace, c.namespace), r.Name) // the namespace of an iSCSI secret may be left out
		}
	}
}
