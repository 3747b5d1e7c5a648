package lab

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
)

// certLifetime is longer than any lab lives.
const certLifetime = 30 * 24 * time.Hour

// authority is a certificate authority that lives as long as its control plane.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// pair is a certificate and its key, in PEM.
type pair struct{ cert, key []byte }

func newAuthority() (_ *authority, err error) {
	defer check.Return(&err)
	key := check.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "troupe lab"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der := check.Must(sign(template, nil, key, key.Public(), certLifetime))
	cert, err := x509.ParseCertificate(der)
	return &authority{cert: cert, key: key}, err
}

// pem is the authority's certificate.
func (a *authority) pem() []byte { return block("CERTIFICATE", a.cert.Raw) }

// client makes a certificate that the apiserver reads as a user of these groups (x509 common name
// and organisations). A lifetime below zero makes one that has expired.
func (a *authority) client(user string, groups []string, lifetime time.Duration) (pair, error) {
	return a.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, lifetime)
}

// server makes a certificate for the loopback address and these names. etcd shows it to its
// clients and, as its own peer, to itself.
func (a *authority) server(name string, hosts ...string) (pair, error) {
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: name},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		DNSNames:    []string{"localhost"},
	}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	return a.issue(template, certLifetime)
}

func (a *authority) issue(template *x509.Certificate, lifetime time.Duration) (_ pair, err error) {
	defer check.Return(&err)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	key := check.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	der := check.Must(sign(template, a, a.key, key.Public(), lifetime))
	keyPEM, err := privateKey(key)
	return pair{cert: block("CERTIFICATE", der), key: keyPEM}, err
}

// sign makes a certificate of the template, by itself if there is no authority.
func sign(template *x509.Certificate, by *authority, with crypto.Signer, public crypto.PublicKey, lifetime time.Duration) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	template.NotAfter = time.Now().Add(lifetime)
	// A clock may be a little behind; and what has expired was valid before.
	template.NotBefore = time.Now().Add(-time.Hour)
	if template.NotBefore.After(template.NotAfter) {
		template.NotBefore = template.NotAfter.Add(-time.Hour)
	}
	parent := template
	if by != nil {
		parent = by.cert
	}
	return x509.CreateCertificate(rand.Reader, template, parent, public, with)
}

// serviceAccountKey makes the key that signs tokens, and its public half.
func serviceAccountKey() (private, public []byte, err error) {
	defer check.Return(&err)
	key := check.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	private = check.Must(privateKey(key))
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	return private, block("PUBLIC KEY", der), err
}

func privateKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	return block("EC PRIVATE KEY", der), err
}

func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// write puts a pair into dir as <name>.crt and <name>.key.
func (p pair) write(dir, name string) error {
	if err := os.WriteFile(filepath.Join(dir, name+".crt"), p.cert, 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name+".key"), p.key, 0o600)
}

// tls is what a client with this certificate uses against the authority's servers.
func (p pair) tls(a *authority) (*tls.Config, error) {
	cert, err := tls.X509KeyPair(p.cert, p.key)
	if err != nil {
		return nil, fmt.Errorf("client certificate: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	return &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}, nil
}
