package volumefiles

import (
	"bytes"
	"cmp"
	"encoding/pem"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/podobjects"
)

// trustBundle returns the file of the ClusterTrustBundles of a source. Without any, that of an optional source is
// empty.
func (s *Source) trustBundle(p *v1.ClusterTrustBundleProjection, mode *int32) ([]File, error) {
	ref, err := podobjects.BundleRef(p)
	if err != nil {
		return nil, err
	}
	bundles, err := s.Objects.TrustBundles(ref)
	switch {
	case err == nil, podobjects.StateOf(err) == podobjects.Missing && isTrue(p.Optional):
		return []File{s.private(p.Path, anchors(bundles, s.Pod.UID), mode)}, nil
	case podobjects.StateOf(err) == podobjects.Missing && ref.Kind == podobjects.SignerBundles:
		return nil, fmt.Errorf("combination of signerName and labelSelector matched zero ClusterTrustBundles: signer %q",
			ref.Name)
	default:
		return nil, err
	}
}

// anchors are the certificates of bundles, each once, without what is between them. Nobody may rely on an order, so
// each pod has them in another one, but always in the same: the file of a pod changes only when a certificate does.
func anchors(bundles []*certificatesv1beta1.ClusterTrustBundle, uid types.UID) []byte {
	type anchor struct {
		place uint64
		der   []byte
	}
	var all []anchor
	for _, b := range bundles {
		for block, rest := pem.Decode([]byte(b.Spec.TrustBundle)); block != nil; block, rest = pem.Decode(rest) {
			h := fnv.New64a()
			h.Write([]byte(uid)) //nolint:errcheck // a hash takes all
			h.Write(block.Bytes) //nolint:errcheck // a hash takes all
			all = append(all, anchor{h.Sum64(), block.Bytes})
		}
	}
	slices.SortFunc(all, func(a, b anchor) int {
		return cmp.Or(cmp.Compare(a.place, b.place), bytes.Compare(a.der, b.der))
	})
	all = slices.CompactFunc(all, func(a, b anchor) bool { return bytes.Equal(a.der, b.der) })
	var out []byte
	for _, a := range all {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.der})...)
	}
	return out
}

// certificate returns the files of a pod's certificate and its key.
func (s *Source) certificate(p *v1.PodCertificateProjection, ref podobjects.Ref, mode *int32) ([]File, error) {
	if p.CredentialBundlePath == "" && p.KeyPath == "" && p.CertificateChainPath == "" {
		return nil, errors.New("podCertificate projection requires credentialBundlePath, or keyPath and certificateChainPath")
	}
	c, err := s.Objects.Certificate(ref)
	if err != nil {
		return nil, err
	}
	var files []File
	for _, f := range []struct {
		path string
		data []byte
	}{
		{p.CredentialBundlePath, slices.Concat(c.Key.PEM(), c.Chain)}, {p.KeyPath, c.Key.PEM()},
		{p.CertificateChainPath, c.Chain},
	} {
		if f.path != "" {
			files = append(files, s.private(f.path, f.data, mode))
		}
	}
	return files, nil
}
