package host

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/volumefiles"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

func secretVolume() *v1.Volume {
	return &v1.Volume{Name: "s", VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "s"}}}
}

// A secret lies in memory, belongs to the pod's group, is found by the next
// agent, brought up to date where it is, and taken down without a trace.
func TestSecretVolume(t *testing.T) {
	hosttest.NeedRoot(t)
	l := newLab(t)
	group, user := int64(2000), int64(1000)
	c := &volumefiles.Content{Memory: true, Group: &group}
	c.Files = []volumefiles.File{{Path: "token", Data: []byte("1"), Mode: 0o640, User: &user}}
	r := port.MountVolume{Pod: newPod(withFSGroup), Volume: secretVolume(), Content: c}
	path := check.Value(l.mountRequest(ctx(t), r))(t)
	check.Equal(t, path, filepath.Join(l.root, "kubelet/pods/u1/volumes/kubernetes.io~secret/s"), "is at")
	hosttest.WantMode(t, path, 0o777|os.ModeDir|os.ModeSticky|os.ModeSetgid)
	hosttest.WantMode(t, filepath.Join(path, "..data/token"), 0o640)
	info := check.Value(os.Stat(filepath.Join(path, "token")))(t)
	if s := info.Sys().(*syscall.Stat_t); s.Uid != 1000 || s.Gid != 2000 {
		t.Errorf("belongs to %d:%d", s.Uid, s.Gid)
	}
	next := &lab{Host: newLabAt(t, l.root), t: t, root: l.root}
	c2 := *c
	c2.Files = []volumefiles.File{{Path: "token", Data: []byte("2"), Mode: 0o640, User: &user}}
	r.Content = &c2
	check.Value(next.mountRequest(ctx(t), r))(t)
	if got, err := os.ReadFile(filepath.Join(path, "token")); string(got) != "2" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	check.Count(t, l.countMounts(path), 1, "is mounted %d times")
	hosttest.WantError(t, l.remove(port.PodDirs{UID: "u1"}), port.StateConflict, "nothing was removed", path)
	for range 2 {
		check.Fatal(t, next.unmount("u1"))
	}
	hosttest.WantGone(t, path)
}
