package volume

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/disk/agentdir"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

func TestMain(m *testing.M) {
	RunChildIfAsked()
	goleak.VerifyTestMain(m)
}

// lab has volumes in a directory of its own.
type lab struct {
	*Volumes
	t    *testing.T
	root string
}

func newLab(t *testing.T) *lab {
	t.Helper()
	root := t.TempDir()
	return &lab{Volumes: newLabAt(t, root), t: t, root: root}
}

// newLabAt has the volumes of another agent in the same place.
func newLabAt(t *testing.T, root string, change ...func(*Config)) *Volumes {
	t.Helper()
	h := open(t, filepath.Join(root, "kubelet"), filepath.Join(root, "logs"), change...)
	t.Cleanup(func() { check.Error(t, h.closeAll()) })
	return h
}

// open has the volumes of an agent with these directories.
func open(t testing.TB, root, logs string, change ...func(*Config)) *Volumes {
	t.Helper()
	pods := check.Value(agentdir.Open(filepath.Join(root, "pods"), agentdir.Mode))(t)
	c := Config{
		Root: check.Value(filepath.EvalSymlinks(root))(t), Pods: pods, Logs: agentdir.At(logs, logMode),
	}
	check.Value(c.Logs.Dir())(t)
	for _, f := range change {
		f(&c)
	}
	return check.Value(New(&c))(t)
}

// closeAll ends an agent.
func (h *Volumes) closeAll() error {
	return errors.Join(h.Close(), h.pods.Root.Close(), h.logs.Close())
}

func newPod(change ...func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u1"},
		Spec: v1.PodSpec{
			InitContainers: []v1.Container{{Name: "init"}},
			Containers:     []v1.Container{{Name: "app"}},
		},
	}
	for _, f := range change {
		f(p)
	}
	return p
}

func emptyDir(name string, source v1.EmptyDirVolumeSource) *v1.Volume {
	return &v1.Volume{Name: name, VolumeSource: v1.VolumeSource{EmptyDir: &source}}
}

func hostPath(path string, kind v1.HostPathType) *v1.Volume {
	return &v1.Volume{Name: "v", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: path, Type: &kind}}}
}

func (l *lab) prepare(p *v1.Pod) error {
	return hosttest.Wait(func(done func(error)) { l.PreparePod(ctx(l.t), p, done) })
}

func (l *lab) mount(ctx context.Context, p *v1.Pod, v *v1.Volume) (string, error) {
	r := port.MountVolume{Pod: p, Volume: v}
	if v.EmptyDir != nil && v.EmptyDir.SizeLimit != nil {
		r.Size = v.EmptyDir.SizeLimit.Value()
	}
	return l.mountRequest(ctx, r)
}

func (l *lab) mountRequest(ctx context.Context, r port.MountVolume) (string, error) {
	type result struct {
		path string
		err  error
	}
	c := make(chan result, 1)
	l.MountVolume(ctx, r, func(path string, err error) { c <- result{path, err} })
	got := <-c
	return got.path, got.err
}

func (l *lab) unmount(uid types.UID) error {
	return hosttest.Wait(func(done func(error)) { l.UnmountPod(ctx(l.t), uid, done) })
}

func (l *lab) remove(ref port.PodDirs) error {
	return hosttest.Wait(func(done func(error)) { l.RemovePod(ctx(l.t), ref, done) })
}

func (l *lab) mustMount(p *v1.Pod, v *v1.Volume) string {
	l.t.Helper()
	return check.Value(l.mount(ctx(l.t), p, v))(l.t)
}

func ctx(t *testing.T) context.Context { return t.Context() }
