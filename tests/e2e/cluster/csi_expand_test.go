package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/csidriver"
)

// asks asks for another size of a claim, as a user does.
func (b *csiBed) asks(t *testing.T, claim, size string) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"resources":{"requests":{"storage":%q}}}}`, size)
	check.Value(b.admin.CoreV1().PersistentVolumeClaims(b.name).Patch(t.Context(), claim, types.MergePatchType, patch, metav1.PatchOptions{}))(t)
}

// awaitClaim waits until a claim is as wanted.
func (b *csiBed) awaitClaim(t *testing.T, claim, what string, is func(*v1.PersistentVolumeClaim) bool) {
	t.Helper()
	b.await(t, "claim "+claim+" "+what, func() error {
		c, err := b.admin.CoreV1().PersistentVolumeClaims(b.name).Get(t.Context(), claim, metav1.GetOptions{})
		if err == nil && !is(c) {
			err = fmt.Errorf("its status is %+v", c.Status)
		}
		return err
	})
}

// has reports whether a claim has a size, and says nothing of an expansion any more.
func has(size string) func(*v1.PersistentVolumeClaim) bool {
	return func(c *v1.PersistentVolumeClaim) bool {
		capacity := c.Status.Capacity[v1.ResourceStorage]
		return capacity.Cmp(resource.MustParse(size)) == 0 && len(c.Status.Conditions) == 0 && len(c.Status.AllocatedResourceStatuses) == 0
	}
}

// awaitSize waits until the file system at a path has about a size.
func (b *csiBed) awaitSize(t *testing.T, path string, least, most int64) {
	t.Helper()
	b.await(t, "the container sees the new size", func() error {
		var fs syscall.Statfs_t
		check.OK(syscall.Statfs(path, &fs))
		n := int64(fs.Blocks) * fs.Bsize >> 20
		return check.That(n >= least && n <= most, "it sees %d MiB, want %d to %d", n, least, most)
	})
}

// mountedOnce fails the test if a volume is mounted more than once where it is staged, or where it is published for a pod.
func (b *csiBed) mountedOnce(t *testing.T, p *v1.Pod) {
	t.Helper()
	text := check.Value(os.ReadFile("/proc/self/mountinfo"))(t)
	count := map[string]int{}
	for line := range strings.Lines(string(text)) {
		at := strings.Fields(line)[4]
		if strings.HasPrefix(at, filepath.Join(b.Root(), "plugins/kubernetes.io/csi")+"/") ||
			strings.HasPrefix(at, filepath.Join(b.Root(), "pods", string(p.UID), "volumes/kubernetes.io~csi")+"/") {
			count[at]++
		}
	}
	check.AtLeast(t, len(count), 2, "mounted are %v", count)
	for at, n := range count {
		check.Equal(t, n, 1, "%s is mounted %d times", at, n)
	}
}

// TestCSIKilledInExpand: the agent is killed before, during and after what the driver does to expand a volume. Then the volume
// has its new size, once, and the claim says so; the pod goes on, and ends as others do.
//
//tier:all faults of a driver, which scenarios have on a virtual clock
func TestCSIKilledInExpand(t *testing.T) {
	t.Parallel()
	b := newCSIBed(t, "csi-grown", csiAgent(t), nil)
	const method = "NodeExpandVolume"
	for _, c := range []struct {
		when  string
		fault csidriver.Fault
	}{
		{"before", csidriver.Fault{Method: method, Hang: true}},
		{"during", csidriver.Fault{Method: method, Midway: true}},
		{"after", csidriver.Fault{Method: method, Late: time.Hour}},
	} {
		b.wants(t, c.when, "xfs", "320Mi")
		p := b.runs(t, c.when, using(c.when), work("append /v/log x then sleep"))
		check.Fatal(t, b.driver.Set(t.Context(), c.fault))
		b.asks(t, c.when, "512Mi")
		b.await(t, "the driver is called", func() error {
			return check.That(b.driver.Hanging(t.Context(), method) != 0, "it is not")
		})
		b.awaitClaim(t, c.when, "is being expanded on the node", func(c *v1.PersistentVolumeClaim) bool {
			return c.Status.AllocatedResourceStatuses[v1.ResourceStorage] == v1.PersistentVolumeClaimNodeResizeInProgress
		})
		check.Fatal(t, b.member.Kill(t.Context()))
		check.Fatal(t, b.driver.End(t.Context(), method))
		check.Fatal(t, b.member.Start())
		b.awaitSize(t, b.inside(t, p, "/v"), 400, 512)
		b.awaitClaim(t, c.when, "has the new size", has("512Mi"))
		b.awaitText(t, b.inside(t, p, "/v/log"), "x\n")
		b.unchanged(t, p, "the agent was killed "+c.when+" the expansion")
		b.mountedOnce(t, p)
		b.ends(t, c.when)
	}
}
