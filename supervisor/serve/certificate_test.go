package serve_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	v1 "k8s.io/api/core/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/troupe-dev/troupe/apiclient/csr"
	"github.com/troupe-dev/troupe/supervisor/host/disk/durable"
	"github.com/troupe-dev/troupe/supervisor/serve"
	"github.com/troupe-dev/troupe/tests/check"
)

// newPair is a certificate, signed by another or by itself.
func newPair(t *testing.T, name string, by *tls.Certificate, usages ...x509.ExtKeyUsage) *tls.Certificate {
	t.Helper()
	return lasting(t, time.Hour, name, by, usages...)
}

func lasting(
	t *testing.T, left time.Duration, name string, by *tls.Certificate, usages ...x509.ExtKeyUsage,
) *tls.Certificate {
	t.Helper()
	if len(usages) == 0 {
		usages = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}
	}
	key := check.Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	c := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(left), BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: usages,
	}
	parent, signer := c, any(key)
	if by == nil {
		c.IsCA, c.KeyUsage, c.ExtKeyUsage = true, x509.KeyUsageCertSign, nil
	} else {
		parent = check.Value(x509.ParseCertificate(by.Certificate[0]))(t)
		signer = by.PrivateKey
	}
	der := check.Value(x509.CreateCertificate(rand.Reader, c, parent, key.Public(), signer))(t)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func writePair(t *testing.T, dir string, p *tls.Certificate) (certFile, keyFile string) {
	t.Helper()
	key := check.Value(x509.MarshalPKCS8PrivateKey(p.PrivateKey))(t)
	certFile, keyFile = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	for name, b := range map[string]*pem.Block{
		certFile: {Type: "CERTIFICATE", Bytes: p.Certificate[0]}, keyFile: {Type: "PRIVATE KEY", Bytes: key},
	} {
		check.Fatal(t, os.WriteFile(name, pem.EncodeToMemory(b), 0o600))
	}
	return certFile, keyFile
}

func shown(t *testing.T, c serve.Certificate) []byte {
	t.Helper()
	now := check.Value(c.Get())(t)
	return now.Certificate[0]
}

func TestCertificateFilesAreReadAgain(t *testing.T) {
	dir := t.TempDir()
	first, second := newPair(t, "first", nil), newPair(t, "second", nil)
	c := check.Value(serve.FromFiles(writePair(t, dir, first)))(t)
	if !bytes.Equal(shown(t, c), first.Certificate[0]) {
		t.Fatal("it shows another certificate than that in the file")
	}
	certFile, _ := writePair(t, dir, second)
	check.Fatal(t, os.Chtimes(certFile, time.Time{}, time.Now().Add(time.Minute)))
	deadline := time.Now().Add(10 * time.Second)
	for !bytes.Equal(shown(t, c), second.Certificate[0]) {
		if time.Now().After(deadline) {
			t.Fatal("it does not show the new certificate")
		}
	}
	check.Fatal(t, os.WriteFile(certFile, []byte("half"), 0o600))
	if !bytes.Equal(shown(t, c), second.Certificate[0]) {
		t.Error("it does not keep what it has while the files are broken")
	}
	if _, err := serve.FromFiles("/nowhere.crt", "/nowhere.key"); err == nil {
		t.Error("files that are not there are no error")
	}
}

// TestUntilSigned: while nobody has signed the server's request, clients see another certificate, if there is one.
func TestUntilSigned(t *testing.T) {
	file := newPair(t, "file", nil)
	c := serve.RequestedConfig{
		Dir: t.TempDir(), Node: "n1", Signer: nobodySigns{}, Addresses: func() []v1.NodeAddress { return nil },
		Draw: func() float64 { return 0 },
	}
	alone := check.Value(serve.Requested(c))(t)
	check.Says(t, check.Err(alone.Get()), "kubectl certificate approve", "the error without a certificate")
	c.Until = check.Value(serve.FromFiles(writePair(t, t.TempDir(), file)))(t)
	r := check.Value(serve.Requested(c))(t)
	check.Equal(t, bytes.Equal(shown(t, r), file.Certificate[0]), true, "it shows that of the file")
}

type nobodySigns struct{ csr.Signer }

func TestSelfSignedIsReused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	hosts := []string{"192.0.2.7", "n1", "n1.example"}
	nobody := func() []string { return nil }
	made := check.Value(serve.SelfSigned(dir, "n1", func() []string { return hosts }, nil))(t)
	leaf := check.Value(x509.ParseCertificate(shown(t, made)))(t)
	for _, host := range []string{"n1", "n1.example", "192.0.2.7"} {
		check.Error(t, leaf.VerifyHostname(host))
	}
	if info, err := os.Stat(filepath.Join(dir, "kubelet.key")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key: %v %v", info, err)
	}
	again := check.Value(serve.SelfSigned(dir, "n1", nobody, nil))(t)
	if !bytes.Equal(shown(t, made), shown(t, again)) {
		t.Error("it is made anew")
	}
	// The node gets another address. Clients that connect from then on see a certificate for it.
	hosts = []string{"192.0.2.8"}
	anew, err := serve.SelfSigned(dir, "n1", func() []string { return hosts }, nil)
	if err != nil {
		t.Fatal(err)
	}
	if leaf, err := x509.ParseCertificate(shown(t, anew)); err != nil || leaf.VerifyHostname("192.0.2.8") != nil ||
		leaf.VerifyHostname("n1") != nil {
		t.Errorf("%v: it is not for the new address", err)
	}
	put := func(pair *tls.Certificate) {
		certFile, keyFile := writePair(t, dir, pair)
		check.Fatal(t, os.Rename(certFile, filepath.Join(dir, "kubelet.crt")))
		check.Fatal(t, os.Rename(keyFile, filepath.Join(dir, "kubelet.key")))
	}
	// One that an operator has made stays, whatever it is for.
	own := lasting(t, 90*24*time.Hour, "node", nil)
	put(own)
	kept := check.Value(serve.SelfSigned(dir, "n1", func() []string { return hosts }, nil))(t)
	if !bytes.Equal(shown(t, kept), own.Certificate[0]) {
		t.Error("one that an operator has made is replaced")
	}
	// One that is about to expire is not.
	put(newPair(t, "old", nil))
	renewed := check.Value(serve.SelfSigned(dir, "n1", nobody, nil))(t)
	if leaf, err := x509.ParseCertificate(shown(t, renewed)); err != nil || leaf.NotAfter.Before(time.Now().Add(100*24*time.Hour)) {
		t.Errorf("%v: it is not made anew, though it ends soon", err)
	}
}

// TestSignedByOthers: one that a CA has signed stays, also when it has ended, which is told, and one that somebody has put
// there meanwhile is shown.
func TestSignedByOthers(t *testing.T) {
	dir := t.TempDir()
	put := func(pair *tls.Certificate) {
		certFile, keyFile := writePair(t, t.TempDir(), pair)
		check.Fatal(t, os.Rename(certFile, filepath.Join(dir, "kubelet.crt")))
		check.Fatal(t, os.Rename(keyFile, filepath.Join(dir, "kubelet.key")))
	}
	var failed []error
	begin := func() serve.Certificate {
		return check.Value(serve.SelfSigned(dir, "n1", func() []string { return nil }, func(err error) { failed = append(failed, err) }))(t)
	}
	ca := newPair(t, "ca", nil)
	soon, ended, anew := lasting(t, 24*time.Hour, "n1", ca), lasting(t, -time.Minute, "n1", ca), newPair(t, "n1", ca)
	put(soon)
	check.Equal(t, bytes.Equal(shown(t, begin()), soon.Certificate[0]), true, "it stays, with a day left")
	put(ended)
	c := begin()
	put(anew)
	check.Equal(t, bytes.Equal(shown(t, c), anew.Certificate[0]), true, "it stays, put there by somebody")
	check.Equal(t, len(failed), 0, "failures")
	put(ended)
	check.Equal(t, bytes.Equal(shown(t, begin()), ended.Certificate[0]), true, "it stays, though it has ended")
	check.Equal(t, len(failed), 1, "failures")
	check.Says(t, failed[0], "expired on", "what is told")
	host := newPair(t, "n1-ca@1764460800", nil)
	put(lasting(t, 24*time.Hour, "n1@1764460800", host))
	leaf := check.Value(x509.ParseCertificate(shown(t, begin())))(t)
	check.Equal(t, time.Until(leaf.NotAfter) > 100*24*time.Hour, true, "a kubelet's own is replaced in time")
}

// TestSelfSignedThatCannotBeRenewed: one that is due stays in use while nothing can be written, and that is told.
func TestSelfSignedThatCannotBeRenewed(t *testing.T) {
	dir := t.TempDir()
	old := newPair(t, "old", nil)
	certFile, keyFile := writePair(t, dir, old)
	check.Fatal(t, os.Rename(certFile, filepath.Join(dir, "kubelet.crt")))
	check.Fatal(t, os.Rename(keyFile, filepath.Join(dir, "kubelet.key")))
	check.Fatal(t, os.MkdirAll(durable.Temporary(filepath.Join(dir, "kubelet.key"))+"/in the way", 0o700))
	var failed []error
	c := check.Value(serve.SelfSigned(dir, "n1", func() []string { return nil }, func(err error) { failed = append(failed, err) }))(t)
	check.Equal(t, bytes.Equal(shown(t, c), old.Certificate[0]), true, "it shows the old one")
	check.Equal(t, len(failed), 1, "how often it was told: %v", failed)
}

func TestTLSSettings(t *testing.T) {
	c := check.Value(serve.FromFiles(writePair(t, t.TempDir(), newPair(t, "n", nil))))(t)
	type settings = kubelet.KubeletConfiguration
	suites := []string{"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"}
	conf, err := serve.TLS(c, &settings{TLSMinVersion: "VersionTLS13", TLSCipherSuites: suites, TLSCurvePreferences: []int32{29, 23}})
	if err != nil || conf.MinVersion != tls.VersionTLS13 || len(conf.CipherSuites) != 1 ||
		!slices.Equal(conf.CurvePreferences, []tls.CurveID{tls.X25519, tls.CurveP256}) {
		t.Errorf("%+v, %v", conf, err)
	}
	if conf, err := serve.TLS(c, &settings{}); err != nil || conf.MinVersion != tls.VersionTLS12 || conf.CipherSuites != nil || conf.CurvePreferences != nil {
		t.Errorf("%+v, %v", conf, err)
	}
	for _, bad := range []settings{
		{TLSMinVersion: "VersionTLS14", TLSCipherSuites: suites}, {TLSCipherSuites: []string{"TLS_NONE"}}, {TLSCurvePreferences: []int32{1}},
	} {
		if _, err := serve.TLS(c, &bad); err == nil {
			t.Errorf("%+v is no error", bad)
		}
	}
}

// TestLegacyCipherSuites: the names that components of Kubernetes keep beside Go's are served with, also without the
// suites that HTTP/2 needs.
func TestLegacyCipherSuites(t *testing.T) {
	const legacy, usual = "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
	for _, tt := range []struct {
		suites []string
		client uint16
		want   string // protocol; empty: refused
	}{
		{[]string{usual, legacy}, tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, "HTTP/2.0"},
		{[]string{usual, legacy}, tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, "HTTP/2.0"},
		{[]string{legacy}, tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, "HTTP/1.1"},
		{[]string{legacy}, tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, ""},
		{[]string{"TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305"}, tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, ""},
	} {
		t.Run(strings.Join(tt.suites, " ")+" "+tls.CipherSuiteName(tt.client), func(t *testing.T) {
			c, err := serve.SelfSigned(t.TempDir(), "n1", func() []string { return []string{"127.0.0.1"} }, nil)
			if err != nil {
				t.Fatal(err)
			}
			conf, err := serve.TLS(c, &kubelet.KubeletConfiguration{TLSMinVersion: "VersionTLS12", TLSCipherSuites: tt.suites})
			if err != nil {
				t.Fatal(err)
			}
			s, err := serve.Listen(serve.Config{
				Address: "127.0.0.1:0", Node: "n1", TLS: conf, Routes: someRoutes, Log: zerolog.Nop(),
			})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- s.Serve(ctx) }()
			transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{
				InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tt.client},
			}}
			a, err := (&http.Client{Transport: transport}).Get("https://" + s.Address() + "/pods")
			switch {
			case err != nil && tt.want != "":
				t.Error(err)
			case err == nil && (a.Proto != tt.want || a.TLS.CipherSuite != tt.client):
				t.Errorf("%s with %s, want %q", a.Proto, tls.CipherSuiteName(a.TLS.CipherSuite), tt.want)
			}
			if err == nil {
				a.Body.Close()
			}
			transport.CloseIdleConnections()
			cancel()
			check.Error(t, <-ended)
		})
	}
}
