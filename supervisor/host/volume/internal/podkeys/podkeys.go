// Package podkeys makes the private keys of pods' certificates (KEP-4317), and checks those that it finds.
package podkeys

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/port"
)

// The types of PEM blocks.
const (
	keyBlock         = "PRIVATE KEY" // PKCS#8
	certificateBlock = "CERTIFICATE"
)

// New makes a key of a type that core/v1 PodCertificateProjection.keyType names.
func New(keyType string) (port.PodKey, error) {
	key, err := generate(keyType)
	if err != nil {
		return port.PodKey{}, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return port.PodKey{}, fmt.Errorf("encode a key: %w", err)
	}
	// Signers take names from the PodCertificateRequest: those of this one would be ignored.
	proof, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return port.PodKey{}, fmt.Errorf("sign a request: %w", err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: keyBlock, Bytes: der})
	return port.PodKey{Key: podspec.NewPrivateKey(text), Proof: proof}, nil
}

func generate(keyType string) (crypto.Signer, error) {
	switch keyType {
	case "RSA3072":
		return rsa.GenerateKey(rand.Reader, 3072)
	case "RSA4096":
		return rsa.GenerateKey(rand.Reader, 4096)
	case "ECDSAP256":
		return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "ECDSAP384":
		return ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case "ECDSAP521":
		return ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	case "ED25519":
		_, key, err := ed25519.GenerateKey(rand.Reader)
		return key, err
	default:
		return nil, fmt.Errorf("podCertificate.keyType: this node cannot make a key of type %q", keyType)
	}
}

// Read reads a key and the chain of its certificate from PEM blocks, in this order.
func Read(text []byte) (*podspec.IssuedCertificate, error) {
	block, chain := pem.Decode(text)
	if block == nil || block.Type != keyBlock {
		return nil, errors.New("it does not begin with a private key")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errors.New("its private key can't be read") // without what it says of the key
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, errors.New("its private key can't sign")
	}
	first, _ := pem.Decode(chain)
	if first == nil || first.Type != certificateBlock {
		return nil, errors.New("it has no certificate")
	}
	leaf, err := x509.ParseCertificate(first.Bytes)
	if err != nil {
		return nil, fmt.Errorf("its certificate can't be read: %w", err)
	}
	public, ok := leaf.PublicKey.(interface{ Equal(crypto.PublicKey) bool })
	if !ok || !public.Equal(signer.Public()) {
		return nil, errors.New("its certificate is for another key")
	}
	return &podspec.IssuedCertificate{
		Key: podspec.NewPrivateKey(pem.EncodeToMemory(block)), Chain: bytes.Clone(chain), Expires: leaf.NotAfter,
	}, nil
}
