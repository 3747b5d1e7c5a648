package volume

import (
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/mounts"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

// TestContextOfTheVolume: context= in the mountOptions of a PersistentVolume is the same for all pods, and mount(8) leaves
// it out on a host without SELinux, as this one is: no pod waits for another.
func TestContextOfTheVolume(t *testing.T) {
	l := newDiskLab(t)
	pv := &v1.PersistentVolume{}
	pv.Name, pv.Spec.MountOptions = "pv", []string{`context="u:r:t:s0:c1"`}
	pv.Spec.ISCSI = &v1.ISCSIPersistentVolumeSource{}
	s := iscsiVolume().ISCSI
	pv.Spec.ISCSI.TargetPortal, pv.Spec.ISCSI.IQN, pv.Spec.ISCSI.Lun, pv.Spec.ISCSI.FSType = s.TargetPortal, s.IQN, s.Lun, s.FSType
	volume := &v1.Volume{Name: "data"}
	volume.PersistentVolumeClaim = &v1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}
	for _, uid := range []types.UID{"u1", "u2"} {
		if _, err := l.mountRequest(t.Context(), port.MountVolume{Pod: podOf(uid), Volume: volume, Persistent: pv}); err != nil {
			t.Fatalf("%s: %v", uid, err)
		}
	}
	for _, uid := range []types.UID{"u1", "u2"} {
		check.Error(t, l.unmount(uid))
	}
	l.clean()
}

// TestDiskLabels: a disk that is mounted with another SELinux label is not taken while other pods have it, and is
// mounted anew when they are gone, whatever pods wait. This machine has no SELinux: the table of mounts is made up.
func TestDiskLabels(t *testing.T) {
	const one, two = "u:r:t:s0:c1,c2", "u:r:t:s0:c3"
	l := newDiskLab(t)
	label := one // of what is mounted
	read := l.mounts
	l.mounts = func() ([]mounts.Mount, error) {
		all, err := read()
		all = slices.Clone(all)
		for i := range all {
			if strings.HasPrefix(all[i].Point, l.root) && label != "" {
				all[i].Options += `,context="` + label + `"`
			}
		}
		return all, err
	}
	mount := func(p *v1.Pod, label string) error {
		_, err := l.mountRequest(t.Context(), port.MountVolume{Pod: p, Volume: iscsiVolume(), Label: label})
		return err
	}
	check.Fatal(t, mount(podOf("u1"), one))
	if err := mount(podOf("u1"), one); err != nil {
		t.Fatalf("again: %v", err)
	}
	if err := mount(podOf("u2"), "u:r:t:s0:c2,c1"); err != nil {
		t.Fatalf("the same label, written otherwise: %v", err)
	}
	const why = `conflicting SELinux labels of volume data: "u:r:t:s0:c1,c2" and "u:r:t:s0:c3"`
	for range 2 { // each of the two that wait
		hosttest.WantError(t, mount(podOf("u3"), two), port.StateConflict, why)
		hosttest.WantError(t, mount(podOf("u4"), two), port.StateConflict, why)
	}
	hosttest.WantError(t, mount(podOf("u5"), ""), port.StateConflict, "conflicting SELinux labels")
	// What a pod had noted before another had it mounted keeps nothing.
	note := filepath.Join("u3", pluginsDir, iscsiPlugin, "data", diskNote)
	raw := check.Value(l.pods.Root.ReadFile(strings.Replace(note, "u3", "u1", 1)))(t)
	hosttest.Write(t, filepath.Join(l.pods.Path, note), string(raw))
	for _, uid := range []types.UID{"u1", "u2"} {
		hosttest.WantError(t, mount(podOf("u3"), two), port.StateConflict, why)
		check.Fatal(t, l.unmount(uid))
	}
	if l.loggedIn() {
		t.Fatal("the session stays after the last pod")
	}
	label = two
	check.Fatal(t, mount(podOf("u3"), two))
	// It was left mounted with another label, and no pod has it.
	check.Fatal(t, syscall.Unmount(filepath.Join(l.pods.Path, "u3/volumes", iscsiPlugin, "data"), 0))
	check.Fatal(t, l.pods.Root.RemoveAll("u3"))
	label = one
	check.Fatal(t, mount(podOf("u4"), two))
	if n := l.countMounts(filepath.Join(l.root, globalDir)); n != 1 {
		t.Errorf("mounts: %v", l.below())
	}
	check.Fatal(t, l.unmount("u4"))
	l.clean()
}
