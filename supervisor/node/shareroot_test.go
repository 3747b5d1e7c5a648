package node

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/troupe-dev/troupe/supervisor/host/kernel/mounts"
	must "github.com/troupe-dev/troupe/tests/check" // check is a function of this package
	"github.com/troupe-dev/troupe/tests/hosttest"
)

// TestUnshareRoot: the mount of the root directory goes with the last pod.
func TestUnshareRoot(t *testing.T) {
	hosttest.NeedRoot(t)
	root := t.TempDir()
	hosttest.Bind(t, root, root) // a mount that is private, whatever the machine's is
	dir := filepath.Join(root, "root")
	pod := filepath.Join(dir, "pods", "u1")
	must.Fatal(t, os.MkdirAll(pod, 0o700))
	if made, err := mounts.Share(dir); err != nil || !made {
		t.Fatal(made, err)
	}
	mounted := func() bool {
		all := must.Value(mounts.Now())(t)
		return len(mounts.Below(all, dir)) > 0
	}
	if err := unshareRoot(dir); err != nil || !mounted() {
		t.Errorf("with a pod: %v, mounted %t", err, mounted())
	}
	must.Fatal(t, os.Remove(pod))
	if err := unshareRoot(dir); err != nil || mounted() {
		t.Errorf("without a pod: %v, mounted %t", err, mounted())
	}
}
