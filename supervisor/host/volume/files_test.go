package volume

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
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
	next := &lab{Volumes: newLabAt(t, l.root), t: t, root: l.root}
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

// The files of a Secret have the room that an emptyDir in memory would have, and count for their pod.
func TestFilesInMemory(t *testing.T) {
	hosttest.NeedRoot(t)
	l := newLab(t)
	pod := newPod(func(p *v1.Pod) {
		p.Spec.Volumes = []v1.Volume{*secretVolume(), *configMapVolume(), *emptyDir("e", v1.EmptyDirVolumeSource{Medium: "Memory"})}
		for _, v := range p.Spec.Volumes {
			p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts, v1.VolumeMount{Name: v.Name})
		}
	})
	check.Equal(t, l.FilesInMemory(pod), 0, "before it is mounted")
	c := &volumefiles.Content{Memory: true, Files: []volumefiles.File{{Path: "a", Data: make([]byte, 512<<10), Mode: 0o644}}}
	path := check.Value(l.mountRequest(ctx(t), port.MountVolume{Pod: pod, Volume: &pod.Spec.Volumes[0], Content: c, Size: 1 << 20}))(t)
	var s unix.Statfs_t
	check.Fatal(t, unix.Statfs(path, &s))
	check.Equal(t, s.Blocks*uint64(s.Bsize), 1<<20, "the size of the file system")
	onDisk := *c
	onDisk.Memory = false
	check.Value(l.mountRequest(ctx(t), port.MountVolume{Pod: pod, Volume: &pod.Spec.Volumes[1], Content: &onDisk, Size: 1 << 20}))(t)
	check.Value(l.mount(ctx(t), pod, &pod.Spec.Volumes[2]))(t)
	check.AtLeast(t, l.FilesInMemory(pod), 512<<10, "bytes of the Secret")
	check.AtMost(t, l.FilesInMemory(pod), 600<<10, "bytes of the Secret, without what is on the disk and what the pod writes")
	more := *c
	more.Files = []volumefiles.File{{Path: "a", Data: make([]byte, 2<<20), Mode: 0o644}}
	_, err := l.mountRequest(ctx(t), port.MountVolume{Pod: pod, Volume: &pod.Spec.Volumes[0], Content: &more, Size: 1 << 20})
	hosttest.WantError(t, err, port.InvalidConfig, `volume "s", in memory, take more than 1Mi`)
	// What that try has left takes no room of the next one.
	other := *c
	other.Files = []volumefiles.File{{Path: "b", Data: make([]byte, 400<<10), Mode: 0o644}}
	check.Value(l.mountRequest(ctx(t), port.MountVolume{Pod: pod, Volume: &pod.Spec.Volumes[0], Content: &other, Size: 1 << 20}))(t)
	check.Fatal(t, l.unmount("u1"))
}

// TestRoomForFiles: what the agent's own memory has no room for is not written, and its pod is told why. What is there
// already stays, whatever room there is.
func TestRoomForFiles(t *testing.T) {
	hosttest.NeedRoot(t)
	root := t.TempDir()
	room := int64(10 << 20)
	h := newLabAt(t, root, func(c *Config) {
		c.Room = func(bytes, _ int64) error {
			return check.That(bytes <= room, "there is room for %d bytes", room)
		}
	})
	l := &lab{Volumes: h, t: t, root: root}
	pod := newPod(func(p *v1.Pod) { p.Spec.Volumes = []v1.Volume{*secretVolume()} })
	of := func(files, bytes int) *volumefiles.Content {
		c := &volumefiles.Content{Memory: true}
		for i := range files {
			c.Files = append(c.Files, volumefiles.File{Path: fmt.Sprintf("%05d", i), Data: make([]byte, bytes), Mode: 0o644})
		}
		return c
	}
	mount := func(c *volumefiles.Content) error {
		return check.Err(l.mountRequest(ctx(t), port.MountVolume{Pod: pod, Volume: &pod.Spec.Volumes[0], Content: c}))
	}
	check.Fatal(t, mount(of(2000, 4096)))
	hosttest.WantError(t, mount(of(3000, 10)), port.InvalidConfig,
		`the files of volume "s", in memory, take 15000Ki: there is room for 10485760 bytes`)
	room = 0
	check.Fatal(t, mount(of(2000, 4096)))
	check.Fatal(t, mount(of(1, 1<<20-4096))) // little is not asked for
	check.Fatal(t, l.unmount("u1"))
}

func configMapVolume() *v1.Volume {
	return &v1.Volume{Name: "c", VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{}}}
}
