package cluster

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/csidriver"
)

// TestCSILimit: a pod whose volume finds no room on the node ends, when its driver keeps the number of volumes up to date,
// and the driver is asked for that number again.
//
//tier:all sidecars of third parties
func TestCSILimit(t *testing.T) {
	t.Parallel()
	b := newCSIBed(t, "csi-limit", csiAgent(t), func(c *csidriver.Config) { c.MaxVolumes = 1 })
	d := check.Value(b.admin.StorageV1().CSIDrivers().Get(t.Context(), b.driver.Name, metav1.GetOptions{}))(t)
	d.Spec.NodeAllocatableUpdatePeriodSeconds = new(int64(3600))
	check.Value(b.admin.StorageV1().CSIDrivers().Update(t.Context(), d, metav1.UpdateOptions{}))(t)
	b.wants(t, "fits", "dir", "1Mi")
	b.wants(t, "full", "dir", "1Mi")
	fits := b.runs(t, "fits", using("fits"), work("sleep"))
	b.bound(t, "full")
	asked := len(b.calls(t, "NodeGetInfo", ""))
	// No scheduler is asked: it knows the limit.
	b.create(t, b.pod("full", changes(using("full"), work("sleep"), func(s *v1.PodSpec) { s.NodeName = b.name })))
	b.awaitPod(t, "full", "is rejected", func(p *v1.Pod) error {
		return check.That(p.Status.Phase == v1.PodFailed, "it is %s", p.Status.Phase)
	})
	b.said(t, "full")
	p := b.get(t, "full")
	if p.Status.Reason != "VolumeAttachmentLimitExceeded" || !strings.Contains(p.Status.Message, "Node has reached its volume attachment limit, rejecting pod.") {
		t.Errorf("its status says %s: %s", p.Status.Reason, p.Status.Message)
	}
	b.await(t, "the driver is asked again", func() error {
		return check.That(len(b.calls(t, "NodeGetInfo", "")) > asked, "it is not")
	})
	b.unchanged(t, fits, "a pod was rejected")
	b.ends(t, "full")
	b.ends(t, "fits")
}
