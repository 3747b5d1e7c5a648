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

// certDir is the directory of the node's own and requested certificates.
func certDir(c config.Config) string {
	if o := c.Options(); o.CertDir == config.DefaultCertDir {
		return filepath.Join(o.RootDir, "pki") // the same, where --root-dir is not given
	}
	return c.Options().CertDir
}

// clientStore has the node's client certificate, if the node requested it itself.
func clientStore(c config.Config) csr.Store {
	return csr.Store{Dir: certDir(c), Name: "kubelet-client"}
}

// needsBootstrap reports whether the node must request a certificate with the credential of
// --bootstrap-kubeconfig: there is no --kubeconfig, or the requested certificate in it has
// expired.
func needsBootstrap(c config.Config, now time.Time) bool {
	o := c.Options()
	if o.BootstrapKubeconfig == "" {
		return false
	}
	if !exists(o.Kubeconfig) {
		return true
	}
	is, err := kube.Load(o.Kubeconfig)
	if err != nil || !ownCertificate(c, is) {
		return false // the error is reported at its first use
	}
	has, err := clientStore(c).Load()
	return err == nil && (has == nil || now.After(has.Leaf.NotAfter))
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
		Store: clientStore(c), Draw: rand.Float64, Failed: failed, Log: log,
	})
}

// bootstrap requests a certificate, waits for the cluster's answer as long as it takes, and
// writes the --kubeconfig with the certificate (TLS bootstrapping).
func bootstrap(
	ctx context.Context, c config.Config, name string, log zerolog.Logger, observe func(kube.Request),
) (*rest.Config, error) {
	o := c.Options()
	is, err := kube.Load(o.BootstrapKubeconfig)
	if err != nil {
		return nil, fmt.Errorf("--bootstrap-kubeconfig: %w", err)
	}
	client, err := dial(c, is, log, observe)
	if err != nil {
		return nil, fmt.Errorf("--bootstrap-kubeconfig %s: %w", o.BootstrapKubeconfig, err)
	}
	defer client.Close()
	keeper, err := clientKeeper(c, client, name, nil, log)
	if err != nil {
		return nil, fmt.Errorf("client certificate of the node: %w", err)
	}
	log.Info().Str("node", name).Msg("requesting a client certificate with the credential of --bootstrap-kubeconfig")
	if err := keeper.First(ctx); err != nil {
		return nil, fmt.Errorf("client certificate of the node: %w", err)
	}
	if err := kube.Derive(o.BootstrapKubeconfig, o.Kubeconfig, clientStore(c).Current()); err != nil {
		return nil, err
	}
	return kube.Load(o.Kubeconfig)
}

// adopted is a client configuration whose certificate the node keeps from now on, so that it can be renewed
// (rotateCertificates): one of a kubeconfig comes into the node's store, as with a kubelet. kubeadm writes the
// certificate of a cluster's first node into its kubeconfig, looks for the file in the store, and then has the kubeconfig
// name that file. If the store has a certificate already, the newer of the two counts.
func adopted(c config.Config, is *rest.Config, now time.Time) (*rest.Config, error) {
	if !c.Kubelet().RotateCertificates || ownCertificate(c, is) {
		return is, nil
	}
	own := rest.CopyConfig(is)
	if err := rest.LoadTLSFiles(own); err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", c.Options().Kubeconfig, err)
	}
	if len(own.CertData) == 0 {
		return is, nil // it is a token or a plugin, which somebody else renews
	}
	given, err := tls.X509KeyPair(own.CertData, own.KeyData)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: client certificate: %w", c.Options().Kubeconfig, err)
	}
	store := clientStore(c)
	has, err := store.Load()
	if err != nil {
		return nil, err
	}
	if has == nil || now.After(has.Leaf.NotAfter) || given.Leaf.NotBefore.After(has.Leaf.NotBefore) {
		if saved, err := store.Save(now, own.CertData, own.KeyData); saved == nil {
			return nil, fmt.Errorf("client certificate of the node: %w", err)
		}
	}
	own.CertData, own.KeyData = nil, nil
	own.CertFile, own.KeyFile = store.Current(), store.Current()
	return own, nil
}

// rotateCertificates renews the certificate that the node shows its apiserver, if it
// is one that the node keeps (rotateCertificates). The client reads it again by
// itself.
func (d *running) rotateCertificates(
	c config.Config, is *rest.Config, client *kube.Client,
) (func(context.Context) error, error) {
	none := func(ctx context.Context) error { <-ctx.Done(); return nil }
	if client == nil || !c.Kubelet().RotateCertificates {
		return none, nil
	}
	if !ownCertificate(c, is) {
		d.log.Warn().Str("kubeconfig", c.Options().Kubeconfig).
			Msg("rotateCertificates has no effect: the kubeconfig has no client certificate that the agent could renew")
		return none, nil
	}
	keeper, err := clientKeeper(c, client, d.name, d.counters.ClientRenewals(), d.log)
	if err != nil {
		return nil, fmt.Errorf("client certificate of the node: %w", err)
	}
	d.counters.ClientCertificate(keeper.Current)
	return func(ctx context.Context) error {
		keeper.Run(ctx)
		return nil
	}, nil
}
