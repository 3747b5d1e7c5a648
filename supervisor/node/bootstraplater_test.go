package node

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	certificates "k8s.io/api/certificates/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	must "github.com/troupe-dev/troupe/tests/check" // check is a function of this package
)

// signing is an apiserver that takes requests of certificates, signs them once it may, and notes who asks for what.
type signing struct {
	*httptest.Server
	t *testing.T

	mu     sync.Mutex
	signs  bool
	asked  *certificates.CertificateSigningRequest
	askers []string // "token" or the name in a certificate, of each request of a certificate
	nodes  int      // requests with the node's certificate
}

func newSigning(t *testing.T) *signing {
	s := &signing{t: t}
	s.Server = httptest.NewUnstartedServer(s)
	s.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func (s *signing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	asker := "token"
	if len(r.TLS.PeerCertificates) > 0 {
		asker = r.TLS.PeerCertificates[0].Subject.CommonName
	}
	w.Header().Set("Content-Type", "application/json")
	switch {
	case !strings.HasPrefix(r.URL.Path, "/apis/certificates.k8s.io/v1/certificatesigningrequests"):
		if asker == "system:node:n1" {
			s.nodes++
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	case r.Method == http.MethodPost:
		s.askers = append(s.askers, asker)
		s.asked = &certificates.CertificateSigningRequest{}
		must.Error(s.t, json.NewDecoder(r.Body).Decode(s.asked))
		s.asked.Name = "csr-1"
		w.WriteHeader(http.StatusCreated)
	case s.signs && s.asked.Status.Certificate == nil:
		s.asked.Status.Certificate = s.sign(s.asked.Spec.Request)
	}
	must.Error(s.t, json.NewEncoder(w).Encode(s.asked))
}

func (s *signing) sign(request []byte) []byte {
	block, _ := pem.Decode(request)
	wish := must.Value(x509.ParseCertificateRequest(block.Bytes))(s.t)
	key := must.Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(s.t)
	leaf := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: wish.Subject, NotAfter: time.Now().Add(time.Hour)}
	der := must.Value(x509.CreateCertificate(rand.Reader, leaf, leaf, wish.PublicKey, key))(s.t)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// now looks at it.
func (s *signing) now(look func() bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return look()
}

// kubeconfig writes one for a user.
func (s *signing) kubeconfig(path string, user api.AuthInfo) string {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	must.Fatal(s.t, clientcmd.WriteToFile(api.Config{
		Clusters:  map[string]*api.Cluster{"c": {Server: s.URL, CertificateAuthorityData: ca}},
		AuthInfos: map[string]*api.AuthInfo{"u": &user}, Contexts: map[string]*api.Context{"x": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "x",
	}, path))
	return path
}

// TestBootstrapsInTheBackground: with rotateCertificates the agent is up while nobody signs its request, and then uses
// the certificate. The kubeconfig names its file from the start.
func TestBootstrapsInTheBackground(t *testing.T) {
	conn, s, dir := systemd(t), newSigning(t), t.TempDir()
	own := filepath.Join(dir, "own")
	o := simulated(t, "--rotate-certificates", "--kube-api-content-type=application/json", "--kubeconfig", own,
		"--bootstrap-kubeconfig", s.kubeconfig(filepath.Join(dir, "first"), api.AuthInfo{Token: "t"}))
	log, said := logged(t)
	o.Log = log
	cancel, ended := isUp(t, conn, o)
	must.Until(t, "the request", func() bool { return s.now(func() bool { return s.asked != nil }) })
	file := clientStore(o.Config).Current()
	text := must.Value(os.ReadFile(own))(t)
	must.Has(t, string(text), file, "the kubeconfig")
	why := "kubeconfig " + own + ": no such file or directory"
	must.Has(t, said(), `"because":"`+why+`"`, "the log")
	must.Equal(t, s.now(func() bool { return s.nodes == 0 }), true, "nothing is asked for without a certificate")
	s.now(func() bool { s.signs = true; return true })
	must.Until(t, "a request with the certificate", func() bool { return s.now(func() bool { return s.nodes > 0 }) })
	cancel()
	must.Fatal(t, <-ended)
}

// TestWhoAsksForACertificate: the node itself while its certificate is good. One that has expired can't be renewed with
// itself: then it is the credential of --bootstrap-kubeconfig, or what somebody has put into the kubeconfig.
func TestWhoAsksForACertificate(t *testing.T) {
	s, dir := newSigning(t), t.TempDir()
	s.signs = true
	own, first := filepath.Join(dir, "own"), s.kubeconfig(filepath.Join(dir, "first"), api.AuthInfo{Token: "t"})
	c := clustered(t, "rotateCertificates: true\ncontentType: application/json", "--root-dir", dir, "--kubeconfig", own,
		"--bootstrap-kubeconfig", first)
	is := must.Value(bootstrapLater(c, zerolog.Nop()))(t)
	for _, tt := range []struct {
		name  string
		until time.Duration // how long the node's certificate is good; 0: as it was
		do    func()
		want  string
	}{
		{"none", 0, func() {}, "token"},
		{"a good one", time.Hour, func() {}, "kept"},
		{"an expired one", -time.Minute, func() {}, "token"},
		{"and a good one in the kubeconfig", 0, func() {
			cert, key := pair(t, "given", time.Now().Add(time.Hour))
			s.kubeconfig(own, api.AuthInfo{ClientCertificateData: cert, ClientKeyData: key})
		}, "given"},
	} {
		if tt.until != 0 {
			until := time.Now().Add(tt.until)
			cert, key := pair(t, "kept", until)
			must.Value(clientStore(c).Save(until, cert, key))(t)
		}
		client := must.Value(dial(c, is, zerolog.Nop(), nil))(t)
		tt.do()
		by := &clientSigner{config: c, own: client, log: zerolog.Nop()}
		asks(t, by)
		must.Equal(t, s.askers[len(s.askers)-1], tt.want, "who asks, with %s", tt.name)
		by.close()
		client.Close()
	}
}

func asks(t *testing.T, by *clientSigner) {
	t.Helper()
	key := must.Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	der := must.Value(x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key))(t)
	request := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	r := &certificates.CertificateSigningRequest{Spec: certificates.CertificateSigningRequestSpec{Request: request}}
	must.Fatal(t, by.RequestCertificate(t.Context(), r))
	signed := must.Value(by.CertificateRequest(t.Context(), r.Name))(t)
	must.Equal(t, len(signed.Status.Certificate) > 0, true, "it is signed")
}
