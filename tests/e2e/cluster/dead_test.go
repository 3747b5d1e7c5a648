package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/deadfs"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

// TestDeadFileSystem: a file server that stops answering stops the pod that waits for it, which says so,
// and nothing else. Pods that have it mounted run on, over a restart of the agent too, and can be
// deleted; so can the one that waits, and what is left of one that was deleted while the agent was not
// there is cleaned up.
//
//tier:real
func TestDeadFileSystem(t *testing.T) {
	t.Parallel()
	hosttest.NeedFUSE(t)
	b := started(t, "dead-file-system")
	point := t.TempDir()
	server := check.Value(deadfs.Mount(point))(t)
	t.Cleanup(func() { check.Error(t, server.Close()) })
	share := filepath.Join(point, deadfs.Share)
	files := func(s *v1.PodSpec) {
		s.Volumes = []v1.Volume{volume("files", v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: share, Type: new(v1.HostPathDirectory)}})}
		s.Containers[0].VolumeMounts = []v1.VolumeMount{mounted("files")}
	}
	claims := func(s *v1.PodSpec) {
		s.Volumes = []v1.Volume{volume("files", v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "files"}})}
		s.Containers[0].VolumeMounts = []v1.VolumeMount{mounted("files")}
	}
	b.claim(t, "files", share)
	b.create(t, b.pod("uses", files))
	b.create(t, b.pod("claims", claims))
	b.create(t, b.pod("orphan", claims))
	users := map[string]string{}
	for _, name := range []string{"uses", "claims", "orphan"} {
		users[name] = running(b.awaitPod(t, name, "is ready", ready))["app"]
	}
	alone := b.others(t, "alone")
	server.Die()
	a := b.audit(t)
	b.create(t, b.pod("stuck", files))
	select {
	case <-server.Asked():
	case <-time.After(patience):
		t.Fatal("nobody looked at the file system")
	}
	b.others(t, "first").within(t, alone)
	b.awaitStuck(t)

	// The agent is killed with all that; meanwhile a pod is deleted by force.
	b.kill(t)
	check.Fatal(t, b.admin.CoreV1().Pods(b.name).Delete(t.Context(), "orphan", metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}))
	begun := time.Now()
	b.start(t)
	back := time.Since(begun)
	t.Logf("another agent was there after %v", back.Round(time.Millisecond))
	check.AtMost(t, back, backAgain, "another agent was there after")
	b.others(t, "second").within(t, alone)
	b.awaitStuck(t)
	for _, name := range []string{"uses", "claims"} {
		if p := b.get(t, name); running(p)["app"] != users[name] || ready(p) != nil {
			t.Errorf("pod %s is %s", name, shown(p))
		}
	}
	if found, _ := a.result(); len(found) > 0 {
		for _, what := range found {
			if strings.HasPrefix(what, "pod uses:") || strings.HasPrefix(what, "pod claims:") {
				t.Error(what)
			}
		}
	}
	if err := usable(b.node(t)); err != nil {
		t.Error("the node:", err)
	}
	b.await(t, "nothing is left of the pod that was deleted meanwhile", func() error {
		if b.world(t).Of("orphan").Empty() == nil {
			return nil
		}
		return errors.New("the runtime has something of it")
	})
	for _, name := range []string{"uses", "claims", "stuck"} {
		begun := time.Now()
		b.remove(t, name)
		b.awaitGone(t, name)
		t.Logf("pod %s was gone after %v", name, time.Since(begun).Round(time.Millisecond))
	}
	check.Error(t, lab.Eventually(t.Context(), patience, "no pod has a directory", func() error {
		left, err := os.ReadDir(filepath.Join(b.Root(), "pods"))
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("left: %v", left)
		}
		return err
	}))
}

// others are pods that have nothing to do with it. They come up and go.
func (b *bed) others(t *testing.T, which string) comeAndGo {
	t.Helper()
	begun := time.Now()
	names := make([]string, 6)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%02d", which, i)
		b.create(t, b.pod(names[i], func(s *v1.PodSpec) {
			s.Volumes = []v1.Volume{volume("data", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}})}
			s.Containers[0].VolumeMounts = []v1.VolumeMount{mounted("data")}
		}))
	}
	for _, name := range names {
		b.awaitPod(t, name, "is ready", ready)
	}
	up := time.Since(begun)
	begun = time.Now()
	for _, name := range names {
		b.remove(t, name)
	}
	for _, name := range names {
		b.awaitGone(t, name)
	}
	down := time.Since(begun)
	return comeAndGo{up, down}
}

// awaitStuck waits until pod stuck says what it waits for.
func (b *bed) awaitStuck(t *testing.T) {
	t.Helper()
	b.awaitPod(t, "stuck", "says what it waits for", func(p *v1.Pod) error {
		for _, c := range p.Status.ContainerStatuses {
			w := c.State.Waiting
			if w == nil || w.Reason != "ContainerCreating" {
				continue
			}
			// The first call has two minutes; on a slow machine they may be over.
			if strings.Contains(w.Message, `waiting for volume "files" since `) || strings.Contains(w.Message, "hangs in the kernel") {
				return nil
			}
		}
		return fmt.Errorf("it shows %+v", p.Status.ContainerStatuses)
	})
}
