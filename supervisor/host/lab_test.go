package host

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/port"
)

func TestMain(m *testing.M) {
	RunChildIfAsked()
	goleak.VerifyTestMain(m)
}

// lab is a Host in a directory of its own.
type lab struct {
	*Host
	t    *testing.T
	root string
}

func newLab(t *testing.T) *lab {
	t.Helper()
	root := t.TempDir()
	return &lab{Host: newLabAt(t, root), t: t, root: root}
}

// newLabAt is the Host of another agent in the same place.
func newLabAt(t *testing.T, root string) *Host {
	t.Helper()
	h, err := New(Config{Root: filepath.Join(root, "kubelet"), LogRoot: filepath.Join(root, "logs")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// readMounts reads what is mounted, whatever a mountTable knows.
func readMounts() ([]mount, error) {
	b, err := os.ReadFile(mountInfo)
	if err != nil {
		return nil, err
	}
	return parseMounts(string(b))
}

// needRoot skips what only root can do.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to mount")
	}
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
	return wait(func(done func(error)) { l.PreparePod(ctx(l.t), p, done) })
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
	return wait(func(done func(error)) { l.UnmountPod(ctx(l.t), uid, done) })
}

func (l *lab) remove(ref port.PodDirs) error {
	return wait(func(done func(error)) { l.RemovePod(ctx(l.t), ref, done) })
}

func (l *lab) mustMount(p *v1.Pod, v *v1.Volume) string {
	l.t.Helper()
	path, err := l.mount(ctx(l.t), p, v)
	if err != nil {
		l.t.Fatal(err)
	}
	return path
}

func ctx(t *testing.T) context.Context { return t.Context() }

func wait(f func(func(error))) error {
	c := make(chan error, 1)
	f(func(err error) { c <- err })
	return <-c
}

// wantMode looks at a path without following it.
func wantMode(t *testing.T, path string, want os.FileMode) {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Error(err)
		return
	}
	if info.Mode() != want {
		t.Errorf("%s has mode %s, want %s", path, info.Mode(), want)
	}
}

func wantGone(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("%s is there: %v", path, err)
	}
}

func wantError(t *testing.T, err error, kind port.ErrorKind, texts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want %q", texts)
		return
	}
	if got := port.KindOf(err); got != kind {
		t.Errorf("%v: is of kind %s, want %s", err, got, kind)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%v: does not say %q", err, text)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// bind mounts source at point until the test ends.
func bind(t *testing.T, source, point string) (unmount func()) {
	t.Helper()
	if err := unix.Mount(source, point, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	done := false
	unmount = func() {
		if !done {
			done = true
			if err := unix.Unmount(point, unix.MNT_DETACH); err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(unmount)
	return unmount
}
