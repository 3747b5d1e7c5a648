package scenarios

import (
	"encoding/pem"
	"strings"
	"testing"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/apiclient/simapi"
	"github.com/troupe-dev/troupe/supervisor/agent"
)

func withCertificates() option {
	return withConfig(func(c *agent.Config) { c.Cluster.Objects.TrustBundles, c.Cluster.Objects.PodCertificates = true, true })
}

// certificateRequests are those of the cluster.
func (c *cluster) certificateRequests() (all []*certificatesv1beta1.PodCertificateRequest) {
	c.w.t.Helper()
	list, _, err := c.api.List(simapi.Select{Kind: port.PodCertificateRequestKind})
	if err != nil {
		c.w.failf("%v", err)
	}
	for _, o := range list {
		all = append(all, o.(*certificatesv1beta1.PodCertificateRequest))
	}
	return all
}

// sign signs all requests that wait, with certificates of an hour. A simulated certificate says when it expires.
func (c *cluster) sign() {
	c.w.t.Helper()
	for _, r := range c.certificateRequests() {
		if len(r.Status.Conditions) > 0 {
			continue
		}
		r = r.DeepCopy()
		now := c.w.v.Now().Truncate(time.Second)
		expires := now.Add(time.Hour)
		r.Status = certificatesv1beta1.PodCertificateRequestStatus{
			NotBefore: new(metav1.NewTime(now)), BeginRefreshAt: new(metav1.NewTime(now.Add(30 * time.Minute))), NotAfter: new(metav1.NewTime(expires)),
			CertificateChain: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(expires.Format(time.RFC3339))})),
			Conditions:       []metav1.Condition{{Type: "Issued", Status: metav1.ConditionTrue}},
		}
		if _, err := c.api.UpdateStatus(r); err != nil {
			c.w.failf("%v", err)
		}
	}
}

// certified is a pod with a trust bundle and a certificate.
func certified(name string) *spec {
	s := aPod(name)
	s.Spec.Volumes = []v1.Volume{{Name: "creds", VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
		{PodCertificate: &v1.PodCertificateProjection{SignerName: "example.com/mesh", KeyType: "ED25519", CredentialBundlePath: "creds.pem"}},
		{ClusterTrustBundle: &v1.ClusterTrustBundleProjection{Name: new("ca"), Path: "ca.pem"}},
	}}}}}
	s.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "creds", MountPath: "/creds"}}
	return s
}

// saidMount says whether people were told of a volume in these words.
func (w *world) saidMount(text string) bool {
	for i := range w.events {
		if w.events[i].Reason == "FailedMount" && strings.Contains(w.events[i].Message, text) {
			return true
		}
	}
	return false
}

// TestPodCertificates: a pod waits for its trust bundle and its certificate, gets the next one in time, and keeps the one
// that it has when the agent is killed and the signer is away.
func TestPodCertificates(t *testing.T) {
	w, c := parallelCluster(t, 1, withCertificates())
	c.kubernetes()
	c.add(&v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "default"}})
	c.create(certified("web"))
	w.until(time.Minute, "the pod is told that there is no bundle", func() bool { return w.saidMount(`clustertrustbundle "ca" not found`) })
	c.add(&certificatesv1beta1.ClusterTrustBundle{ObjectMeta: metav1.ObjectMeta{Name: "ca"}})
	w.run(5 * time.Minute)
	if c.ready("web") || len(c.certificateRequests()) != 1 {
		t.Fatalf("ready without a certificate, or there are %d requests", len(c.certificateRequests()))
	}
	c.sign()
	w.until(10*time.Second, "it is ready", func() bool { return c.ready("web") })

	w.run(29 * time.Minute)
	if n := len(c.certificateRequests()); n != 1 {
		t.Fatalf("%d requests before it is time", n)
	}
	w.until(7*time.Minute, "the next one is requested", func() bool { return len(c.certificateRequests()) == 2 })
	c.sign()
	w.run(time.Minute)

	w.kill()
	w.start()
	w.until(time.Minute, "another one is requested after the restart", func() bool { return len(c.certificateRequests()) == 3 })
	w.run(5 * time.Minute) // the signer is away
	if p := c.get("web"); !c.ready("web") || p.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("after a restart of the agent: %+v", p.Status.ContainerStatuses)
	}
	c.create(certified("late"))
	w.run(time.Minute)
	c.sign()
	w.until(10*time.Second, "a new pod is ready", func() bool { return c.ready("late") })
}

// TestPodCertificatesOff: a node without the feature gates says which are missing.
func TestPodCertificatesOff(t *testing.T) {
	w, c := parallelCluster(t, 1)
	c.kubernetes()
	c.create(certified("web"))
	for _, gate := range []string{"ClusterTrustBundleProjection", "PodCertificateRequest"} {
		w.until(time.Minute, "the event", func() bool { return w.saidMount("projections need the feature gate " + gate + " on this node") })
	}
	if c.ready("web") {
		t.Error("it is ready")
	}
}
