package podobjects

import (
	"errors"
	"fmt"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// TrustBundles are the ClusterTrustBundles of one Ref, sorted by name.
type TrustBundles struct {
	Items []*certificatesv1beta1.ClusterTrustBundle
}

// matchesNothing is a selector that nothing matches: that of a projection without labelSelector (core/v1
// ClusterTrustBundleProjection).
const matchesNothing = "none,!none"

// BundleRef is the Ref of a source of ClusterTrustBundles, or says what is wrong with the source.
func BundleRef(p *v1.ClusterTrustBundleProjection) (Ref, error) {
	switch {
	case p.Name != nil:
		return Ref{Kind: TrustBundle, Name: *p.Name}, nil
	case p.SignerName == nil:
		return Ref{}, errors.New("clusterTrustBundle projection requires either name or signerName to be set")
	case p.LabelSelector == nil:
		return Ref{Kind: SignerBundles, Name: *p.SignerName, Selector: matchesNothing}, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(p.LabelSelector)
	if err != nil {
		return Ref{}, fmt.Errorf("clusterTrustBundle.labelSelector: %w", err)
	}
	return Ref{Kind: SignerBundles, Name: *p.SignerName, Selector: selector.String()}, nil
}

// Bundles says which ClusterTrustBundles are meant by r, a Ref of BundleRef.
func (r Ref) Bundles() func(*certificatesv1beta1.ClusterTrustBundle) bool {
	if r.Kind == TrustBundle {
		return func(b *certificatesv1beta1.ClusterTrustBundle) bool { return b.Name == r.Name }
	}
	selector, err := labels.Parse(r.Selector)
	if err != nil {
		panic("podobjects: " + r.String() + " has a selector that is none")
	}
	return func(b *certificatesv1beta1.ClusterTrustBundle) bool {
		return b.Spec.SignerName == r.Name && selector.Matches(labels.Set(b.Labels))
	}
}

// TrustBundles returns ClusterTrustBundles by their Ref (see BundleRef), at least one; or an *Error.
func (s Set) TrustBundles(r Ref) ([]*certificatesv1beta1.ClusterTrustBundle, error) {
	b, err := find[*TrustBundles](s, r)
	if err != nil {
		return nil, err
	}
	return b.Items, nil
}
