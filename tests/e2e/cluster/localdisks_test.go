package cluster

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
	"github.com/troupe-dev/troupe/tests/e2e/member"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

// localDisk makes a local volume on a loop device, with a claim of the same name, which is bound to it.
func (b *bed) localDisk(t *testing.T, name string, mode v1.PersistentVolumeMode) *hosttest.Loop {
	t.Helper()
	return b.localDiskOf(t, name, mode, 16<<20, nil)
}

// localDiskOf is localDisk with a size in bytes and a file system.
func (b *bed) localDiskOf(t *testing.T, name string, mode v1.PersistentVolumeMode, bytes int64, fsType *string) *hosttest.Loop {
	t.Helper()
	disk := hosttest.NewLoop(t, bytes)
	size := v1.ResourceList{v1.ResourceStorage: *resource.NewQuantity(bytes, resource.BinarySI)}
	access := []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	pv := &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: b.name + "-" + name},
		Spec: v1.PersistentVolumeSpec{
			Capacity: size, AccessModes: access, VolumeMode: &mode, PersistentVolumeReclaimPolicy: v1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource: v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: disk.Device, FSType: fsType}},
			ClaimRef:               &v1.ObjectReference{Namespace: b.name, Name: name},
			NodeAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
				MatchExpressions: []v1.NodeSelectorRequirement{{Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn, Values: []string{b.name}}},
			}}}},
		},
	}
	claim := &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PersistentVolumeClaimSpec{
			AccessModes: access, VolumeMode: &mode, VolumeName: pv.Name, StorageClassName: new(""),
			Resources: v1.VolumeResourceRequirements{Requests: size},
		},
	}
	claim = check.Value(b.admin.CoreV1().PersistentVolumeClaims(b.name).Create(t.Context(), claim, metav1.CreateOptions{}))(t)
	pv.Spec.ClaimRef.UID = claim.UID
	check.Value(b.admin.CoreV1().PersistentVolumes().Create(t.Context(), pv, metav1.CreateOptions{}))(t)
	t.Cleanup(func() {
		check.Error(t, b.admin.CoreV1().PersistentVolumes().Delete(context.Background(), pv.Name, metav1.DeleteOptions{}))
	})
	b.await(t, "claim "+name+" is bound", func() error {
		now, err := b.admin.CoreV1().PersistentVolumeClaims(b.name).Get(t.Context(), name, metav1.GetOptions{})
		if err == nil && now.Status.Phase != v1.ClaimBound {
			err = fmt.Errorf("it is %s", now.Status.Phase)
		}
		return err
	})
	return disk
}

// device gives a container the device of a claim.
func device(claim string) func(*v1.PodSpec) {
	return func(s *v1.PodSpec) {
		of := &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim}
		s.Volumes = []v1.Volume{volume("v", v1.VolumeSource{PersistentVolumeClaim: of})}
		s.Containers[0].VolumeDevices = []v1.VolumeDevice{{Name: "v", DevicePath: "/dev/vol"}}
	}
}

// awaitBegin waits until a file or device begins with a text.
func (b *bed) awaitBegin(t *testing.T, path, want string) {
	t.Helper()
	b.await(t, path+" begins with "+want, func() error {
		f := check.Must(os.Open(path))
		defer f.Close()
		begin := make([]byte, len(want))
		check.Must(io.ReadFull(f, begin))
		return check.Is(string(begin), want, "it begins")
	})
}

// leftOn are the mounts and loop devices of this machine that are below the directory of plugins of an agent.
func leftOn(t *testing.T, root string) (out []string) {
	t.Helper()
	text := check.Value(os.ReadFile("/proc/self/mountinfo"))(t)
	for line := range strings.Lines(string(text)) {
		if at := strings.Fields(line)[4]; strings.HasPrefix(at, filepath.Join(root, "plugins")+"/") {
			out = append(out, at)
		}
	}
	files := check.Value(filepath.Glob("/sys/block/loop*/loop/backing_file"))(t)
	for _, f := range files {
		if text, err := os.ReadFile(f); err == nil && strings.HasPrefix(string(text), filepath.Join(root, "plugins")+"/") {
			out = append(out, f+" "+strings.TrimSpace(string(text)))
		}
	}
	return out
}

// awaitNothing waits until nothing is left there.
func (b *bed) awaitNothing(t *testing.T, root string) {
	t.Helper()
	b.await(t, "nothing is left", func() error {
		left := leftOn(t, root)
		return check.That(len(left) == 0, "left are %v", left)
	})
}

// TestLocalDisks: local volumes on devices, as a device and with a file system: what a container writes is there for the
// next pod, an agent that is killed restarts nothing, and nothing is left of pods that end, also if they are deleted while
// no agent is there.
//
//tier:real
func TestLocalDisks(t *testing.T) {
	t.Parallel()
	b, m := joinedAs(t, "local-disks", agentOf(t, "troupe"))
	b.localDisk(t, "dev", v1.PersistentVolumeBlock)
	b.localDisk(t, "fs", v1.PersistentVolumeFilesystem)
	runs := func(name string, spec func(*v1.PodSpec)) *v1.Pod {
		t.Helper()
		b.create(t, b.pod(name, spec))
		return b.awaitPod(t, name, "is ready", ready)
	}
	dev := runs("dev", changes(device("dev"), work("write /dev/vol first then sleep")))
	fs := runs("fs", changes(using("fs"), work("append /v/log x then sleep")))
	b.awaitBegin(t, b.inside(t, dev, "/dev/vol"), "first")
	b.awaitText(t, b.inside(t, fs, "/v/log"), "x\n")
	b.awaitEvent(t, dev.Name, "SuccessfulMountVolume", "MapVolume.MapPodDevice succeeded for volume")
	check.Fatal(t, m.Kill(t.Context()))
	check.Fatal(t, m.Start())
	after := runs("after", work("sleep"))
	for _, p := range []*v1.Pod{dev, fs} {
		now := b.get(t, p.Name).Status.ContainerStatuses[0]
		if now.ContainerID != p.Status.ContainerStatuses[0].ContainerID || now.RestartCount != 0 {
			t.Errorf("%s was restarted: %+v", p.Name, now)
		}
	}
	for _, p := range []*v1.Pod{dev, fs, after} {
		b.remove(t, p.Name)
	}
	for _, p := range []*v1.Pod{dev, fs, after} {
		b.awaitGone(t, p.Name)
	}
	b.awaitNothing(t, m.Root())
	dev = runs("dev", changes(device("dev"), work("sleep")))
	b.awaitBegin(t, b.inside(t, dev, "/dev/vol"), "first")
	check.Fatal(t, m.Kill(t.Context()))
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}
	check.Fatal(t, b.admin.CoreV1().Pods(b.name).Delete(t.Context(), "dev", now))
	check.Fatal(t, m.Start())
	b.awaitNothing(t, m.Root())
}

// TestLocalDisksChangeover: a node goes from the kubelet to troupe and back, with pods that have local volumes on devices.
// No container restarts, and pods of either end with the other one.
//
//tier:all the kubelet runs beside
func TestLocalDisksChangeover(t *testing.T) {
	t.Parallel()
	lab.Need(t, lab.GoToolchain)
	troupe, kubelet := agentOf(t, "troupe"), agentOf(t, "kubelet").OwnPlugins()
	b, m := joinedAs(t, "local-change", kubelet)
	add := func(name string) (out []*v1.Pod) {
		t.Helper()
		b.localDisk(t, name+"-dev", v1.PersistentVolumeBlock)
		b.localDisk(t, name+"-fs", v1.PersistentVolumeFilesystem)
		b.create(t, b.pod(name+"-dev", changes(device(name+"-dev"), work("write /dev/vol first then sleep"))))
		b.create(t, b.pod(name+"-fs", changes(using(name+"-fs"), work("append /v/log x then sleep"))))
		for _, pod := range []string{name + "-dev", name + "-fs"} {
			out = append(out, b.awaitPod(t, pod, "is ready", ready))
		}
		b.awaitBegin(t, b.inside(t, out[0], "/dev/vol"), "first")
		return out
	}
	ends := func(pods []*v1.Pod) {
		t.Helper()
		for _, p := range pods {
			b.remove(t, p.Name)
		}
		for _, p := range pods {
			b.awaitGone(t, p.Name)
		}
	}
	kept, last := add("kept"), add("first")
	for i, to := range []member.Agent{troupe, kubelet, troupe} {
		check.Fatal(t, m.Kill(t.Context()))
		check.Fatal(t, m.Configure(to, ""))
		check.Fatal(t, m.Start())
		next := add(fmt.Sprint("next-", i))
		for _, p := range append(kept, last...) {
			now := b.get(t, p.Name).Status.ContainerStatuses[0]
			if now.ContainerID != p.Status.ContainerStatuses[0].ContainerID || now.RestartCount != 0 {
				t.Errorf("with %s: %s was restarted: %+v", to.Name, p.Name, now)
			}
		}
		b.awaitBegin(t, b.inside(t, kept[0], "/dev/vol"), "first")
		ends(last)
		last = next
	}
	ends(append(kept, last...))
	b.awaitNothing(t, m.Root())
}

// TestLocalDisksGrow: a local volume whose device and PersistentVolume have become bigger grows while a pod uses it, and before
// the next pod begins, with troupe as with the kubelet: the claim says so, and the pod goes on.
//
//tier:all a repetition of LocalDisks and CSIExpandStays
func TestLocalDisksGrow(t *testing.T) {
	t.Parallel()
	for _, name := range compared() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "kubelet" {
				lab.Need(t, lab.GoToolchain)
			}
			b, m := joinedAs(t, "local-grows-"+name, agentOf(t, name))
			const size = 320 << 20 // the least that xfs takes; ext4 needs CAP_SYS_RESOURCE to grow
			disk := b.localDiskOf(t, "fs", v1.PersistentVolumeFilesystem, size, new("xfs"))
			bigger := func(n int64) {
				t.Helper()
				disk.Grow(n)
				patch := fmt.Appendf(nil, `{"spec":{"capacity":{"storage":"%d"}}}`, n)
				check.Value(b.admin.CoreV1().PersistentVolumes().Patch(t.Context(), b.name+"-fs", types.MergePatchType, patch, metav1.PatchOptions{}))(t)
			}
			grown := func(p *v1.Pod, n int64) {
				t.Helper()
				b.await(t, "the claim says that it has grown", func() error {
					c, err := b.admin.CoreV1().PersistentVolumeClaims(b.name).Get(t.Context(), "fs", metav1.GetOptions{})
					if s := c.Status; err == nil && (s.Capacity.Storage().Value() != n || len(s.Conditions)+len(s.AllocatedResourceStatuses)+len(s.AllocatedResources) > 0) {
						err = fmt.Errorf("its status is %+v", s)
					}
					return err
				})
				var fs unix.Statfs_t
				check.Fatal(t, unix.Statfs(b.inside(t, p, "/v"), &fs))
				if got := int64(fs.Blocks) * fs.Bsize; got < n*3/4 {
					t.Errorf("%s sees %d bytes of %d", p.Name, got, n)
				}
				b.awaitText(t, b.inside(t, p, "/v/log"), "x\n")
				b.awaitEvent(t, p.Name, "FileSystemResizeSuccessful", fmt.Sprintf("MountVolume.NodeExpandVolume succeeded for volume %q %s", b.name+"-fs", b.name))
			}
			b.create(t, b.pod("first", changes(using("fs"), work("append /v/log x then sleep"))))
			first := b.awaitPod(t, "first", "is ready", ready)
			bigger(2 * size)
			grown(first, 2*size)
			now := b.get(t, "first").Status.ContainerStatuses[0]
			if now.ContainerID != first.Status.ContainerStatuses[0].ContainerID || now.RestartCount != 0 {
				t.Errorf("it was restarted: %+v", now)
			}
			b.remove(t, "first")
			b.awaitGone(t, "first")
			bigger(3 * size)
			b.create(t, b.pod("next", changes(using("fs"), work("sleep"))))
			grown(b.awaitPod(t, "next", "is ready", ready), 3*size)
			b.remove(t, "next")
			b.awaitGone(t, "next")
			check.None(t, leftOn(t, m.Root()), "left")
		})
	}
}
