package cluster

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/tests/check"
)

// TestCSI has pods use the volumes of a real driver, with its real sidecars, in all the ways there are.
//
//tier:real
func TestCSI(t *testing.T) {
	t.Parallel()
	b := newCSIBed(t, "csi-uses", csiAgent(t), nil)
	t.Run("uses", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T, *csiBed){
			"filesystem": csiFilesystem, "block": csiBlock, "inline": csiInline, "generic": csiGeneric, "group": csiGroup,
			"subpath": csiSubPath, "readonly": csiReadOnly, "shared": csiShared, "one-pod": csiOnePod, "copies": csiCopies,
			"expand": csiExpand, "node": csiNode, "none": csiNone,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, b)
			})
		}
	})
}

// csiFilesystem: what a container writes is there for the next pod, and no more than the volume's size fits.
func csiFilesystem(t *testing.T, b *csiBed) {
	b.wants(t, "fs", "image", "32Mi")
	p := b.runs(t, "fs", using("fs"), work("append /v/log one then sleep"))
	kind, options := mountType(t, b.inside(t, p, "/v"))
	var fs syscall.Statfs_t
	err := syscall.Statfs(b.inside(t, p, "/v"), &fs)
	if size := int64(fs.Blocks) * fs.Bsize >> 20; err != nil || kind != "ext4" || !strings.HasPrefix(options, "rw") || size < 20 || size > 32 {
		t.Errorf("/v is %s %s with %d MiB, %v", kind, options, size, err)
	}
	b.ends(t, "fs")
	p = b.runs(t, "fs", using("fs"), work("append /v/log two then sleep"))
	b.awaitText(t, b.inside(t, p, "/v/log"), "one\ntwo\n")
	b.ends(t, "fs")
	if n := len(b.calls(t, "NodeStageVolume", b.handle(t, "fs"))); n < 1 || n > 2 {
		t.Errorf("the volume was staged %d times for two pods", n)
	}
}

func block(s *v1.PersistentVolumeClaimSpec) { s.VolumeMode = new(v1.PersistentVolumeBlock) }

// csiBlock: a container has a device, and what it writes is there for the next pod.
func csiBlock(t *testing.T, b *csiBed) {
	b.wants(t, "block", "dir", "16Mi", block)
	device := func(s *v1.PodSpec) {
		s.Volumes = []v1.Volume{volume("v", v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "block"}})}
		s.Containers[0].VolumeDevices = []v1.VolumeDevice{{Name: "v", DevicePath: "/dev/vol"}}
	}
	for _, steps := range []string{"write /dev/vol first", ""} {
		p := b.runs(t, "block", device, work(strings.TrimPrefix(steps+" then sleep", " then ")))
		at := b.inside(t, p, "/dev/vol")
		info, err := os.Stat(at)
		if err != nil || info.Mode().Type() != os.ModeDevice {
			t.Fatalf("/dev/vol is %v, %v", info, err)
		}
		b.await(t, "the device has what was written", func() error {
			f := check.Must(os.Open(at))
			defer f.Close()
			begin := make([]byte, 5)
			check.Must(f.Read(begin))
			return check.Is(string(begin), "first", "it begins")
		})
		b.ends(t, "block")
	}
}

// csiInline: a volume that is made for a pod, which the driver is told about, and that goes with it.
func csiInline(t *testing.T, b *csiBed) {
	p := b.runs(t, "inline", work("append /v/log here then sleep"), func(s *v1.PodSpec) {
		s.Volumes = []v1.Volume{volume("v", v1.VolumeSource{CSI: &v1.CSIVolumeSource{Driver: b.driver.Name, VolumeAttributes: map[string]string{"color": "red"}}})}
		s.Containers[0].VolumeMounts = []v1.VolumeMount{mounted("v")}
	})
	b.awaitText(t, b.inside(t, p, "/v/log"), "here\n")
	const told = "csi.storage.k8s.io/"
	want := map[string]string{
		told + "ephemeral": "true", told + "pod.name": "inline", told + "pod.namespace": b.name, told + "pod.uid": string(p.UID),
		told + "serviceAccount.name": "default", "color": "red",
	}
	handle := ""
	for _, c := range b.calls(t, "NodePublishVolume", "") {
		if strings.Contains(c.Path, string(p.UID)) {
			handle = c.Volume
			check.Equal(t, fmt.Sprint(c.Context), fmt.Sprint(want), "the driver is told %v, want %v", c.Context, want)
		}
	}
	if !strings.HasPrefix(handle, "csi-") {
		t.Errorf("the volume is called %q", handle)
	}
	b.ends(t, "inline")
	if n := len(b.calls(t, "NodeUnpublishVolume", handle)); n == 0 {
		t.Error("the volume was not unpublished")
	}
}

// csiGeneric: a claim that is made for a pod and goes with it. The scheduler chooses the node first.
func csiGeneric(t *testing.T, b *csiBed) {
	p := b.runs(t, "generic", work("append /v/log here then sleep"), func(s *v1.PodSpec) {
		s.Volumes = []v1.Volume{volume("v", v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{
			VolumeClaimTemplate: &v1.PersistentVolumeClaimTemplate{Spec: b.claimSpec("late", "1Mi")},
		}})}
		s.Containers[0].VolumeMounts = []v1.VolumeMount{mounted("v")}
	})
	b.awaitText(t, b.inside(t, p, "/v/log"), "here\n")
	pv := b.bound(t, "generic-v")
	terms := pv.Spec.NodeAffinity.Required.NodeSelectorTerms
	if len(terms) != 1 || terms[0].MatchExpressions[0].Key != b.driver.Name+"/zone" || terms[0].MatchExpressions[0].Values[0] != "a" {
		t.Errorf("the volume is reached from %+v", terms)
	}
	b.ends(t, "generic")
	b.await(t, "the claim is gone", func() error {
		_, err := b.admin.CoreV1().PersistentVolumeClaims(b.name).Get(t.Context(), "generic-v", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, errors.New("it is there"))
	})
}

// csiGroup: files are of the pod's group.
func csiGroup(t *testing.T, b *csiBed) {
	b.wants(t, "group", "image", "16Mi")
	p := b.runs(t, "group", using("group"), work("append /v/log x then sleep"), func(s *v1.PodSpec) {
		s.SecurityContext = &v1.PodSecurityContext{FSGroup: new(int64(2000)), RunAsUser: new(int64(1000)), RunAsGroup: new(int64(1000))}
	})
	b.awaitText(t, b.inside(t, p, "/v/log"), "x\n")
	wantOwner(t, b.inside(t, p, "/v"), 0o775|os.ModeDir|os.ModeSetgid, 0, 2000)
	wantOwner(t, b.inside(t, p, "/v/log"), 0o644, 1000, 2000)
	b.ends(t, "group")
}

// csiSubPath: a container sees a directory of a volume, which is made for it.
func csiSubPath(t *testing.T, b *csiBed) {
	b.wants(t, "sub", "image", "16Mi")
	p := b.runs(t, "sub", using("sub", part("/part", "a/b")), whole, work("append /part/log x then sleep"))
	b.awaitText(t, b.inside(t, p, "/v/a/b/log"), "x\n")
	b.ends(t, "sub")
}

// whole mounts at /v what using has mounted a part of.
func whole(s *v1.PodSpec) {
	s.Containers[0].VolumeMounts = append(s.Containers[0].VolumeMounts, mounted("v"))
}

// csiReadOnly: a volume that a pod may only read.
func csiReadOnly(t *testing.T, b *csiBed) {
	b.wants(t, "ro", "dir", "1Mi")
	first := b.runs(t, "ro-first", using("ro"), work("write /v/log x then sleep"))
	b.awaitText(t, b.inside(t, first, "/v/log"), "x\n")
	b.ends(t, "ro-first")
	p := b.runs(t, "ro", using("ro"), work("cat /v/log then sleep"), func(s *v1.PodSpec) { s.Volumes[0].PersistentVolumeClaim.ReadOnly = true })
	if _, options := mountType(t, b.inside(t, p, "/v")); !strings.HasPrefix(options, "ro") {
		t.Errorf("/v is mounted %s", options)
	}
	b.ends(t, "ro")
}

// csiShared: two pods of the node have one volume, which is staged once, until the last one has gone.
func csiShared(t *testing.T, b *csiBed) {
	b.wants(t, "shared", "image", "16Mi")
	one := b.runs(t, "shared-1", using("shared"), work("append /v/log x then sleep"))
	two := b.runs(t, "shared-2", using("shared"), work("await /v/log then sleep"))
	v := b.handle(t, "shared")
	check.Count(t, len(b.calls(t, "NodeStageVolume", v)), 1, "the volume was staged %d times")
	b.awaitText(t, b.inside(t, two, "/v/log"), "x\n")
	b.ends(t, "shared-1")
	b.await(t, "the volume is unpublished of the first pod", func() error {
		for _, c := range b.calls(t, "NodeUnpublishVolume", v) {
			if strings.Contains(c.Path, string(one.UID)) {
				return nil
			}
		}
		return errors.New("no such call")
	})
	check.Count(t, len(b.calls(t, "NodeUnstageVolume", v)), 0, "the volume was unstaged %d times, while a pod has it")
	b.awaitText(t, b.inside(t, two, "/v/log"), "x\n")
	b.ends(t, "shared-2")
	b.await(t, "the volume is unstaged", func() error {
		n := len(b.calls(t, "NodeUnstageVolume", v))
		return check.That(n != 0, "no such call")
	})
}

// csiOnePod: a volume for one pod (ReadWriteOncePod) is refused to a second one, also where no scheduler is asked.
func csiOnePod(t *testing.T, b *csiBed) {
	b.wants(t, "one-pod", "dir", "1Mi", func(s *v1.PersistentVolumeClaimSpec) {
		s.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
	})
	b.runs(t, "one-pod", using("one-pod"), work("sleep"))
	b.create(t, b.pod("one-pod-2", changes(using("one-pod"), work("sleep"), func(s *v1.PodSpec) { s.NodeName = b.name })))
	b.awaitEvent(t, "one-pod-2", "FailedMount", "volume uses the ReadWriteOncePod access mode and is already in use by another pod")
	b.said(t, "one-pod-2")
	b.ends(t, "one-pod")
	b.awaitPod(t, "one-pod-2", "is ready once the first one has gone", ready)
	b.ends(t, "one-pod-2")
}

// csiCopies: a clone and what is restored of a snapshot have the data that was there then, in a larger volume.
func csiCopies(t *testing.T, b *csiBed) {
	b.wants(t, "from", "image", "16Mi")
	from := b.runs(t, "from", using("from"), work("write /v/log old then sleep"))
	b.awaitText(t, b.inside(t, from, "/v/log"), "old\n")
	b.ends(t, "from")
	b.createSnapshotting(t, "volumesnapshots", map[string]any{
		"kind": "VolumeSnapshot", "metadata": map[string]any{"name": "snap"},
		"spec": map[string]any{"volumeSnapshotClassName": b.name, "source": map[string]any{"persistentVolumeClaimName": "from"}},
	})
	b.await(t, "the snapshot is ready", func() error {
		s := check.Must(b.snapshotting("volumesnapshots").Get(t.Context(), "snap", metav1.GetOptions{}))
		status, _ := s.Object["status"].(map[string]any)
		return check.That(status["readyToUse"] == true, "its status is %v", status)
	})
	group := "snapshot.storage.k8s.io"
	for claim, source := range map[string]v1.TypedLocalObjectReference{
		"clone":    {Kind: "PersistentVolumeClaim", Name: "from"},
		"restored": {APIGroup: &group, Kind: "VolumeSnapshot", Name: "snap"},
	} {
		b.wants(t, claim, "image", "48Mi", func(s *v1.PersistentVolumeClaimSpec) { s.DataSource = &source })
		p := b.runs(t, claim, using(claim), work("append /v/log new then sleep"))
		b.awaitText(t, b.inside(t, p, "/v/log"), "old\nnew\n")
		var fs syscall.Statfs_t
		if err := syscall.Statfs(b.inside(t, p, "/v"), &fs); err != nil || int64(fs.Blocks)*fs.Bsize < 32<<20 {
			t.Errorf("%s has a file system of %d bytes, %v", claim, int64(fs.Blocks)*fs.Bsize, err)
		}
		b.ends(t, claim)
	}
	// A snapshot goes before what it was made of: the snapshotter holds the claim as long.
	check.Error(t, b.snapshotting("volumesnapshots").Delete(t.Context(), "snap", metav1.DeleteOptions{}))
}

// csiExpand: a volume gets larger under a pod, which sees it.
func csiExpand(t *testing.T, b *csiBed) {
	b.wants(t, "grows", "xfs", "320Mi")
	p := b.runs(t, "grows", using("grows"), work("sleep"))
	at := b.inside(t, p, "/v")
	size := func() (mib int64) {
		var fs syscall.Statfs_t
		check.Fatal(t, syscall.Statfs(at, &fs))
		return int64(fs.Blocks) * fs.Bsize >> 20
	}
	if n := size(); n > 320 {
		t.Errorf("/v has %d MiB", n)
	}
	patch := []byte(`{"spec":{"resources":{"requests":{"storage":"512Mi"}}}}`)
	begun := time.Now()
	check.Value(b.admin.CoreV1().PersistentVolumeClaims(b.name).Patch(t.Context(), "grows", types.MergePatchType, patch, metav1.PatchOptions{}))(t)
	b.await(t, "the container sees the new size", func() error {
		n := size()
		return check.That(n >= 400, "it sees %d MiB", n)
	})
	t.Logf("the container saw the new size after %v", time.Since(begun).Round(time.Millisecond))
	b.await(t, "the claim has the new size", func() error {
		c := check.Must(b.admin.CoreV1().PersistentVolumeClaims(b.name).Get(t.Context(), "grows", metav1.GetOptions{}))
		if has := c.Status.Capacity[v1.ResourceStorage]; has.Cmp(resource.MustParse("512Mi")) != 0 || len(c.Status.Conditions) > 0 || len(c.Status.AllocatedResourceStatuses) > 0 {
			return fmt.Errorf("it has %v, with %v and %v", has.String(), c.Status.Conditions, c.Status.AllocatedResourceStatuses)
		}
		return nil
	})
	b.awaitEvent(t, "grows", "FileSystemResizeSuccessful", "")
	check.Equal(t, b.get(t, "grows").Status.ContainerStatuses[0].RestartCount, 0, "the container was restarted")
	b.said(t, "grows")
	b.ends(t, "grows")
}

// csiNode: the cluster knows where the node is, and how many volumes it takes.
func csiNode(t *testing.T, b *csiBed) {
	n := check.Value(b.admin.StorageV1().CSINodes().Get(t.Context(), b.name, metav1.GetOptions{}))(t)
	d := n.Spec.Drivers[0]
	key := b.driver.Name + "/zone"
	if len(n.Spec.Drivers) != 1 || len(d.TopologyKeys) != 1 || d.TopologyKeys[0] != key || d.Allocatable == nil || int64(*d.Allocatable.Count) != b.driver.MaxVolumes {
		t.Errorf("the CSINode has %+v", n.Spec.Drivers)
	}
	node := b.node(t)
	check.Equal(t, node.Labels[key], "a", "the Node has labels %v", node.Labels)
	if want := fmt.Sprintf(`{%q:%q}`, b.driver.Name, b.driver.Node); node.Annotations["csi.volume.kubernetes.io/nodeid"] != want {
		t.Errorf("the Node has annotations %v, want %s", node.Annotations, want)
	}
	if owner := n.OwnerReferences; len(owner) != 1 || owner[0].UID != node.UID {
		t.Errorf("the CSINode is owned by %+v", owner)
	}
}

// csiNone: a driver that the node does not have.
func csiNone(t *testing.T, b *csiBed) {
	b.create(t, b.pod("none", func(s *v1.PodSpec) {
		s.Volumes = []v1.Volume{volume("v", v1.VolumeSource{CSI: &v1.CSIVolumeSource{Driver: "none.test"}})}
		s.Containers[0].VolumeMounts = []v1.VolumeMount{mounted("v")}
	}))
	b.awaitEvent(t, "none", "FailedMount", `MountVolume.SetUp failed for volume "v" : `)
	b.awaitEvent(t, "none", "FailedMount", "none.test")
	b.said(t, "none")
	b.ends(t, "none")
}
