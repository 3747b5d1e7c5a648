package podobjects

import (
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// CertificateRef is the Ref of the certificate that a source of a projected volume has.
func CertificateRef(pod *v1.Pod, v *v1.Volume, source int) Ref {
	return Ref{Kind: Certificate, Namespace: pod.Namespace, Name: v.Name, Source: int32(source)}
}

// CertificateSource is the source that the Ref of a certificate is for; nil if the pod has none.
func CertificateSource(pod *v1.Pod, r Ref) *v1.PodCertificateProjection {
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; v.Name == r.Name && v.Projected != nil && int(r.Source) < len(v.Projected.Sources) {
			return v.Projected.Sources[r.Source].PodCertificate
		}
	}
	return nil
}

// Certificate returns the certificate of a pod by its Ref (see CertificateRef), or an *Error.
func (s Set) Certificate(r Ref) (*podspec.IssuedCertificate, error) {
	return find[*podspec.IssuedCertificate](s, r)
}
