package podkeys

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

func made(t *testing.T, keyType string) (port.PodKey, crypto.Signer) {
	t.Helper()
	k, err := New(keyType)
	if err != nil {
		t.Fatal(keyType, err)
	}
	b, rest := pem.Decode(k.Key.PEM())
	if b == nil || b.Type != "PRIVATE KEY" || len(rest) > 0 {
		t.Fatalf("%s: not one PEM block of PKCS#8", keyType)
	}
	key, err := x509.ParsePKCS8PrivateKey(b.Bytes)
	if err != nil {
		t.Fatal(keyType, err)
	}
	return k, key.(crypto.Signer)
}

// TestKeys: a key is of the type that was asked for, and proves that it is there.
func TestKeys(t *testing.T) {
	for keyType, want := range map[string]string{
		"RSA3072": "RSA 3072", "RSA4096": "RSA 4096", "ECDSAP256": "ECDSA P-256", "ECDSAP384": "ECDSA P-384", "ECDSAP521": "ECDSA P-521", "ED25519": "Ed25519",
	} {
		k, key := made(t, keyType)
		r, err := x509.ParseCertificateRequest(k.Proof)
		if err != nil {
			t.Fatal(keyType, err)
		}
		if err := r.CheckSignature(); err != nil || r.Subject.String() != "" || len(r.Extensions) > 0 {
			t.Errorf("%s: signature %v, subject %q", keyType, err, r.Subject)
		}
		if !key.Public().(interface{ Equal(crypto.PublicKey) bool }).Equal(r.PublicKey) {
			t.Errorf("%s: the proof is of another key", keyType)
		}
		got := r.PublicKeyAlgorithm.String()
		switch p := r.PublicKey.(type) {
		case *rsa.PublicKey:
			got += fmt.Sprint(" ", p.N.BitLen())
		case *ecdsa.PublicKey:
			got += " " + p.Curve.Params().Name
		case ed25519.PublicKey:
		}
		check.Equal(t, got, want, "%s", keyType)
	}
	if _, err := New("DSA"); err == nil || err.Error() != `podCertificate.keyType: this node cannot make a key of type "DSA"` {
		t.Error(err)
	}
}

// certificateOf is one for a key, as a PEM block.
func certificateOf(t *testing.T, key crypto.Signer) []byte {
	t.Helper()
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Unix(2_000_000_000, 0)}
	der := check.Value(x509.CreateCertificate(rand.Reader, c, c, key.Public(), key))(t)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func TestRead(t *testing.T) {
	k, key := made(t, "ED25519")
	_, other := made(t, "ECDSAP256")
	good, wrong := certificateOf(t, key), certificateOf(t, other)
	text := bytes.Join([][]byte{k.Key.PEM(), good, wrong}, nil)
	got, err := Read(text)
	if err != nil || !bytes.Equal(got.Key.PEM(), k.Key.PEM()) || !bytes.Equal(got.Chain, append(good, wrong...)) ||
		!got.Expires.Equal(time.Unix(2_000_000_000, 0)) || !got.RefreshAt.IsZero() {
		t.Errorf("%+v, %v", got, err)
	}
	for want, text := range map[string][]byte{
		"it does not begin with a private key":  good,
		"it has no certificate":                 k.Key.PEM(),
		"its certificate is for another key":    append(k.Key.PEM(), wrong...),
		"its private key can't be read":         pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("x")}),
		"its certificate can't be read: x509: ": append(k.Key.PEM(), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")})...),
	} {
		if _, err := Read(text); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
