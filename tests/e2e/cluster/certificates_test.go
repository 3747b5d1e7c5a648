package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	certificates "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/tests/check"
)

// approve approves of the requests of a user for a signer, until the cluster has signed so many.
func (b *bed) approve(t *testing.T, user, signer string, n int) {
	t.Helper()
	b.await(t, fmt.Sprintf("%d requests of %s for %s are signed", n, user, signer), func() error {
		list, err := b.admin.CertificatesV1().CertificateSigningRequests().List(t.Context(), metav1.ListOptions{FieldSelector: "spec.signerName=" + signer})
		if err != nil {
			return err
		}
		signed := 0
		for i := range list.Items {
			r := &list.Items[i]
			if r.Spec.Username != user {
				continue
			}
			if len(r.Status.Certificate) > 0 {
				signed++
			} else if len(r.Status.Conditions) == 0 {
				r.Status.Conditions = []certificates.CertificateSigningRequestCondition{
					{Type: certificates.CertificateApproved, Status: v1.ConditionTrue, Reason: "Test", Message: "by the test"},
				}
				check.Must(b.admin.CertificatesV1().CertificateSigningRequests().UpdateApproval(t.Context(), r.Name, r, metav1.UpdateOptions{}))
			}
		}
		if signed < n {
			return fmt.Errorf("%d of %d", signed, len(list.Items))
		}
		return nil
	})
}

// TestServingCertificate is asked of the cluster (serverTLSBootstrap): until somebody approves of it nothing
// is served, then to whoever trusts the cluster's authority, after a restart as well. When the controller of a cloud
// gives the node a name, it is asked for again, for that name too.
//
//tier:served
func TestServingCertificate(t *testing.T) {
	t.Parallel()
	b := started(t, "serving", onServed, callable(t), func(s *setup) {
		s.agent.Settings += "serverTLSBootstrap: true\n"
		s.agent.Flags = append(s.agent.Flags, "--cloud-provider=external")
	})
	port := b.node(t).Status.DaemonEndpoints.KubeletEndpoint.Port
	ca := check.Value(os.ReadFile(b.plane.CAFile()))(t)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	name := "" // the address
	handshake := func() error {
		d := tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: name}}
		conn, err := d.DialContext(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			return err
		}
		return conn.Close()
	}
	check.Fails(t, handshake(), "it serves with a certificate that nobody gave it")
	b.approve(t, "system:node:"+b.name, certificates.KubeletServingSignerName, 1)
	b.await(t, "it shows the certificate", handshake)
	name = "serving.internal"
	addresses := fmt.Sprintf(`{"status":{"addresses":[{"type":"InternalIP","address":"127.0.0.1"},
		{"type":"InternalDNS","address":%q}]}}`, name)
	check.Value(b.admin.CoreV1().Nodes().Patch(t.Context(), b.name, types.MergePatchType, []byte(addresses),
		metav1.PatchOptions{}, "status"))(t)
	b.approve(t, "system:node:"+b.name, certificates.KubeletServingSignerName, 2)
	b.await(t, "it shows a certificate for the name", handshake)
	check.Fatal(t, b.Stop(t.Context()))
	b.start(t)
	b.await(t, "it shows the certificate again", handshake)
	if list, err := b.admin.CertificatesV1().CertificateSigningRequests().List(t.Context(), metav1.ListOptions{}); err == nil {
		for _, r := range list.Items {
			if r.Spec.Username == "system:node:"+b.name && len(r.Status.Certificate) == 0 {
				t.Errorf("%s was asked for though there was one", r.Name)
			}
		}
	}
}

// TestBootstrap begins with a credential that may do nothing but ask for a certificate.
//
//tier:served
func TestBootstrap(t *testing.T) {
	t.Parallel()
	const joining = "system:bootstrappers:test"
	var kubeconfig string
	b := newBed(t, "joins", onServed, func(s *setup) {
		s.plane = plane(t)
		s.agent.Settings += "rotateCertificates: true\n"
		s.through = func(string) (string, error) {
			kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
			return kubeconfig, nil
		}
		first := check.Value(s.plane.Kubeconfig("system:bootstrap:test", "system:bootstrappers", joining))(t)
		s.agent.Flags = append(s.agent.Flags, "--bootstrap-kubeconfig", first)
	})
	binding := &rbac.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "test-bootstrap"},
		RoleRef:    rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "ClusterRole", Name: "system:node-bootstrapper"},
		Subjects:   []rbac.Subject{{APIGroup: rbac.GroupName, Kind: rbac.GroupKind, Name: joining}},
	}
	check.Value(b.admin.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}))(t)
	t.Cleanup(func() {
		check.Error(t, b.admin.RbacV1().ClusterRoleBindings().Delete(context.Background(), binding.Name, metav1.DeleteOptions{}))
	})
	check.Fatal(t, b.Launch())
	b.approve(t, "system:bootstrap:test", certificates.KubeAPIServerClientKubeletSignerName, 1)
	b.awaitNode(t, "is ready for pods", usable)
	b.create(t, b.pod("web", nil))
	b.awaitPod(t, "web", "is ready", ready)
	check.Fatal(t, b.Stop(t.Context()))
	b.start(t) // with what it has now
	b.remove(t, "web")
	b.awaitGone(t, "web")
	if _, err := os.Stat(kubeconfig); err != nil {
		t.Error(err)
	}
}
