package port

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// PodKeys are the private keys of pods' certificates (KEP-4317). The calling convention is Runtime's.
type PodKeys interface {
	// NewPodKey makes a key of a type that core/v1 PodCertificateProjection.keyType names.
	NewPodKey(ctx context.Context, keyType string, done func(PodKey, error))
	// WrittenCertificate reads the certificate and the key that a source wrote to a volume of a pod; nil if they are not
	// there or don't belong together. Its RefreshAt is zero.
	WrittenCertificate(ctx context.Context, at CertificateFiles, done func(*podspec.IssuedCertificate, error))
}

// PodKey is a new key, with a PKCS#10 request without names (DER) that it has signed.
type PodKey struct {
	Key   podspec.PrivateKey
	Proof []byte
}

// CertificateFiles are the files of a source of a projected volume.
type CertificateFiles struct {
	Pod    types.UID
	Volume string
	Source *v1.PodCertificateProjection
}
