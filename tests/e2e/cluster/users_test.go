package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
	"github.com/troupe-dev/troupe/tests/e2e/node"
)

// idsPerPod are the users that a pod has of its own (userNamespaces.idsPerPod).
const idsPerPod = 65536

// ownUsers is a pod whose users are nobody's else. Container app is its root, other a plain user, and
// both write to the pod's volumes.
func ownUsers(share string) func(*v1.PodSpec) {
	return func(s *v1.PodSpec) {
		work("cat /proc/self/uid_map then write /data/root x then write /cache/root x then write /share/root x then write /etc/made x then sleep")(s)
		s.HostUsers = new(false)
		s.SecurityContext = &v1.PodSecurityContext{FSGroup: new(int64(2000))}
		s.Volumes = []v1.Volume{
			volume("data", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}),
			volume("cache", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}}),
			volume("config", v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: named("app")}}),
			volume("share", v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: share, Type: new(v1.HostPathDirectory)}}),
		}
		s.Containers[0].VolumeMounts = []v1.VolumeMount{
			mounted("data"), mounted("cache"), mounted("config"), mounted("share"),
			mounted("config", part("/one/key", "key")), mounted("data", part("/logs", "var/logs")),
		}
		other := *s.Containers[0].DeepCopy()
		other.Name = "other"
		other.Args = strings.Fields("cat /config/key /one/key /etc/hosts /var/run/secrets/kubernetes.io/serviceaccount/token then write /data/user x then sleep")
		other.SecurityContext = &v1.SecurityContext{RunAsUser: new(int64(1000)), RunAsGroup: new(int64(1000))}
		// A process that joins the pod later has its users as well.
		other.ReadinessProbe = &v1.Probe{ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"/work", "append", "/data/probed", "x"}}}}
		s.Containers = append(s.Containers, other)
	}
}

// firstUser is the user of the node that is root in a container, as the kernel has it.
func (b *bed) firstUser(t *testing.T, p *v1.Pod, container string) int64 {
	t.Helper()
	_, id, _ := strings.Cut(running(p)[container], "://")
	pid := check.Value(node.ContainerPID(t.Context(), b.lab, id))(t)
	first := int64(-1)
	for _, file := range []string{"uid_map", "gid_map"} {
		text := check.Value(os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file)))(t)
		var in, out, length int64
		if _, err := fmt.Sscan(string(text), &in, &out, &length); err != nil || in != 0 || length != idsPerPod || strings.Count(string(text), "\n") != 1 {
			t.Fatalf("container %s of pod %s has %s %q, %v", container, p.Name, file, text, err)
		}
		if first >= 0 && first != out {
			t.Errorf("container %s of pod %s has users from %d and groups from %d", container, p.Name, first, out)
		}
		first = out
	}
	return first
}

// TestUsersOfTheirOwn runs pods with hostUsers: false (KEP-127): root in one is nobody on the node and
// nobody in the other, what they write on volumes has the owners that it has without, the next agent
// keeps what the last one gave, and what a pod had is free when it is gone.
//
//tier:real
func TestUsersOfTheirOwn(t *testing.T) {
	t.Parallel()
	lab.Need(t, lab.RuncBuild)
	repository := check.Value(lab.Repository())(t)
	runc := check.Value(lab.BuildRunc(t.Context(), repository, t.Output()))(t)
	b := started(t, "users", func(s *setup) { s.runc = runc })
	if !userNamespaces(b.node(t)) {
		t.Fatalf("the node does not say that its runtime can: %+v", b.node(t).Status.RuntimeHandlers)
	}
	b.configMap(t, "app", map[string]string{"key": "one"})
	b.await(t, "the namespace has its account", func() error {
		_, err := b.admin.CoreV1().ServiceAccounts(b.name).Get(t.Context(), "default", metav1.GetOptions{})
		return err
	})
	share := t.TempDir()
	use := ownUsers(share)
	first := map[string]int64{}
	up := func(name string) *v1.Pod {
		t.Helper()
		p := b.awaitPod(t, name, "is ready", ready)
		for container := range running(p) {
			is := b.firstUser(t, p, container)
			if was, known := first[name]; known && was != is {
				t.Errorf("pod %s had users from %d, container %s has them from %d", name, was, container, is)
			}
			first[name] = is
		}
		return p
	}
	for _, name := range []string{"a", "b"} {
		p := b.pod(name, use)
		p.Spec.AutomountServiceAccountToken = new(true)
		b.create(t, p)
	}
	a, other := up("a"), up("b")
	if first["a"] < idsPerPod || first["b"] < idsPerPod || first["a"] == first["b"] || first["a"]%idsPerPod != 0 {
		t.Errorf("the pods' users begin with %v", first)
	}

	// On the disk there are the users that the pod speaks of, in the pod's processes those of the node.
	volumes := filepath.Join(b.Root(), "pods", string(a.UID), "volumes/kubernetes.io~empty-dir")
	for path, owner := range map[string][2]uint32{
		filepath.Join(volumes, "data/root"):   {0, 2000},
		filepath.Join(volumes, "data/user"):   {1000, 2000},
		filepath.Join(volumes, "data/probed"): {1000, 2000},
		filepath.Join(volumes, "cache/root"):  {0, 2000},
		filepath.Join(share, "root"):          {0, 0},
	} {
		b.awaitOwner(t, path, owner[0], owner[1])
	}
	root := uint32(first["a"])
	for path, owner := range map[string][2]uint32{
		"/data/root": {root, root + 2000}, "/data/user": {root + 1000, root + 2000}, "/cache/root": {root, root + 2000},
		"/config/key": {root, root + 2000}, "/one/key": {root, root + 2000}, "/share/root": {root, root}, "/etc/made": {root, root},
		"/logs": {root, root + 2000},
	} {
		b.awaitOwner(t, b.inside(t, a, path), owner[0], owner[1])
	}
	b.awaitOwner(t, b.inside(t, other, "/etc/made"), uint32(first["b"]), uint32(first["b"]))
	b.configMap(t, "app", map[string]string{"key": "two"})
	b.awaitText(t, b.inside(t, a, "/config/key"), "two")

	// The next agent gives nobody what they have, neither to new pods nor to containers that it starts.
	b.kill(t)
	b.start(t)
	b.create(t, b.pod("c", use))
	up("c")
	if first["c"] == first["a"] || first["c"] == first["b"] {
		t.Errorf("the pods' users begin with %v", first)
	}
	_, id, _ := strings.Cut(running(a)["app"], "://")
	pid := check.Value(node.ContainerPID(t.Context(), b.lab, id))(t)
	check.Fatal(t, syscall.Kill(pid, syscall.SIGKILL))
	b.awaitPod(t, "a", "has run its container again", func(p *v1.Pod) error {
		if p.Status.ContainerStatuses[0].RestartCount == 0 {
			return errors.New("it has not")
		}
		return ready(p)
	})
	up("a")

	b.remove(t, "a")
	b.awaitGone(t, "a")
	b.await(t, "its directory is gone", func() error {
		if _, err := os.Stat(filepath.Join(b.Root(), "pods", string(a.UID))); !os.IsNotExist(err) {
			return errors.Join(errors.New("it is there"), err)
		}
		return nil
	})
	b.create(t, b.pod("d", use))
	up("d")
	check.Equal(t, first["d"], first["a"], "the pods' users begin with %v: what a had is not given again", first)
}

// awaitOwner waits for a file and looks whose it is.
func (b *bed) awaitOwner(t *testing.T, path string, uid, gid uint32) {
	t.Helper()
	b.await(t, path, func() error { _, err := os.Lstat(path); return err })
	info, err := os.Stat(path)
	if err != nil {
		t.Error(err)
		return
	}
	if s := info.Sys().(*syscall.Stat_t); s.Uid != uid || s.Gid != gid {
		t.Errorf("%s is of %d:%d, want %d:%d", path, s.Uid, s.Gid, uid, gid)
	}
}
