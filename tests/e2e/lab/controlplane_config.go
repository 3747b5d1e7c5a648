package lab

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
)

// pki is the directory of keys and certificates.
func (c *ControlPlane) pki() string { return filepath.Join(c.config.Dir, "pki") }

func (c *ControlPlane) makeKeys() (err error) {
	defer check.Return(&err)
	c.authority = check.Must(newAuthority())
	caKey := check.Must(privateKey(c.authority.key))
	check.OK((pair{cert: c.authority.pem(), key: caKey}).write(c.pki(), "ca"))
	private, public := check.Must2(serviceAccountKey())
	// The public half is no certificate; the pair is only a way to write both.
	check.OK((pair{cert: public, key: private}).write(c.pki(), "service-account"))
	for _, s := range []struct {
		name  string
		hosts []string
	}{
		{"etcd", nil},
		{"apiserver", []string{"kubernetes", "kubernetes.default", "kubernetes.default.svc", firstServiceIP}},
	} {
		p := check.Must(c.authority.server(s.name, s.hosts...))
		check.OK(p.write(c.pki(), s.name))
	}
	toNodes := check.Must(c.authority.client("kube-apiserver-kubelet-client", []string{"system:masters"}, certLifetime))
	check.OK(toNodes.write(c.pki(), "apiserver-kubelet-client"))
	c.admin = check.Must(c.authority.client("lab-admin", []string{"system:masters"}, certLifetime))
	return c.admin.write(c.pki(), "admin")
}

func (c *ControlPlane) etcdArgs() []string {
	client, peer := "https://"+loopback(c.ports.Etcd), "https://"+loopback(c.ports.EtcdPeer)
	cert, key, ca := c.file("etcd.crt"), c.file("etcd.key"), c.file("ca.crt")
	return []string{
		"--name=lab", "--data-dir=" + c.store.data(), "--unsafe-no-fsync", "--log-level=warn",
		"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=lab=" + peer,
		"--cert-file=" + cert, "--key-file=" + key, "--trusted-ca-file=" + ca, "--client-cert-auth",
		"--peer-cert-file=" + cert, "--peer-key-file=" + key, "--peer-trusted-ca-file=" + ca, "--peer-client-cert-auth",
	}
}

func (c *ControlPlane) apiserverArgs() []string {
	args := []string{
		"--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(c.ports.APIServer),
		"--tls-cert-file=" + c.file("apiserver.crt"), "--tls-private-key-file=" + c.file("apiserver.key"),
		"--client-ca-file=" + c.file("ca.crt"),
		"--etcd-servers=https://" + loopback(c.ports.Etcd), "--etcd-cafile=" + c.file("ca.crt"),
		"--etcd-certfile=" + c.file("admin.crt"), "--etcd-keyfile=" + c.file("admin.key"),
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--allow-privileged",
		"--enable-bootstrap-token-auth", // kubeadm joins nodes with tokens
		"--service-cluster-ip-range=" + serviceCIDR,
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + c.file("service-account.crt"),
		"--service-account-signing-key-file=" + c.file("service-account.key"),
		// Nodes have no names that anybody else knows.
		"--kubelet-preferred-address-types=InternalIP",
		"--kubelet-client-certificate=" + c.file("apiserver-kubelet-client.crt"),
		"--kubelet-client-key=" + c.file("apiserver-kubelet-client.key"),
		// An endpoint may not be a loopback address, and the apiserver has no other.
		"--endpoint-reconciler-type=none",
		// Without the second it waits up to a minute at its end for watches, which nobody ends.
		"--shutdown-delay-duration=0s", "--shutdown-send-retry-after",
		// What projected volumes are made of that is off by default: trust bundles and certificates of pods.
		"--runtime-config=certificates.k8s.io/v1beta1=true",
		"--feature-gates=ClusterTrustBundle=true,ClusterTrustBundleProjection=true,PodCertificateRequest=true",
	}
	if !c.config.ControllerManager {
		args = append(args, "--disable-admission-plugins=ServiceAccount")
	}
	return append(args, c.config.APIServerFlags...)
}

func (c *ControlPlane) controllerArgs(kubeconfig string) []string {
	return []string{
		"--kubeconfig=" + kubeconfig, "--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(c.ports.Controllers),
		"--leader-elect=false", "--use-service-account-credentials",
		"--service-account-private-key-file=" + c.file("service-account.key"), "--root-ca-file=" + c.file("ca.crt"),
		"--cluster-signing-cert-file=" + c.file("ca.crt"), "--cluster-signing-key-file=" + c.file("ca.key"),
	}
}

func (c *ControlPlane) schedulerArgs(kubeconfig string) []string {
	return []string{
		"--kubeconfig=" + kubeconfig, "--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(c.ports.Scheduler),
		"--leader-elect=false",
	}
}

// file is the path of a key or certificate.
func (c *ControlPlane) file(name string) string { return filepath.Join(c.pki(), name) }

// CAFile is the certificate of the authority that all clients' and servers' certificates are signed by.
func (c *ControlPlane) CAFile() string { return c.file("ca.crt") }

// Kubeconfig writes a kubeconfig for a user of these groups and returns its path. The user's key and
// certificate are in it. A node is system:node:NAME of the group system:nodes.
func (c *ControlPlane) Kubeconfig(user string, groups ...string) (path string, err error) {
	return c.KubeconfigOf(Identity{User: user, Groups: groups})
}

// Identity is who a kubeconfig is for. User must be set.
type Identity struct {
	User   string
	Groups []string
	// Server is the apiserver's URL, the real one if empty.
	Server string
	// Lifetime of the certificate, long if 0; below 0 it has expired already.
	Lifetime time.Duration
	// Files puts certificate and key into files, which the kubeconfig names, instead of into it.
	Files bool
}

// KubeconfigOf is [ControlPlane.Kubeconfig] with more to say. Called again for the same user it
// replaces the files.
func (c *ControlPlane) KubeconfigOf(id Identity) (path string, err error) {
	defer check.Return(&err)
	if id.Lifetime == 0 {
		id.Lifetime = certLifetime
	}
	if id.Server == "" {
		id.Server = c.URL()
	}
	p, err := c.authority.client(id.User, id.Groups, id.Lifetime)
	if err != nil {
		return "", fmt.Errorf("make a certificate for %s: %w", id.User, err)
	}
	path = filepath.Join(c.config.Dir, "kubeconfig", strings.ReplaceAll(id.User, ":", "-"))
	user := map[string]any{"client-certificate-data": p.cert, "client-key-data": p.key}
	if id.Files {
		user = map[string]any{"client-certificate": path + ".crt", "client-key": path + ".key"}
		check.OK(p.write(filepath.Split(path)))
	}
	// JSON is YAML, and writes bytes as base64, as a kubeconfig has them.
	text := check.Must(json.MarshalIndent(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "lab",
		"clusters": []any{map[string]any{"name": "lab", "cluster": map[string]any{
			"server": id.Server, "certificate-authority-data": c.authority.pem(),
		}}},
		"users":    []any{map[string]any{"name": id.User, "user": user}},
		"contexts": []any{map[string]any{"name": "lab", "context": map[string]any{"cluster": "lab", "user": id.User}}},
	}, "", "  "))
	return path, os.WriteFile(path, append(text, '\n'), 0o600)
}
