package cluster

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"strings"
	"testing"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
	"github.com/troupe-dev/troupe/tests/e2e/member"
)

const certificateGates = "featureGates: {ClusterTrustBundle: true, ClusterTrustBundleProjection: true, PodCertificateRequest: true}"

// authority signs for pods.
type authority struct {
	key  crypto.Signer
	cert *x509.Certificate
	der  []byte
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	key := check.Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	c := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	der := check.Value(x509.CreateCertificate(rand.Reader, c, c, key.Public(), key))(t)
	return &authority{key, c, der}
}

func (a *authority) pem() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.der}))
}

// sign answers a request with a certificate of an hour.
func (a *authority) sign(r *certificatesv1beta1.PodCertificateRequest) (err error) {
	defer check.Return(&err)
	proof := check.Must(x509.ParseCertificateRequest(r.Spec.StubPKCS10Request))
	from := time.Now().Add(-time.Minute).Truncate(time.Second)
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: r.Spec.PodName, Organization: []string{r.Spec.UnverifiedUserAnnotations["test.test/team"]}},
		NotBefore: from, NotAfter: from.Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
	}
	der := check.Must(x509.CreateCertificate(rand.Reader, leaf, a.cert, proof.PublicKey, a.key))
	chain := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Headers: map[string]string{"k": "v"}, Bytes: der}))
	s := &r.Status
	s.CertificateChain = "of the test\n" + chain + a.pem()
	s.NotBefore, s.NotAfter, s.BeginRefreshAt = new(metav1.NewTime(from)), new(metav1.NewTime(leaf.NotAfter)), new(metav1.NewTime(from.Add(30*time.Minute)))
	s.Conditions = []metav1.Condition{{Type: "Issued", Status: metav1.ConditionTrue, Reason: "Test", LastTransitionTime: metav1.Now()}}
	return nil
}

// signs runs a signer until the test ends: it signs requests of the signer mesh, denies those of never and leaves others
// alone.
func (b *bed) signs(t *testing.T, a *authority) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	t.Cleanup(func() { cancel(); <-done })
	requests := b.admin.CertificatesV1beta1().PodCertificateRequests(b.name)
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			list, err := requests.List(ctx, metav1.ListOptions{})
			for i := 0; err == nil && i < len(list.Items); i++ {
				r := &list.Items[i]
				if len(r.Status.Conditions) > 0 {
					continue
				}
				switch _, name, _ := strings.Cut(r.Spec.SignerName, "/"); name {
				case "mesh":
					err = a.sign(r)
				case "never":
					r.Status.Conditions = []metav1.Condition{{Type: "Denied", Status: metav1.ConditionTrue, Reason: "Policy", Message: "not this pod", LastTransitionTime: metav1.Now()}}
				default:
					continue
				}
				if err == nil {
					_, err = requests.UpdateStatus(ctx, r, metav1.UpdateOptions{})
				}
			}
			if err != nil && ctx.Err() == nil {
				fmt.Fprintln(t.Output(), "signer:", err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
}

// trust makes a ClusterTrustBundle, or gives it other certificates.
func (b *bed) trust(t *testing.T, name, signer string, labels map[string]string, text ...string) {
	t.Helper()
	all := b.admin.CertificatesV1beta1().ClusterTrustBundles()
	o, err := all.Get(t.Context(), name, metav1.GetOptions{})
	spec := certificatesv1beta1.ClusterTrustBundleSpec{SignerName: signer, TrustBundle: strings.Join(text, "")}
	if err == nil {
		o.Spec = spec
		_, err = all.Update(t.Context(), o, metav1.UpdateOptions{})
	} else {
		t.Cleanup(func() { check.Error(t, all.Delete(context.Background(), name, metav1.DeleteOptions{})) })
		o = &certificatesv1beta1.ClusterTrustBundle{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Spec: spec}
		_, err = all.Create(t.Context(), o, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// anchors are the certificates of a file, which has nothing else.
func (b *bed) awaitAnchors(t *testing.T, path string, want ...*authority) {
	t.Helper()
	b.await(t, fmt.Sprint(path, " has ", len(want), " certificates"), func() error {
		text := check.Must(os.ReadFile(path))
		left, length := string(text), 0
		for _, a := range want {
			left = strings.ReplaceAll(left, a.pem(), "")
			length += len(a.pem())
		}
		if left != "" || len(text) != length {
			return fmt.Errorf("it has %d bytes, want %d; besides those %q", len(text), length, left)
		}
		return nil
	})
}

// pair reads a key and its certificate, which must match.
func pair(t *testing.T, cert, key string) (_ tls.Certificate, err error) {
	defer check.Return(&err)
	t.Helper()
	certs := check.Must(os.ReadFile(cert))
	keys := check.Must(os.ReadFile(key))
	return tls.X509KeyPair(certs, keys)
}

// TestPodCertificates: pods have trust bundles and certificates in projected volumes. The kubelet gives them the same.
//
//tier:real
func TestPodCertificates(t *testing.T) {
	t.Parallel()
	lab.Need(t, lab.GoToolchain)
	for _, name := range compared() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, m := joinedAs(t, "certs-"+name, agentOf(t, name), certificateGates)
			b.podCertificates(t, m, name == "kubelet")
		})
	}
}

func (b *bed) podCertificates(t *testing.T, m *member.Member, kubelet bool) {
	signer := b.name + ".test/mesh"
	one, two, three, signing := newAuthority(t, "one"), newAuthority(t, "two"), newAuthority(t, "three"), newAuthority(t, "signing")
	b.signs(t, signing)
	named, mine := b.name+"-ca", b.name+".test:mesh:"
	b.trust(t, named, "", nil, one.pem(), "note\n", two.pem())
	b.trust(t, mine+"a", signer, map[string]string{"live": "yes"}, two.pem(), three.pem())
	b.trust(t, mine+"b", signer, map[string]string{"live": "yes"}, one.pem(), two.pem())
	b.trust(t, mine+"c", signer, map[string]string{"live": "no"}, signing.pem())

	live := &metav1.LabelSelector{MatchLabels: map[string]string{"live": "yes"}}
	bundle := func(path string, p v1.ClusterTrustBundleProjection) v1.VolumeProjection {
		p.Path = path
		return v1.VolumeProjection{ClusterTrustBundle: &p}
	}
	certificate := func(signer string) v1.VolumeProjection {
		return v1.VolumeProjection{PodCertificate: &v1.PodCertificateProjection{
			SignerName: signer, KeyType: "ED25519", CredentialBundlePath: "creds.pem", MaxExpirationSeconds: new(int32(3600)),
			UserAnnotations: map[string]string{"test.test/team": "red"},
		}}
	}
	with := func(sources ...v1.VolumeProjection) func(*v1.PodSpec) {
		return func(s *v1.PodSpec) {
			s.SecurityContext = &v1.PodSecurityContext{RunAsUser: new(int64(1000)), FSGroup: new(int64(2000))}
			s.Volumes = []v1.Volume{volume("all", v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: sources}})}
			s.Containers[0].VolumeMounts = []v1.VolumeMount{mounted("all")}
		}
	}
	b.create(t, b.pod("denied", with(certificate(b.name+".test/never"))))
	b.create(t, b.pod("nobundle", with(bundle("x.pem", v1.ClusterTrustBundleProjection{SignerName: new(b.name + ".test/none"), LabelSelector: live}))))
	b.create(t, b.pod("web", with(
		bundle("name.pem", v1.ClusterTrustBundleProjection{Name: &named}),
		bundle("signer.pem", v1.ClusterTrustBundleProjection{SignerName: &signer, LabelSelector: live}),
		bundle("none.pem", v1.ClusterTrustBundleProjection{Name: new("none"), Optional: new(true)}),
		certificate(signer),
		v1.VolumeProjection{PodCertificate: &v1.PodCertificateProjection{
			SignerName: signer, KeyType: "ECDSAP384", KeyPath: "tls/key.pem", CertificateChainPath: "tls/cert.pem",
		}},
	)))
	p := b.awaitPod(t, "web", "is ready", ready)
	at := func(path string) string { return b.inside(t, p, "/all/"+path) }
	b.awaitAnchors(t, at("name.pem"), one, two)
	b.awaitAnchors(t, at("signer.pem"), one, two, three)
	b.awaitAnchors(t, at("none.pem"))
	for _, path := range []string{"name.pem", "creds.pem", "tls/key.pem", "tls/cert.pem"} {
		wantOwner(t, at(path), 0o640, 1000, 2000)
	}
	first := check.Value(pair(t, at("creds.pem"), at("creds.pem")))(t)
	if _, is := first.PrivateKey.(ed25519.PrivateKey); !is || len(first.Certificate) != 2 || !bytes.Equal(first.Certificate[1], signing.der) ||
		first.Leaf.Subject.CommonName != "web" || first.Leaf.Subject.Organization[0] != "red" {
		t.Errorf("a %T with %d certificates, of %s", first.PrivateKey, len(first.Certificate), first.Leaf.Subject)
	}
	if other, err := pair(t, at("tls/cert.pem"), at("tls/key.pem")); err != nil {
		t.Error(err)
	} else if k, is := other.PrivateKey.(*ecdsa.PrivateKey); !is || k.Curve != elliptic.P384() {
		t.Errorf("it is a %T", other.PrivateKey)
	}
	if text, err := os.ReadFile(at("creds.pem")); err != nil || !bytes.HasPrefix(text, []byte("-----BEGIN PRIVATE KEY-----\n")) || bytes.Contains(text, []byte("k: v")) || bytes.Contains(text, []byte("of the test")) {
		t.Error("what is between the blocks was kept, or the key is not first", err)
	}
	b.awaitEvent(t, "nobundle", "FailedMount", "combination of signerName and labelSelector matched zero ClusterTrustBundles")
	b.awaitEvent(t, "denied", "FailedMount", `PodCertificateRequest was permanently denied: reason="Policy" message="not this pod"`)
	b.awaitEvent(t, "denied", "Denied", "Policy")
	if kubelet {
		return // it looks at volumes once in a minute or two
	}
	b.awaitEvent(t, "denied", "Denied", `was denied, reason="Policy", message="not this pod"`)

	b.trust(t, named, "", nil, three.pem())
	b.trust(t, mine+"b", signer, nil, signing.pem())
	b.awaitAnchors(t, at("name.pem"), three)
	b.awaitAnchors(t, at("signer.pem"), two, three, signing)

	// The next agent keeps what lies in the volume until it has another.
	check.Fatal(t, m.Kill(t.Context()))
	check.Fatal(t, m.Start())
	b.await(t, "another certificate", func() error {
		next, err := pair(t, at("creds.pem"), at("creds.pem")) // never half of one
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Equal(next.Certificate[0], first.Certificate[0]) {
			return fmt.Errorf("it is still that of %s", first.Leaf.NotBefore)
		}
		return nil
	})
	if c := b.get(t, "web").Status.ContainerStatuses[0]; c.RestartCount != 0 || !c.Ready {
		t.Errorf("after a restart of the agent: %+v", c)
	}
	block, _ := pem.Decode(mustRead(t, at("creds.pem")))
	if text := m.LogTail(1 << 20); strings.Contains(text, "PRIVATE KEY") || strings.Contains(text, fmt.Sprintf("%x", block.Bytes[len(block.Bytes)-8:])) {
		t.Error("the log of the agent has a key")
	}
}

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	b := check.Value(os.ReadFile(path))(t)
	return b
}
