package serve

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
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
	certificates "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	cliflag "k8s.io/component-base/cli/flag"
	kubelet "k8s.io/kubelet/config/v1beta1"
	netutils "k8s.io/utils/net"

	"github.com/troupe-dev/troupe/apiclient/csr"
	"github.com/troupe-dev/troupe/apiclient/reread"
	"github.com/troupe-dev/troupe/supervisor/host/disk/durable"
)

// Certificate is a server's certificate. It may change at any time.
type Certificate interface {
	// Get fails while there is none yet.
	Get() (*tls.Certificate, error)
	// Run renews it until ctx ends.
	Run(ctx context.Context)
}

const (
	// renewBefore is the remaining life at which a self-signed certificate is replaced.
	renewBefore = 30 * 24 * time.Hour
	ownLifetime = 365 * 24 * time.Hour
	clockSkew   = time.Hour
)

// files is a certificate in files. They are read again when they change. While they do not match,
// because only one was written yet, the old certificate stays in use.
type files struct {
	cert, key string
	// renew writes new files when due; nil if another program does that. failed is told that it could not.
	renew  func(now time.Time, has *tls.Certificate) error
	failed func(error)

	mu     sync.Mutex
	looked time.Time // when a client connected
	pair   reread.Files[*tls.Certificate]
}

func filesAt(cert, key string) *files {
	return &files{cert: cert, key: key, pair: reread.Pair(cert, key)}
}

// FromFiles uses tlsCertFile and tlsPrivateKeyFile.
func FromFiles(certFile, keyFile string) (Certificate, error) {
	f := filesAt(certFile, keyFile)
	if err := f.look(time.Now()); err != nil {
		return nil, fmt.Errorf("tlsCertFile %s, tlsPrivateKeyFile %s: %w", certFile, keyFile, err)
	}
	return f, nil
}

// SelfSigned uses kubelet.crt of dir. It makes a new one for name and hosts if there is none, or if that one signed
// itself and is about to expire, or is not for all hosts: they are asked for again, as a node may get another address.
// One that can't be replaced, because the disk is full, say, or because it is of a CA that clients may verify, stays in
// use, and failed is told at each try.
func SelfSigned(dir, name string, hosts func() []string, failed func(error)) (Certificate, error) {
	f := ownFiles(dir)
	f.failed = failed
	f.renew = func(now time.Time, has *tls.Certificate) error {
		hosts := hosts()
		if has != nil && now.Before(replacedAt(has.Leaf)) && isFor(has.Leaf, hosts) {
			return nil
		}
		if has != nil && !signedItself(has.Leaf) {
			return fmt.Errorf("%s expired on %s and is of a CA: put another one there, with its key, or remove both files",
				f.cert, has.Leaf.NotAfter.Format(time.RFC3339))
		}
		var ips []net.IP
		names := []string{name}
		for _, h := range hosts {
			if ip := net.ParseIP(h); ip != nil {
				ips = append(ips, ip)
			} else if h != name {
				names = append(names, h)
			}
		}
		certPEM, keyPEM, err := signOwn(now, name, ips, names)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		// The key first: until both are there, they do not match.
		if err := durable.WriteAt(f.key, keyPEM, 0o600, durable.Whole); err != nil {
			return err
		}
		return durable.WriteAt(f.cert, certPEM, 0o644, durable.Whole)
	}
	now := time.Now()
	if f.look(now) == nil {
		f.looked = time.Time{} // the first client has it renewed, if it is due
		return f, nil
	}
	if err := f.renew(now, nil); err != nil { // missing or not usable
		return nil, fmt.Errorf("make a certificate for the server: %w", err)
	}
	if err := f.look(now); err != nil {
		return nil, fmt.Errorf("the server's certificate %s: %w", f.cert, err)
	}
	return f, nil
}

func ownFiles(dir string) *files {
	return filesAt(filepath.Join(dir, "kubelet.crt"), filepath.Join(dir, "kubelet.key"))
}

// LookAtOwn says why SelfSigned has to make a certificate in dir before it can show one; nil if one is there.
func LookAtOwn(dir string) error { return ownFiles(dir).look(time.Now()) }

// kubeletsOwn is the issuer of a certificate that a kubelet has signed itself.
var kubeletsOwn = regexp.MustCompile(`-ca@\d+$`)

// signedItself says whether a certificate is of the node itself. One of a CA, as MicroK8s has it there, is replaced by
// whoever has put it there.
func signedItself(leaf *x509.Certificate) bool {
	return bytes.Equal(leaf.RawIssuer, leaf.RawSubject) || kubeletsOwn.MatchString(leaf.Issuer.CommonName)
}

// replacedAt is when a certificate is due to be replaced.
func replacedAt(leaf *x509.Certificate) time.Time {
	if signedItself(leaf) {
		return leaf.NotAfter.Add(-renewBefore)
	}
	return leaf.NotAfter
}

// isFor says whether a certificate may stay: one that signOwn has made must be for all hosts. Another one is not ours.
func isFor(leaf *x509.Certificate, hosts []string) bool {
	ours := bytes.Equal(leaf.RawIssuer, leaf.RawSubject) && leaf.NotAfter.Sub(leaf.NotBefore) == ownLifetime+clockSkew
	return !ours ||
		!slices.ContainsFunc(hosts, func(h string) bool { return leaf.VerifyHostname(h) != nil })
}

// signOwn makes a self-signed certificate. Its key is fast to generate, because a starting node
// waits for it.
func signOwn(now time.Time, name string, ips []net.IP, names []string) (certPEM, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, nil, err
	}
	own := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, IPAddresses: ips, DNSNames: names,
		NotBefore: now.Add(-clockSkew), NotAfter: now.Add(ownLifetime), BasicConstraintsValid: true, IsCA: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, own, own, key.Public(), key)
	if err != nil {
		return nil, nil, err
	}
	bare, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: bare}), nil
}

// Get implements Certificate.
func (f *files) Get() (*tls.Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if now.Sub(f.looked) < reread.Period {
		return f.pair.Value, nil
	}
	f.look(now) //nolint:errcheck // the old certificate stays in use
	if f.renew != nil {
		if err := f.renew(now, f.pair.Value); err != nil {
			f.failed(err) // the old one stays in use; a later call retries
			return f.pair.Value, nil
		}
		f.look(now) //nolint:errcheck // as above
	}
	return f.pair.Value, nil
}

// Run implements Certificate.
func (f *files) Run(ctx context.Context) { <-ctx.Done() }

// look reads the files if they have changed.
func (f *files) look(now time.Time) error {
	f.looked = now
	_, err := f.pair.Look()
	return err
}

// RequestedConfig configures certificate requests to the apiserver (serverTLSBootstrap; signer
// kubernetes.io/kubelet-serving).
type RequestedConfig struct {
	// Dir has the signed certificates: kubelet-server-current.pem.
	Dir string
	// Node is the node's name.
	Node string
	// Addresses are the node's, which go into the certificate. It is requested when there is an IP address among them;
	// with DNSOnly, also when there are only names.
	Addresses func() []v1.NodeAddress
	DNSOnly   bool
	Signer    csr.Signer
	Draw      func() float64
	// Failed is called for each failed request, Rotated as csr.Config has it; nil if unused.
	Failed  func()
	Rotated func(lived time.Duration)
	Log     zerolog.Logger
	// Until is shown while there is no signed one; nil for none.
	Until Certificate
}

// requested is a certificate signed by the cluster after approval, and renewed before it expires.
type requested struct {
	*csr.Keeper
	until Certificate
}

// RequestedIn has what Requested keeps in dir.
func RequestedIn(dir string) csr.Store { return csr.Store{Dir: dir, Name: "kubelet-server"} }

// Requested uses a certificate signed by the cluster.
func Requested(c RequestedConfig) (Certificate, error) {
	k, err := csr.New(csr.Config{
		Signer: c.Signer, SignerName: certificates.KubeletServingSignerName,
		// No key encipherment: the keys are elliptic.
		Usages:   []certificates.KeyUsage{certificates.UsageDigitalSignature, certificates.UsageServerAuth},
		Template: func() *x509.CertificateRequest { return request(c.Node, c.Addresses(), c.DNSOnly) },
		Store:    RequestedIn(c.Dir), Draw: c.Draw, Failed: c.Failed, Rotated: c.Rotated, Log: c.Log,
	})
	if err != nil {
		return nil, fmt.Errorf("the server's certificate: %w", err)
	}
	return requested{k, c.Until}, nil
}

// request is the certificate request for a node; nil while its addresses are no reason for one.
func request(node string, addresses []v1.NodeAddress, dnsOnly bool) *x509.CertificateRequest {
	r := &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}},
	}
	for _, a := range addresses {
		ip := netutils.ParseIPSloppy(a.Address)
		switch named := a.Type == v1.NodeInternalDNS || a.Type == v1.NodeExternalDNS; {
		case ip != nil && !named:
			if !slices.ContainsFunc(r.IPAddresses, ip.Equal) {
				r.IPAddresses = append(r.IPAddresses, ip)
			}
		case a.Address != "" && (named || a.Type == v1.NodeHostName):
			if !slices.Contains(r.DNSNames, a.Address) {
				r.DNSNames = append(r.DNSNames, a.Address)
			}
		}
	}
	if len(r.IPAddresses) == 0 && (!dnsOnly || len(r.DNSNames) == 0) {
		return nil
	}
	// The same addresses in another order are no reason for another request.
	slices.Sort(r.DNSNames)
	slices.SortFunc(r.IPAddresses, func(a, b net.IP) int { return strings.Compare(a.String(), b.String()) })
	return r
}

// Get implements Certificate.
func (r requested) Get() (*tls.Certificate, error) {
	if c := r.Current(); c != nil {
		return c, nil
	}
	if r.until != nil {
		return r.until.Get()
	}
	return nil, errors.New(
		"the server has no certificate yet: approve its request (kubectl get csr, kubectl certificate approve)",
	)
}

// TLS is how a server shows a certificate, by tlsMinVersion of k, a VersionTLS1x, 1.2 if empty; tlsCipherSuites, which
// say nothing about TLS 1.3; and tlsCurvePreferences, CurveIDs of crypto/tls. An empty list is Go's choice.
func TLS(c Certificate, k *kubelet.KubeletConfiguration) (*tls.Config, error) {
	version, err := cliflag.TLSVersion(k.TLSMinVersion)
	if err != nil {
		return nil, fmt.Errorf("tlsMinVersion: %w", err)
	}
	ids, err := cliflag.TLSCipherSuites(k.TLSCipherSuites)
	if err != nil {
		return nil, fmt.Errorf("tlsCipherSuites: %w", err)
	}
	curves, err := cliflag.TLSCurvePreferences(k.TLSCurvePreferences)
	if err != nil {
		return nil, fmt.Errorf("tlsCurvePreferences: %w", err)
	}
	protocols := []string{"h2", "http/1.1"}
	if len(ids) > 0 && version < tls.VersionTLS13 && !slices.ContainsFunc(ids, forHTTP2) {
		protocols = protocols[1:]
	}
	return &tls.Config{
		MinVersion: version, CipherSuites: ids, CurvePreferences: curves, NextProtos: protocols,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.Get() },
	}, nil
}

// forHTTP2 says of a cipher suite that a server with HTTP/2 must have it, or the other one (RFC 9113, 9.2.2).
func forHTTP2(id uint16) bool {
	return id == tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 || id == tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
}
