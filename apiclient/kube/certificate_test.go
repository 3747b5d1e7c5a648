package kube

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/troupe-dev/troupe/tests/check"
)

func pemOf(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// newPair makes a certificate of its own making, and its key, in PEM.
func newPair(t *testing.T, name string, from, to time.Time) (cert, key []byte) {
	t.Helper()
	private := check.Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: from, NotAfter: to}
	der := check.Value(x509.CreateCertificate(rand.Reader, template, template, private.Public(), private))(t)
	encoded := check.Value(x509.MarshalECPrivateKey(private))(t)
	return pemOf(der), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded})
}

func write(t *testing.T, name string, data []byte) {
	t.Helper()
	check.Fatal(t, os.WriteFile(name, data, 0o600))
}

func TestCertificate(t *testing.T) {
	now := time.Now()
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "c.crt"), filepath.Join(dir, "c.key")
	changes := 0
	if _, err := newCertificate(certFile, keyFile, false, nil); err == nil || !strings.Contains(err.Error(), certFile) {
		t.Errorf("without files: %v, want an error that names one", err)
	}
	cert, key := newPair(t, "one", now, now.Add(time.Hour))
	write(t, certFile, cert)
	write(t, keyFile, []byte("no key"))
	if _, err := newCertificate(certFile, keyFile, false, nil); err == nil || !strings.Contains(err.Error(), keyFile) {
		t.Errorf("with a broken key: %v, want an error that names it", err)
	}
	write(t, keyFile, key)
	c := check.Value(newCertificate(certFile, keyFile, false, func() { changes++ }))(t)
	shown := func() string {
		got := check.Value(c.get())(t)
		leaf := check.Value(x509.ParseCertificate(got.Certificate[0]))(t)
		return leaf.Subject.CommonName
	}
	nextCert, nextKey := newPair(t, "another", now, now.Add(time.Hour))
	for _, step := range []struct {
		what    string
		do      func()
		after   time.Duration
		want    string
		changes int
	}{
		{"nothing", func() {}, 2 * time.Second, "one", 0},
		{"only the certificate", func() { write(t, certFile, nextCert) }, 2 * time.Second, "one", 0},
		{"the key, too soon to look", func() { write(t, keyFile, nextKey) }, 0, "one", 0},
		{"a moment later", func() {}, 2 * time.Second, "another", 1},
		{"nothing more", func() {}, 2 * time.Second, "another", 1},
		{"taken away", func() { _ = os.Remove(certFile) }, 2 * time.Second, "another", 1},
		{"back", func() { write(t, certFile, cert); write(t, keyFile, key) }, 2 * time.Second, "one", 2},
	} {
		step.do()
		now = now.Add(step.after)
		c.look(now)
		if shown() != step.want || changes != step.changes {
			t.Errorf("%s: shows %s after %d changes, want %s after %d", step.what, shown(), changes, step.want, step.changes)
		}
	}
}

// TestCertificateLater: requests fail until there is one, and name what is missing.
func TestCertificateLater(t *testing.T) {
	now := time.Now()
	both := filepath.Join(t.TempDir(), "current.pem")
	c := check.Value(newCertificate(both, both, true, func() {}))(t)
	_, err := c.get()
	check.Says(t, err, "no client certificate yet", "the error before")
	cert, key := newPair(t, "one", now, now.Add(time.Hour))
	write(t, both, append(key, cert...))
	c.look(now)
	check.Error(t, check.Err(c.get()))
}

func TestDescribeCredential(t *testing.T) {
	now := time.Now()
	file := filepath.Join(t.TempDir(), "c.crt")
	late, key := newPair(t, "system:node:n1", now.Add(-2*time.Hour), now.Add(-time.Hour))
	early, _ := newPair(t, "system:node:n1", now.Add(time.Hour), now.Add(2*time.Hour))
	good, _ := newPair(t, "system:node:n1", now.Add(-time.Hour), now.Add(time.Hour))
	write(t, file, late)
	write(t, file+".current", slices.Concat(key, late))
	for _, c := range []struct {
		name string
		rest rest.Config
		want []string
	}{
		{"none", rest.Config{}, []string{"names no credential"}},
		{"expired", rest.Config{TLSClientConfig: rest.TLSClientConfig{CertFile: file}}, []string{file, "system:node:n1", "expired at", "renew it"}},
		{"expired, after its key, as the node keeps it", rest.Config{TLSClientConfig: rest.TLSClientConfig{CertFile: file + ".current"}},
			[]string{file + ".current", "system:node:n1", "expired at"}},
		{"early", rest.Config{TLSClientConfig: rest.TLSClientConfig{CertData: early}}, []string{"in the kubeconfig", "not valid before", "clock"}},
		{"good", rest.Config{TLSClientConfig: rest.TLSClientConfig{CertData: good}}, []string{"rejects", "valid until"}},
		{"no file", rest.Config{TLSClientConfig: rest.TLSClientConfig{CertFile: file + "x"}}, []string{file + "x", "no such file"}},
		{"no PEM", rest.Config{TLSClientConfig: rest.TLSClientConfig{CertData: []byte("x")}}, []string{"not PEM"}},
		{"token", rest.Config{BearerToken: "secret"}, []string{"token in the kubeconfig"}},
		{"token file", rest.Config{BearerToken: "secret", BearerTokenFile: "/t"}, []string{"token in /t"}},
		{"plugin", rest.Config{ExecProvider: &api.ExecConfig{Command: "aws"}}, []string{"plugin aws"}},
		{"password", rest.Config{Username: "u", Password: "secret"}, []string{"user name u"}},
	} {
		got := DescribeCredential(&c.rest)
		for _, w := range c.want {
			if !strings.Contains(got, w) {
				t.Errorf("%s: %q, want %q in it", c.name, got, w)
			}
		}
		if strings.Contains(got, "secret") {
			t.Errorf("%s: %q tells the secret", c.name, got)
		}
	}
}
