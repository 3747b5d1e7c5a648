package podobjects

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/tests/check"
)

func bundle(name, signer string, labels map[string]string) *certificatesv1beta1.ClusterTrustBundle {
	return &certificatesv1beta1.ClusterTrustBundle{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, UID: "u", ResourceVersion: "1"},
		Spec:       certificatesv1beta1.ClusterTrustBundleSpec{SignerName: signer},
	}
}

func TestBundles(t *testing.T) {
	mesh := "example.com/mesh"
	live := bundle("example.com:mesh:a", mesh, map[string]string{"state": "live"})
	bare := bundle("example.com:mesh:b", mesh, nil)
	other := bundle("ca", "", map[string]string{"state": "live"})
	selector := func(s *metav1.LabelSelector) *v1.ClusterTrustBundleProjection {
		return &v1.ClusterTrustBundleProjection{SignerName: &mesh, LabelSelector: s}
	}
	for _, c := range []struct {
		what   string
		source *v1.ClusterTrustBundleProjection
		want   string
	}{
		{"by name", &v1.ClusterTrustBundleProjection{Name: new("ca")}, "ca"},
		{"all of a signer", selector(&metav1.LabelSelector{}), "example.com:mesh:a example.com:mesh:b"},
		{"some of a signer", selector(&metav1.LabelSelector{MatchLabels: map[string]string{"state": "live"}}), "example.com:mesh:a"},
		{"those without a label", selector(&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "state", Operator: metav1.LabelSelectorOpDoesNotExist},
		}}), "example.com:mesh:b"},
		{"no selector selects nothing", selector(nil), ""},
	} {
		r, err := BundleRef(c.source)
		if err != nil {
			t.Fatal(c.what, err)
		}
		var got []string
		for _, b := range []*certificatesv1beta1.ClusterTrustBundle{other, live, bare} {
			if r.Bundles()(b) {
				got = append(got, b.Name)
			}
		}
		check.Equal(t, strings.Join(got, " "), c.want, "%s: %v selects %q", c.what, r, got)
	}
	for want, source := range map[string]*v1.ClusterTrustBundleProjection{
		"clusterTrustBundle projection requires either name or signerName to be set": {},
		`clusterTrustBundle.labelSelector: "x" is not a valid label selector operator`: selector(&metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "x"}},
		}),
	} {
		if _, err := BundleRef(source); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestSameBundles(t *testing.T) {
	e := func(all ...*certificatesv1beta1.ClusterTrustBundle) Entry {
		return Entry{Ref: Ref{Kind: SignerBundles, Name: "s"}, State: Found, Object: &TrustBundles{all}}
	}
	newer := bundle("a", "s", nil)
	newer.ResourceVersion = "2"
	if !e(bundle("a", "s", nil)).Same(e(bundle("a", "s", nil))) || e(bundle("a", "s", nil)).Same(e(newer)) || e(newer).Same(e(newer, newer)) {
		t.Error("Same is wrong")
	}
}

// TestPrivateKeyIsNotShown: nothing that makes a text of a value makes one of the key.
func TestPrivateKeyIsNotShown(t *testing.T) {
	const secret = "-----BEGIN PRIVATE KEY-----"
	c := &podspec.IssuedCertificate{Key: podspec.NewPrivateKey([]byte(secret)), Chain: []byte("chain"), Expires: time.Unix(1, 0)}
	r := Ref{Kind: Certificate, Namespace: "shop", Name: "creds"}
	set := NewSet([]Entry{{Ref: r, State: Found, Object: c}})
	encoded := check.Value(json.Marshal(map[string]any{"c": c, "key": c.Key}))(t)
	hidden := struct{ c podspec.IssuedCertificate }{*c}
	bytes := fmt.Sprintf("%d", []byte(secret))
	texts := []string{string(encoded)}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		texts = append(texts, fmt.Sprintf(verb, c), fmt.Sprintf(verb, *c), fmt.Sprintf(verb, c.Key), fmt.Sprintf(verb, set),
			fmt.Sprintf(verb, hidden), fmt.Sprintf(verb, set.Entries()))
	}
	for _, text := range texts {
		if strings.Contains(text, "PRIVATE") || strings.Contains(text, bytes[1:20]) || strings.Contains(text, fmt.Sprintf("%x", secret[:8])) {
			t.Errorf("the key is in %s", text)
		}
	}
	if got, err := set.Certificate(r); err != nil || string(got.Key.PEM()) != secret {
		t.Errorf("Certificate: %v, %v", got, err)
	}
	if (podspec.PrivateKey{}).PEM() != nil {
		t.Error("no key has a text")
	}
}
