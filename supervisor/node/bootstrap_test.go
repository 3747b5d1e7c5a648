package node

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	certificates "k8s.io/api/certificates/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/troupe-dev/troupe/apiclient/csr"
	"github.com/troupe-dev/troupe/apiclient/kube"
	"github.com/troupe-dev/troupe/supervisor/metrics"
	must "github.com/troupe-dev/troupe/tests/check" // check is a function of this package
)

// saved puts a certificate into a store that is good until then.
func saved(t *testing.T, s csr.Store, until time.Time) {
	t.Helper()
	cert, key := pair(t, "", until)
	must.Value(s.Save(time.Now(), cert, key))(t)
}

// pair is a certificate of that name that is good for an hour, until then, and its key.
func pair(t *testing.T, name string, until time.Time) (cert, keyPEM []byte) {
	t.Helper()
	key := must.Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	own := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: until.Add(-time.Hour), NotAfter: until,
	}
	der := must.Value(x509.CreateCertificate(rand.Reader, own, own, key.Public(), key))(t)
	bare := must.Value(x509.MarshalPKCS8PrivateKey(key))(t)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: bare})
}

func TestNeedsBootstrap(t *testing.T) {
	dir := t.TempDir()
	first, own, other := filepath.Join(dir, "bootstrap"), filepath.Join(dir, "own"), filepath.Join(dir, "other")
	must.Fatal(t, clientcmd.WriteToFile(api.Config{
		Clusters:  map[string]*api.Cluster{"c": {Server: "https://192.0.2.1"}},
		AuthInfos: map[string]*api.AuthInfo{"u": {Token: "t"}}, Contexts: map[string]*api.Context{"x": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "x",
	}, first))
	with := func(kubeconfig string) bool {
		return needsBootstrap(clustered(t, "", "--root-dir", dir, "--kubeconfig", kubeconfig, "--bootstrap-kubeconfig", first), time.Now())
	}
	if !with(own) {
		t.Error("there is no kubeconfig, and no need of one")
	}
	store := csr.Store{Dir: filepath.Join(dir, "pki"), Name: "kubelet-client"}
	saved(t, store, time.Now().Add(time.Hour))
	for path, file := range map[string]string{own: store.Current(), other: store.Current() + ".other"} {
		must.Fatal(t, kube.Derive(first, path, file))
	}
	if with(own) {
		t.Error("one that is good is asked for again")
	}
	saved(t, store, time.Now().Add(-time.Minute))
	if !with(own) {
		t.Error("one that has ended is not asked for again")
	}
	if !with(other) {
		t.Error("the kubeconfig names one that is not there, and none is asked for")
	}
	must.Fatal(t, os.Link(store.Current(), store.Current()+".other"))
	if !with(other) {
		t.Error("one that somebody else kept has ended, and none is asked for")
	}
	if needsBootstrap(clustered(t, "", "--root-dir", dir, "--kubeconfig", own), time.Now()) {
		t.Error("it is asked for without a credential for it")
	}
}

// TestExpiredInKubeconfig: one that is in the kubeconfig itself, as kubeadm writes it, has expired.
func TestExpiredInKubeconfig(t *testing.T) {
	for _, tt := range []struct {
		name         string
		settings     string
		given, store time.Duration // how long they are good; 0: there is none
		text         string        // the kubeconfig, if it is not one
		want         bool
	}{
		{name: "good", given: time.Hour},
		{name: "expired", given: -time.Hour, want: true},
		{name: "expired, and the node keeps a good one", settings: "rotateCertificates: true", given: -time.Hour, store: time.Hour},
		{name: "expired, and the node keeps a good one that it does not use", given: -time.Hour, store: time.Hour, want: true},
		{name: "both have expired", settings: "rotateCertificates: true", given: -time.Hour, store: -time.Hour, want: true},
		{name: "half written", text: "apiVersion: v1\nkind: Conf", want: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir, other := t.TempDir(), csr.Store{Dir: t.TempDir(), Name: "kubeadm"}
			file := filepath.Join(dir, "kubeconfig")
			if tt.given != 0 {
				saved(t, other, time.Now().Add(tt.given))
				pair := must.Value(os.ReadFile(other.Current()))(t)
				must.Fatal(t, clientcmd.WriteToFile(api.Config{
					Clusters:  map[string]*api.Cluster{"c": {Server: "https://192.0.2.1"}},
					AuthInfos: map[string]*api.AuthInfo{"u": {ClientCertificateData: pair, ClientKeyData: pair}}, Contexts: map[string]*api.Context{"x": {Cluster: "c", AuthInfo: "u"}},
					CurrentContext: "x",
				}, file))
			} else if err := os.WriteFile(file, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			c := clustered(t, tt.settings, "--root-dir", dir, "--kubeconfig", file, "--bootstrap-kubeconfig", "/first")
			if tt.store != 0 {
				saved(t, clientStore(c), time.Now().Add(tt.store))
			}
			if got := needsBootstrap(c, time.Now()); got != tt.want {
				t.Errorf("%v", got)
			}
		})
	}
}

// TestExpiredWithoutAnother: a node whose certificate has expired, and that can't ask for another one, says both. kubeadm
// removes the file of --bootstrap-kubeconfig when a node has joined, and its unit goes on to name it.
func TestExpiredWithoutAnother(t *testing.T) {
	dir := t.TempDir()
	kubeconfig, first := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "first")
	c := clustered(t, "rotateCertificates: true", "--root-dir", dir, "--kubeconfig", kubeconfig, "--bootstrap-kubeconfig", first)
	file := clientStore(c).Current()
	saved(t, clientStore(c), time.Now().Add(-time.Hour))
	must.Fatal(t, clientcmd.WriteToFile(api.Config{
		Clusters: map[string]*api.Cluster{"c": {Server: "https://192.0.2.1"}}, CurrentContext: "x",
		AuthInfos: map[string]*api.AuthInfo{"u": {ClientCertificate: file, ClientKey: file}},
		Contexts:  map[string]*api.Context{"x": {Cluster: "c", AuthInfo: "u"}},
	}, kubeconfig))
	text := fmt.Sprint(must.Err(credential(c)))
	for _, want := range []string{file, "expired at", "--bootstrap-kubeconfig: kubeconfig " + first + ": no such file"} {
		must.Has(t, text, want, "the error")
	}
	must.Fatal(t, os.Remove(kubeconfig))
	must.Has(t, whyBootstrap(c), "kubeconfig "+kubeconfig+": no such file", "why a certificate is asked for")
}

// TestStoreIsWhereTheKubeconfigSays: kubeadm names the file in /var/lib/kubelet, whatever the root directory is. The
// certificate of the HTTPS server is beside it, unless --cert-dir is given.
func TestStoreIsWhereTheKubeconfigSays(t *testing.T) {
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "kubeconfig")
	for _, tt := range []struct{ named, certDir, client, server string }{
		{"/var/lib/kubelet/pki/kubelet-client-current.pem", "", "/var/lib/kubelet/pki", "/var/lib/kubelet/pki"},
		{"/etc/kubernetes/node.pem", "", filepath.Join(dir, "pki"), filepath.Join(dir, "pki")},
		{"/var/lib/kubelet/pki/kubelet-client-current.pem", "/certs", "/var/lib/kubelet/pki", "/certs"},
		{"/etc/kubernetes/node.pem", "/certs", "/certs", "/certs"},
	} {
		must.Fatal(t, clientcmd.WriteToFile(api.Config{
			Clusters:  map[string]*api.Cluster{"c": {Server: "https://192.0.2.1"}},
			AuthInfos: map[string]*api.AuthInfo{"u": {ClientCertificate: tt.named, ClientKey: tt.named}}, Contexts: map[string]*api.Context{"x": {Cluster: "c", AuthInfo: "u"}},
			CurrentContext: "x",
		}, file))
		args := []string{"--root-dir", dir, "--kubeconfig", file}
		if tt.certDir != "" {
			args = append(args, "--cert-dir", tt.certDir)
		}
		c := clustered(t, "", args...)
		must.Equal(t, clientStore(c).Dir, tt.client, "client certificate of %s, --cert-dir %q", tt.named, tt.certDir)
		must.Equal(t, certDir(c), tt.server, "serving certificate of %s, --cert-dir %q", tt.named, tt.certDir)
	}
}

// TestAdopted: the certificate of a kubeconfig comes into the store, where it can be renewed. The newer one counts.
func TestAdopted(t *testing.T) {
	now := time.Now()
	hour := func(n int) time.Time { return now.Add(time.Duration(n) * time.Hour) }
	for _, tt := range []struct {
		name      string
		settings  string
		has       time.Time // until when the one in the store is good; it began an hour before
		takes     bool
		kubeToken bool
	}{
		{"none is there", "rotateCertificates: true", time.Time{}, true, false},
		{"that in the store is newer", "rotateCertificates: true", hour(9), false, false},
		{"that in the store is older", "rotateCertificates: true", hour(1), true, false},
		{"that in the store has expired", "rotateCertificates: true", hour(-1), true, false},
		{"not asked for", "", time.Time{}, false, false},
		{"a token", "rotateCertificates: true", time.Time{}, false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir, other := t.TempDir(), csr.Store{Dir: t.TempDir(), Name: "kubeadm"}
			saved(t, other, hour(5))
			given := must.Value(os.ReadFile(other.Current()))(t)
			c := clustered(t, tt.settings, "--root-dir", dir)
			store := clientStore(c)
			var before []byte
			if !tt.has.IsZero() {
				saved(t, store, tt.has)
				before = must.Value(os.ReadFile(store.Current()))(t)
			}
			is := &rest.Config{TLSClientConfig: rest.TLSClientConfig{CertData: given, KeyData: given, CAFile: other.Current()}}
			if tt.kubeToken {
				is = &rest.Config{BearerToken: "t"}
			}
			got := must.Value(adopted(c, is, now, zerolog.Nop()))(t)
			after, err := os.ReadFile(store.Current())
			if tt.settings == "" || tt.kubeToken {
				if got != is || !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("it became %+v, and in the store is %s", got, after)
				}
				return
			}
			if err != nil || got.CertFile != store.Current() || got.KeyFile != store.Current() || len(got.CertData)+len(got.KeyData) > 0 || len(is.CertData) == 0 {
				t.Errorf("it became %+v from %+v, %v", got.TLSClientConfig, is.TLSClientConfig, err)
			}
			if got.CAFile != is.CAFile || len(got.CAData) > 0 {
				t.Error("the file of the CA is not read again when it changes")
			}
			if taken := !bytes.Equal(after, before); taken != tt.takes {
				t.Errorf("taken: %v", taken)
			}
		})
	}
	c := clustered(t, "rotateCertificates: true", "--root-dir", t.TempDir())
	if _, err := adopted(c, &rest.Config{TLSClientConfig: rest.TLSClientConfig{CertData: []byte("x"), KeyData: []byte("y")}}, now, zerolog.Nop()); err == nil {
		t.Error("a certificate that is none is accepted")
	}
	full := clustered(t, "rotateCertificates: true", "--root-dir", t.TempDir(), "--cert-dir", "/proc/nothing")
	var log strings.Builder
	other := csr.Store{Dir: t.TempDir(), Name: "kubeadm"}
	saved(t, other, hour(5))
	is := &rest.Config{TLSClientConfig: rest.TLSClientConfig{CertFile: other.Current(), KeyFile: other.Current()}}
	if got, err := adopted(full, is, now, zerolog.New(&log)); got != is || err != nil || !strings.Contains(log.String(), "will not be renewed") {
		t.Errorf("it became %+v, %v: %s", got, err, log.String())
	}
}

// refusing is a cluster that notes the request of a certificate, and refuses it.
type refusing struct {
	asked *certificates.CertificateSigningRequest
}

var errRefused = errors.New("refused")

func (r *refusing) RequestCertificate(_ context.Context, asked *certificates.CertificateSigningRequest) error {
	r.asked = asked
	return errRefused
}

func (r *refusing) CertificateRequest(context.Context, string) (*certificates.CertificateSigningRequest, error) {
	return nil, errRefused
}

// TestClientRequest: the node asks for a certificate with which it is a client, under its name.
func TestClientRequest(t *testing.T) {
	by := &refusing{}
	keeper := must.Value(clientKeeper(clustered(t, "", "--root-dir", t.TempDir()), by, "n1", nil, zerolog.Nop()))(t)
	wish := &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:n1", Organization: []string{"system:nodes"}}}
	if err := keeper.Renew(t.Context(), wish); !errors.Is(err, errRefused) {
		t.Fatal(err)
	}
	spec := by.asked.Spec
	want := []certificates.KeyUsage{certificates.UsageDigitalSignature, certificates.UsageClientAuth}
	if spec.SignerName != certificates.KubeAPIServerClientKubeletSignerName || !slices.Equal(spec.Usages, want) {
		t.Errorf("asked of %s for %v, want %v", spec.SignerName, spec.Usages, want)
	}
}

func TestWhoseCertificateIsRenewed(t *testing.T) {
	dir := t.TempDir()
	var log strings.Builder
	c := clustered(t, "rotateCertificates: true", "--root-dir", dir)
	is := &rest.Config{Host: "https://192.0.2.1", BearerToken: "t"}
	client := must.Value(dial(c, &rest.Config{Host: is.Host}, zerolog.Nop(), nil))(t)
	defer client.Close()
	numbers := must.Value(metrics.New(metrics.Config{Node: "n1", Version: "v1.36.0", Began: time.Now()}))(t)
	d := &nodeDaemon{
		Options: Options{Config: c, Log: zerolog.New(&log)}, name: "n1", counters: numbers, apiserver: is, client: client,
	}
	if err := d.rotateCertificates(); err != nil || !strings.Contains(log.String(), "rotateCertificates has no effect") {
		t.Errorf("%v: %s", err, log.String())
	}
	log.Reset()
	is.CertFile = filepath.Join(dir, "pki", "kubelet-client-current.pem")
	if err := d.rotateCertificates(); err != nil || log.Len() > 0 {
		t.Errorf("%v: %s", err, log.String())
	}
}
