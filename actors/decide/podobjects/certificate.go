package podobjects

import (
	"time"

	v1 "k8s.io/api/core/v1"
)

// PrivateKey is a private key. It has no way into a text: formatting, encoding and tracing it show nothing of it. It is
// behind a function, because package fmt follows pointers.
type PrivateKey struct{ pem func() []byte }

// NewPrivateKey makes one of a PEM block, and takes ownership of it.
func NewPrivateKey(pem []byte) PrivateKey { return PrivateKey{func() []byte { return pem }} }

// PEM is the key as a PEM block. It must not be changed.
func (k PrivateKey) PEM() []byte {
	if k.pem == nil {
		return nil
	}
	return k.pem()
}

// String says that there is a key.
func (PrivateKey) String() string { return "(private key)" }

// GoString is String.
func (k PrivateKey) GoString() string { return k.String() }

// IssuedCertificate is a certificate of a pod, with its private key.
type IssuedCertificate struct {
	Key PrivateKey
	// Chain is the certificate and those of intermediate authorities, as PEM blocks.
	Chain []byte
	// RefreshAt is when to ask for the next one, Expires when this one is of no more use.
	RefreshAt, Expires time.Time
}

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
func (s Set) Certificate(r Ref) (*IssuedCertificate, error) { return find[*IssuedCertificate](s, r) }
