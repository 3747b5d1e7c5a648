package node

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"
	certificates "k8s.io/api/certificates/v1"
	"k8s.io/client-go/rest"

	"github.com/troupe-dev/troupe/apiclient/csr"
	"github.com/troupe-dev/troupe/apiclient/kube"
	"github.com/troupe-dev/troupe/supervisor/config"
)

// certDir is the directory of the node's own and requested certificates. Without --cert-dir it is that of the client
// certificate, so that a node of kubeadm with another --root-dir has its serving certificate where a kubelet had it.
func certDir(c config.Config) string {
	if o := c.Options(); o.CertDir != config.DefaultCertDir {
		return o.CertDir
	}
	return clientStore(c).Dir
}

// currentClient is the name of the file that a kubelet keeps its client certificate in.
const currentClient = "kubelet-client-current.pem"

// pendingClient is the name of the file with the key of a request that waits, as a kubelet has it.
const pendingClient = "kubelet-client.key.tmp"

// clientStore has the node's client certificate, if the node keeps it itself. A kubeconfig that names a file of that
// name says where: kubeadm's names it in /var/lib/kubelet, whatever --root-dir is.
func clientStore(c config.Config) csr.Store {
	o := c.Options()
	dir := o.CertDir
	if dir == config.DefaultCertDir {
		dir = filepath.Join(o.RootDir, "pki") // the same, where --root-dir is not given
	}
	if named := kube.CertificateFile(o.Kubeconfig); filepath.Base(named) == currentClient {
		dir = filepath.Dir(named)
	}
	return csr.Store{Dir: dir, Name: "kubelet-client"}
}

// needsBootstrap reports whether the node must request a certificate with the credential of --bootstrap-kubeconfig:
// there is no --kubeconfig that can be read, or its certificate has expired, and so has the one that the node keeps.
func needsBootstrap(c config.Config, now time.Time) bool {
	o := c.Options()
	if o.BootstrapKubeconfig == "" {
		return false
	}
	is, err := kube.Load(o.Kubeconfig)
	if err != nil {
		return true
	}
	own := ownCertificate(c, is)
	if own || c.Kubelet().RotateCertificates {
		if has, err := clientStore(c).Load(); err != nil || has != nil && !now.After(has.Leaf.NotAfter) {
			return false // an error is reported at its first use
		}
	}
	if own {
		return true
	}
	given, err := clientPair(is)
	return err == nil && given != nil && now.After(given.Leaf.NotAfter)
}

// clientPair is the client certificate of a configuration; nil if it has another credential. The configuration is
// given what is in its files.
func clientPair(is *rest.Config) (*tls.Certificate, error) {
	if err := rest.LoadTLSFiles(is); err != nil {
		return nil, err
	}
	if len(is.CertData) == 0 {
		return nil, nil
	}
	pair, err := tls.X509KeyPair(is.CertData, is.KeyData)
	return &pair, err
}

// whyBootstrap says of a node that needs a certificate what is wrong with the credential that it has.
func whyBootstrap(c config.Config) string {
	is, err := kube.Load(c.Options().Kubeconfig)
	if err != nil {
		return err.Error()
	}
	return kube.DescribeCredential(is)
}

// ownCertificate reports whether a kubeconfig names the certificate that the node keeps.
func ownCertificate(c config.Config, is *rest.Config) bool {
	return is.CertFile != "" && filepath.Clean(is.CertFile) == clientStore(c).Current()
}

// clientKeeper keeps the certificate that the node shows its apiserver.
func clientKeeper(c config.Config, by csr.Signer, name string, failed func(), log zerolog.Logger) (*csr.Keeper, error) {
	return csr.New(csr.Config{
		Signer: by, SignerName: certificates.KubeAPIServerClientKubeletSignerName,
		Usages: []certificates.KeyUsage{certificates.UsageDigitalSignature, certificates.UsageClientAuth},
		Template: func() *x509.CertificateRequest {
			return &x509.CertificateRequest{
				Subject: pkix.Name{CommonName: "system:node:" + name, Organization: []string{"system:nodes"}},
			}
		},
		Store: clientStore(c), Pending: filepath.Join(certDir(c), pendingClient),
		Draw: rand.Float64, Failed: failed, Log: log,
	})
}

// bootstrap requests a certificate, waits for the cluster's answer as long as it takes, and
// writes the --kubeconfig with the certificate (TLS bootstrapping without rotateCertificates).
func bootstrap(
	ctx context.Context, c config.Config, name string, log zerolog.Logger, observe func(kube.Request),
) (*rest.Config, error) {
	o := c.Options()
	client, err := dialFirst(c, log, observe)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	keeper, err := clientKeeper(c, client, name, nil, log)
	if err != nil {
		return nil, fmt.Errorf("client certificate of the node: %w", err)
	}
	log.Info().Str("node", name).Str("because", whyBootstrap(c)).
		Msg("requesting a client certificate with the credential of --bootstrap-kubeconfig")
	if err := keeper.First(ctx); err != nil {
		return nil, fmt.Errorf("client certificate of the node: %w", err)
	}
	if err := kube.Derive(o.BootstrapKubeconfig, o.Kubeconfig, clientStore(c).Current()); err != nil {
		return nil, err
	}
	return kube.Load(o.Kubeconfig)
}

// bootstrapLater is the client configuration of a node that has yet to get its certificate, and goes on meanwhile
// (rotateCertificates). It writes the --kubeconfig, which names the file where the certificate will be.
func bootstrapLater(c config.Config, log zerolog.Logger) (*rest.Config, error) {
	o, file, because := c.Options(), clientStore(c).Current(), whyBootstrap(c)
	first, err := kube.Load(o.BootstrapKubeconfig)
	if err != nil {
		return nil, fmt.Errorf("--bootstrap-kubeconfig: %w", err)
	}
	if err := kube.Derive(o.BootstrapKubeconfig, o.Kubeconfig, file); err != nil {
		return nil, err
	}
	log.Info().Str("because", because).Msg("the node requests a client certificate with the credential of " +
		"--bootstrap-kubeconfig; static pods run meanwhile")
	is := rest.AnonymousClientConfig(first)
	is.CertFile, is.KeyFile = file, file
	return is, nil
}

// dialFirst makes a client with the credential of --bootstrap-kubeconfig.
func dialFirst(c config.Config, log zerolog.Logger, observe func(kube.Request)) (*kube.Client, error) {
	path := c.Options().BootstrapKubeconfig
	is, err := kube.Load(path)
	if err != nil {
		return nil, fmt.Errorf("--bootstrap-kubeconfig: %w", err)
	}
	client, err := dial(c, is, log, observe)
	if err != nil {
		return nil, fmt.Errorf("--bootstrap-kubeconfig %s: %w", path, err)
	}
	return client, nil
}

// clientSigner asks for the client certificate of a node that runs: with the one that it has, and without a valid one
// with the credential of --bootstrap-kubeconfig. It reads the files for each request, as somebody may have replaced
// them. One request is made at a time.
type clientSigner struct {
	config config.Config
	// own has the node's certificate, and first, if it is not nil, the other credential.
	own, first *kube.Client
	log        zerolog.Logger
	observe    func(kube.Request)
}

// RequestCertificate implements csr.Signer.
func (s *clientSigner) RequestCertificate(ctx context.Context, r *certificates.CertificateSigningRequest) error {
	s.close()
	now := time.Now()
	if is, err := kube.Load(s.config.Options().Kubeconfig); err == nil {
		if _, err := adopted(s.config, is, now, s.log); err != nil {
			s.log.Warn().Str("error", err.Error()).Msg("cannot use the client certificate of the kubeconfig")
		}
	}
	if needsBootstrap(s.config, now) {
		var err error
		if s.first, err = dialFirst(s.config, s.log, s.observe); err != nil {
			return err
		}
	}
	return s.asked().RequestCertificate(ctx, r)
}

// CertificateRequest implements csr.Signer.
func (s *clientSigner) CertificateRequest(
	ctx context.Context, name string,
) (*certificates.CertificateSigningRequest, error) {
	return s.asked().CertificateRequest(ctx, name)
}

func (s *clientSigner) asked() *kube.Client {
	if s.first != nil {
		return s.first
	}
	return s.own
}

func (s *clientSigner) close() {
	if s.first != nil {
		s.first.Close()
		s.first = nil
	}
}

// adopted is a client configuration whose certificate the node keeps from now on, so that it can be renewed
// (rotateCertificates): one of a kubeconfig comes into the node's store, as with a kubelet. kubeadm writes the
// certificate of a cluster's first node into its kubeconfig, looks for the file in the store, and then has the
// kubeconfig name that file. If the store has a certificate already, the newer of the two counts.
func adopted(c config.Config, is *rest.Config, now time.Time, log zerolog.Logger) (*rest.Config, error) {
	if !c.Kubelet().RotateCertificates || ownCertificate(c, is) {
		return is, nil
	}
	own := rest.CopyConfig(is)
	given, err := clientPair(own)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: client certificate: %w", c.Options().Kubeconfig, err)
	}
	if given == nil {
		return is, nil // it is a token or a plugin, which somebody else renews
	}
	store := clientStore(c)
	has, err := store.Load()
	if err != nil {
		return nil, err
	}
	better := has == nil || given.Leaf.NotBefore.After(has.Leaf.NotBefore) ||
		now.After(has.Leaf.NotAfter) && !now.After(given.Leaf.NotAfter)
	if better {
		if saved, err := store.Save(now, own.CertData, own.KeyData); saved == nil {
			log.Warn().Str("error", err.Error()).Str("kubeconfig", c.Options().Kubeconfig).
				Msg("cannot store the client certificate of the kubeconfig, so it will not be renewed (rotateCertificates)")
			return is, nil
		}
	}
	own.CAData = is.CAData // not what is in its file, which is read again when it changes
	own.CertData, own.KeyData = nil, nil
	own.CertFile, own.KeyFile = store.Current(), store.Current()
	return own, nil
}

// rotateCertificates renews the certificate that the node shows its apiserver, if it is one that the node keeps
// (rotateCertificates). The client reads it again by itself.
func (d *nodeDaemon) rotateCertificates() error {
	c := d.Config
	if d.client == nil || !c.Kubelet().RotateCertificates {
		return nil
	}
	if !ownCertificate(c, d.apiserver) {
		d.Log.Warn().Str("kubeconfig", c.Options().Kubeconfig).
			Msg("rotateCertificates has no effect: the kubeconfig has no client certificate that the agent could renew")
		return nil
	}
	by := &clientSigner{config: c, own: d.client, log: d.Log, observe: d.counters.Request}
	keeper, err := clientKeeper(c, by, d.name, d.counters.ClientRenewals(), d.Log)
	if err != nil {
		return fmt.Errorf("client certificate of the node: %w", err)
	}
	d.counters.ClientCertificate(keeper.Current)
	d.servers = append(d.servers, func(ctx context.Context) error {
		keeper.Run(ctx)
		by.close()
		return nil
	})
	return nil
}
