package volumefiles

import (
	"encoding/pem"
	"slices"
	"strings"
	"testing"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/podobjects"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/tests/check"
)

const mesh = "example.com/mesh"

func block(der string) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(der)}))
}

func bundle(texts ...string) *certificatesv1beta1.ClusterTrustBundle {
	return &certificatesv1beta1.ClusterTrustBundle{Spec: certificatesv1beta1.ClusterTrustBundleSpec{TrustBundle: strings.Join(texts, "")}}
}

// withCertificates is a source whose pod may use two bundles of a signer, one by name, and a certificate.
func withCertificates() *Source {
	s := source()
	found := func(r podobjects.Ref, o any) podobjects.Entry {
		return podobjects.Entry{Ref: r, State: podobjects.Found, Object: o}
	}
	bundles := func(all ...*certificatesv1beta1.ClusterTrustBundle) *podobjects.TrustBundles {
		return &podobjects.TrustBundles{Items: all}
	}
	creds := podobjects.Ref{Kind: podobjects.Certificate, Namespace: "shop", Name: "v"}
	waits, denied := creds, creds
	waits.Name, denied.Name = "waits", "denied"
	s.Objects = podobjects.NewSet([]podobjects.Entry{
		found(podobjects.Ref{Kind: podobjects.TrustBundle, Name: "ca"}, bundles(bundle(block("one")))),
		found(podobjects.Ref{Kind: podobjects.SignerBundles, Name: mesh}, bundles(bundle(block("one"), "note\n", block("two")), bundle(block("two"), block("three")))),
		{Ref: podobjects.Ref{Kind: podobjects.TrustBundle, Name: "gone"}, State: podobjects.Missing},
		{Ref: podobjects.Ref{Kind: podobjects.SignerBundles, Name: mesh, Selector: "none,!none"}, State: podobjects.Missing},
		{Ref: podobjects.Ref{Kind: podobjects.TrustBundle, Name: "failed"}, State: podobjects.Failed, Message: "no such API"},
		found(creds, &podspec.IssuedCertificate{Key: podspec.NewPrivateKey([]byte("KEY\n")), Chain: []byte("CHAIN\n")}),
		{Ref: waits, Message: "PodCertificateRequest shop/req-1 is not issued yet"},
		{Ref: denied, State: podobjects.Failed, Message: "PodCertificateRequest was permanently denied"},
	})
	return s
}

func trust(change func(*v1.ClusterTrustBundleProjection)) v1.VolumeProjection {
	p := &v1.ClusterTrustBundleProjection{Path: "ca.pem"}
	change(p)
	return v1.VolumeProjection{ClusterTrustBundle: p}
}

func byName(name string) v1.VolumeProjection {
	return trust(func(p *v1.ClusterTrustBundleProjection) { p.Name = &name })
}

func optional(p v1.VolumeProjection) v1.VolumeProjection {
	p.ClusterTrustBundle.Optional = ptr(true)
	return p
}

func bySigner(s *metav1.LabelSelector) v1.VolumeProjection {
	return trust(func(p *v1.ClusterTrustBundleProjection) { p.SignerName, p.LabelSelector = ptr(mesh), s })
}

func certificate(bundle, key, chain string) v1.VolumeProjection {
	return v1.VolumeProjection{PodCertificate: &v1.PodCertificateProjection{
		CredentialBundlePath: bundle, KeyPath: key, CertificateChainPath: chain,
	}}
}

func TestCertificateFiles(t *testing.T) {
	none := func(*v1.Pod) {}
	user := func(p *v1.Pod) {
		p.Spec.SecurityContext = &v1.PodSecurityContext{RunAsUser: ptr(int64(1000)), FSGroup: ptr(int64(7))}
	}
	for _, c := range []struct {
		name   string
		pod    func(*v1.Pod)
		volume v1.VolumeSource
		want   string
	}{
		{"a bundle by name", none, projected(byName("ca")), `ca.pem="-----BEGIN CERTIFICATE-----\nb25l\n-----END CERTIFICATE-----\n":640 memory`},
		{"of one user and a group", user, projected(byName("ca")), `ca.pem="-----BEGIN CERTIFICATE-----\nb25l\n-----END CERTIFICATE-----\n":640:u1000 g7 memory`},
		{"optional, not there", none, projected(optional(byName("gone"))), `ca.pem="":640 memory`},
		{"optional, nothing is selected", none, projected(optional(bySigner(nil))), `ca.pem="":640 memory`},
		{"a certificate and its key in one file", none, projected(certificate("both.pem", "", "")), `both.pem="KEY\nCHAIN\n":640 memory`},
		{"in two files", user, projected(certificate("", "tls/key", "tls/crt")), `tls/crt="CHAIN\n":640:u1000 tls/key="KEY\n":640:u1000 g7 memory`},
	} {
		s := withCertificates()
		c.pod(s.Pod)
		got, err := s.Of(&v1.Volume{Name: "v", VolumeSource: c.volume})
		if err != nil {
			t.Error(c.name, err)
		} else if show(got) != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.name, show(got), c.want)
		}
	}
	for _, c := range []struct {
		want   string
		state  podobjects.State
		volume string
		source v1.VolumeProjection
	}{
		{`clustertrustbundle "gone" not found`, podobjects.Missing, "v", byName("gone")},
		{`combination of signerName and labelSelector matched zero ClusterTrustBundles: signer "example.com/mesh"`, podobjects.Failed, "v", bySigner(nil)},
		{"no such API", podobjects.Failed, "v", optional(byName("failed"))},
		{"clustertrustbundle new is not known yet", podobjects.Unknown, "v", optional(byName("new"))},
		{"clusterTrustBundle projection requires either name or signerName to be set", podobjects.Failed, "v", trust(func(*v1.ClusterTrustBundleProjection) {})},
		{"podCertificate projection requires credentialBundlePath, or keyPath and certificateChainPath", podobjects.Failed, "v", certificate("", "", "")},
		{"PodCertificateRequest shop/req-1 is not issued yet", podobjects.Unknown, "waits", certificate("both.pem", "", "")},
		{"pod certificate of volume shop/new, source 0 is not known yet", podobjects.Unknown, "new", certificate("both.pem", "", "")},
		{"PodCertificateRequest was permanently denied", podobjects.Failed, "denied", certificate("both.pem", "", "")},
		{"invalid path: must not start with '..': ../x", podobjects.Failed, "v", certificate("../x", "", "")},
	} {
		_, err := withCertificates().Of(&v1.Volume{Name: c.volume, VolumeSource: projected(c.source)})
		if err == nil || err.Error() != c.want || podobjects.StateOf(err) != c.state {
			t.Errorf("got  %v (%v)\nwant %v (%v)", err, podobjects.StateOf(err), c.want, c.state)
		}
	}
}

// TestAnchors: each certificate is there once and nothing else, in an order that a pod keeps and that others don't have.
func TestAnchors(t *testing.T) {
	orders := map[string]bool{}
	for _, uid := range []string{"u1", "u2", "u3", "u4", "u5", "u6", "u7", "u8"} {
		of := func(volume v1.VolumeSource) string {
			s := withCertificates()
			s.Pod.UID = types.UID(uid)
			got := check.Value(s.Of(&v1.Volume{Name: "v", VolumeSource: volume}))(t)
			return string(got.Files[0].Data)
		}
		got := of(projected(bySigner(&metav1.LabelSelector{})))
		var names []string
		for b, rest := pem.Decode([]byte(got)); b != nil; b, rest = pem.Decode(rest) {
			names = append(names, string(b.Bytes))
		}
		orders[strings.Join(names, " ")] = true
		slices.Sort(names)
		if want := []string{"one", "three", "two"}; !slices.Equal(names, want) || len(got) != len(block("one")+block("two")+block("three")) {
			t.Errorf("got %q of %v, want %v", got, names, want)
		}
		check.Equal(t, of(projected(bySigner(&metav1.LabelSelector{}))), got, "the same pod has another order")
	}
	check.AtLeast(t, len(orders), 2, "all pods have the order %v", orders)
}
