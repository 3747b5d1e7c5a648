package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/tests/e2e/deadfs"
)

// TestDeadFileSystem: a file server that stops answering stops the pod that uses it, which says so,
// and nothing else. The pod can be deleted.
func TestDeadFileSystem(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat(deadfs.Device); err != nil {
		t.Skipf("needs FUSE, to have a file system hang: %v", err)
	}
	b := started(t, "dead-file-system")
	point := t.TempDir()
	dead, err := deadfs.Mount(point)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dead.Close(); err != nil {
			t.Error(err)
		}
	})
	b.create(t, b.pod("stuck", func(s *v1.PodSpec) {
		s.Volumes = []v1.Volume{volume("files", v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{
			Path: filepath.Join(point, "share"), Type: new(v1.HostPathDirectory),
		}})}
		s.Containers[0].VolumeMounts = []v1.VolumeMount{mounted("files")}
	}))
	select {
	case <-dead.Asked():
	case <-time.After(patience):
		t.Fatal("nobody looked at the file system")
	}

	begun := time.Now()
	others := make([]string, 20)
	for i := range others {
		others[i] = fmt.Sprintf("other-%02d", i)
		b.create(t, b.pod(others[i], func(s *v1.PodSpec) {
			s.Volumes = []v1.Volume{volume("data", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}})}
			s.Containers[0].VolumeMounts = []v1.VolumeMount{mounted("data")}
		}))
	}
	for _, name := range others {
		b.awaitPod(t, name, "is ready", ready)
	}
	up := time.Since(begun)
	begun = time.Now()
	for _, name := range others {
		b.remove(t, name)
	}
	for _, name := range others {
		b.awaitGone(t, name)
	}
	t.Logf("20 others were up after %v, and gone after %v", up.Round(time.Millisecond), time.Since(begun).Round(time.Millisecond))

	b.awaitPod(t, "stuck", "says what it waits for", func(p *v1.Pod) error {
		for _, c := range p.Status.ContainerStatuses {
			if w := c.State.Waiting; w != nil && w.Reason == "ContainerCreating" && strings.Contains(w.Message, `waiting for volume "files" since `) {
				return nil
			}
		}
		return fmt.Errorf("it shows %+v", p.Status.ContainerStatuses)
	})
	if err := usable(b.node(t)); err != nil {
		t.Error("the node:", err)
	}
	begun = time.Now()
	b.remove(t, "stuck")
	b.awaitGone(t, "stuck")
	t.Logf("the stuck pod was gone after %v", time.Since(begun).Round(time.Millisecond))
}
