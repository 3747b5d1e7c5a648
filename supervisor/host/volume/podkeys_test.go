package volume

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/volumefiles"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

// newPodKey makes a key through the port.
func (l *lab) newPodKey(keyType string) (port.PodKey, error) {
	type answer struct {
		key port.PodKey
		err error
	}
	got := make(chan answer, 1)
	l.NewPodKey(ctx(l.t), keyType, func(k port.PodKey, err error) { got <- answer{k, err} })
	a := <-got
	return a.key, a.err
}

func (l *lab) writtenPodCertificate(at port.CertificateFiles) (*podspec.IssuedCertificate, error) {
	type answer struct {
		found *podspec.IssuedCertificate
		err   error
	}
	got := make(chan answer, 1)
	l.WrittenCertificate(ctx(l.t), at, func(f *podspec.IssuedCertificate, err error) { got <- answer{f, err} })
	a := <-got
	return a.found, a.err
}

// TestWrittenCertificate: the next agent finds what the last one wrote to a volume, in one file or in two.
func TestWrittenCertificate(t *testing.T) {
	hosttest.NeedRoot(t)
	l := newLab(t)
	made, err := l.newPodKey("ED25519")
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(made.Key.PEM())
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Unix(2_000_000_000, 0)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.(crypto.Signer).Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	chain := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	content := &volumefiles.Content{Memory: true, Files: []volumefiles.File{
		{Path: "both.pem", Data: append(bytes.Clone(made.Key.PEM()), chain...), Mode: 0o600}, {Path: "tls/crt", Data: chain, Mode: 0o600},
		{Path: "tls/key", Data: made.Key.PEM(), Mode: 0o600}, {Path: "wrong.pem", Data: chain, Mode: 0o600},
	}}
	source := func(bundle, key, chain string) port.CertificateFiles {
		return port.CertificateFiles{Pod: "u1", Volume: "creds", Source: &v1.PodCertificateProjection{
			CredentialBundlePath: bundle, KeyPath: key, CertificateChainPath: chain,
		}}
	}
	if found, err := l.writtenPodCertificate(source("both.pem", "", "")); found != nil || err != nil {
		t.Errorf("before the volume is there: %+v, %v", found, err)
	}
	path, err := l.mountRequest(ctx(t), port.MountVolume{Pod: newPod(), Content: content, Volume: &v1.Volume{
		Name: "creds", VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.unmount("u1") //nolint:errcheck // the test has ended
	next := &lab{Volumes: newLabAt(t, l.root), t: t, root: l.root}
	for _, at := range []port.CertificateFiles{source("both.pem", "", ""), source("", "tls/key", "tls/crt"), source("both.pem", "none", "")} {
		found, err := next.writtenPodCertificate(at)
		if err != nil || found == nil || !bytes.Equal(found.Key.PEM(), made.Key.PEM()) || !bytes.Equal(found.Chain, chain) || !found.Expires.Equal(time.Unix(2_000_000_000, 0)) {
			t.Errorf("%+v: %+v, %v", at.Source, found, err)
		}
	}
	for _, at := range []port.CertificateFiles{source("none.pem", "", ""), source("", "", "tls/crt"), source("", "tls/key", "")} {
		if found, err := next.writtenPodCertificate(at); found != nil || err != nil {
			t.Errorf("%+v: %+v, %v", at.Source, found, err)
		}
	}
	_, err = next.writtenPodCertificate(source("wrong.pem", "", ""))
	hosttest.WantError(t, err, port.Other, "does not begin with a private key")
	// A link that leads out of the volume is not followed.
	check.Fatal(t, os.Symlink("/etc/passwd", filepath.Join(path, "out")))
	check.Fails(t, check.Err(next.writtenPodCertificate(source("out", "", ""))), "a link led out of the volume")
	check.Fails(t, check.Err(next.newPodKey("DSA")), "a key of an unknown type was made")
}
