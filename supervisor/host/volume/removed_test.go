package volume

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/troupe-dev/troupe/actors/decide/eviction"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestRemovedWhileOpen: a file that a process of a pod has open counts for its emptyDir, also when it was removed, and
// once if it is open twice. Those of pods without a limit are not looked for.
func TestRemovedWhileOpen(t *testing.T) {
	for limit, want := range map[string]uint64{"1Mi": 3 << 20, "": 0} {
		l := newLab(t)
		source := v1.EmptyDirVolumeSource{}
		if limit != "" {
			size := resource.MustParse(limit)
			source.SizeLimit = &size
		}
		pod := newPod(func(p *v1.Pod) {
			p.Spec.Volumes = []v1.Volume{*emptyDir("data", source)}
			p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "data", MountPath: "/data"}}
		})
		dir := filepath.Join(l.pods.Real, "u1", volumesDir, emptyDirName, "data")
		check.Fatal(t, os.MkdirAll(filepath.Join(dir, "deep"), 0o700))
		use := func() uint64 {
			t.Helper()
			// What was counted a moment ago is not counted again: another agent counts anew.
			h := newLabAt(t, l.root)
			h.UseProcesses(func(p *v1.Pod) []int {
				check.Equal(t, p.UID, "u1", "asked for")
				return []int{os.Getpid(), os.Getpid(), 1 << 30}
			})
			u := check.Value(h.EphemeralUse(t.Context(), []*v1.Pod{pod}, false))(t)
			_, over := eviction.OverLimit(pod, &u[0], time.Now())
			if is := u[0].Volumes[0].Bytes > 1<<20; over != (is && limit != "") {
				t.Errorf("limit %q, %d bytes: over its limit is %v", limit, u[0].Volumes[0].Bytes, over)
			}
			return u[0].Volumes[0].Bytes
		}
		empty := use()
		name := filepath.Join(dir, "deep", "file")
		file, err := os.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close() //nolint:errcheck // it was removed
		check.Value(file.Write(make([]byte, 3<<20)))(t)
		if err := file.Sync(); err != nil { // file systems give blocks when they write
			t.Fatal(err)
		}
		again, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer again.Close() //nolint:errcheck // nothing was written
		check.Fatal(t, os.Remove(name))
		if got := use() - empty; got != want {
			t.Errorf("limit %q: %d bytes more, want %d", limit, got, want)
		}
	}
}
