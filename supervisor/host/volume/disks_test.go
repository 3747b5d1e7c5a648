package volume

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/blockdevice"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/mounts"
	"github.com/troupe-dev/troupe/supervisor/host/volume/internal/netdisks"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

const (
	testIQN    = "iqn.2003-01.org.example:disk"
	testPortal = "10.0.0.1:3260"
	globalDir  = "kubelet/plugins/kubernetes.io/iscsi/iface-default/" + testPortal + "-" + testIQN + "-lun-1"
)

// diskLab is a Host with an iSCSI target that netdisks/testdata/bin/iscsiadm plays. Its disk is a loop device.
type diskLab struct {
	*lab
	play string
}

func newDiskLab(t *testing.T) *diskLab {
	t.Helper()
	hosttest.NeedRoot(t)
	bin := check.Value(filepath.Abs("internal/netdisks/testdata/bin"))(t)
	l := &diskLab{newLab(t), t.TempDir()}
	loop := hosttest.NewLoop(t, 16<<20)
	t.Setenv("PLAY", l.play)
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	hosttest.Write(t, filepath.Join(l.play, "targets"), testIQN+"\n")
	check.Fatal(t, errors.Join(os.Mkdir(filepath.Join(l.play, "dev"), 0o755), os.Symlink(loop.Device, filepath.Join(l.play, "dev/sda"))))
	l.disks.machine = l.machine()
	command := l.children.Command
	l.children.Command = commandIn(command, l.play)
	t.Cleanup(func() { // what a test that failed has left
		for _, m := range l.below() {
			syscall.Unmount(m, syscall.MNT_DETACH) //nolint:errcheck // best effort
		}
	})
	return l
}

func (l *diskLab) machine() netdisks.Machine {
	return netdisks.Machine{
		Sys: filepath.Join(l.play, "sys"), Dev: filepath.Join(l.play, "dev"), Records: []string{filepath.Join(l.play, "records")},
		Busy: 5 * time.Second,
	}
}

// next is the Host of an agent that starts after the first was killed.
func (l *diskLab) next() *diskLab {
	h := newLabAt(l.t, l.root)
	h.disks.machine = l.machine()
	h.children.Command = commandIn(h.children.Command, l.play)
	return &diskLab{&lab{Volumes: h, t: l.t, root: l.root}, l.play}
}

// below are the mounts of the lab, the newest first.
func (l *diskLab) below() (out []string) {
	all := check.Value(mounts.Now())(l.t)
	for _, m := range all {
		if strings.HasPrefix(m.Point, l.root+"/") {
			out = append([]string{m.Point}, out...)
		}
	}
	return out
}

func podOf(uid types.UID) *v1.Pod { return newPod(func(p *v1.Pod) { p.UID = uid }) }

func iscsiVolume(change ...func(*v1.ISCSIVolumeSource)) *v1.Volume {
	s := v1.ISCSIVolumeSource{TargetPortal: "10.0.0.1", IQN: testIQN, Lun: 1, ISCSIInterface: "default"}
	for _, f := range change {
		f(&s)
	}
	return &v1.Volume{Name: "data", VolumeSource: v1.VolumeSource{ISCSI: &s}}
}

// loggedIn reports whether there is a session.
func (l *diskLab) loggedIn() bool {
	found := check.Value(filepath.Glob(filepath.Join(l.play, "sys/class/iscsi_host/*")))(l.t)
	return len(found) > 0
}

// clean fails unless nothing of a disk is left.
func (l *diskLab) clean() {
	l.t.Helper()
	if l.loggedIn() {
		l.t.Error("there is a session")
	}
	check.None(l.t, l.below(), "still mounted")
	hosttest.WantGone(l.t, filepath.Join(l.root, filepath.Dir(globalDir)))
}

// TestISCSIVolume: pods share a disk, which is formatted once, and goes with the last of them.
func TestISCSIVolume(t *testing.T) {
	l := newDiskLab(t)
	first, second := podOf("u1"), podOf("u2")
	first.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: new(int64(2000))}
	path := l.mustMount(first, iscsiVolume())
	check.Equal(t, path, filepath.Join(l.root, "kubelet/pods/u1/volumes/kubernetes.io~iscsi/data"), "is at")
	if gid, _ := groupAndMode(t, path); gid != 2000 {
		t.Errorf("its group is %d", gid)
	}
	hosttest.Write(t, filepath.Join(path, "file"), "kept")
	again := l.mustMount(second, iscsiVolume(func(s *v1.ISCSIVolumeSource) { s.ReadOnly = true }))
	check.Equal(t, string(check.Value(os.ReadFile(filepath.Join(again, "file")))(t)), "kept", "the second pod reads")
	if err := os.WriteFile(filepath.Join(again, "file"), nil, 0o600); !errors.Is(err, syscall.EROFS) {
		t.Errorf("the second pod writes: %v", err)
	}
	if l.mustMount(first, iscsiVolume()) != path || l.countMounts(path) != 1 || l.countMounts(filepath.Join(l.root, globalDir)) != 1 {
		t.Errorf("mounts: %v", l.below())
	}
	hosttest.WantError(t, l.remove(port.PodDirs{UID: "u1"}), port.StateConflict, "nothing was removed", testIQN)
	n := l.next() // by which the first is gone, with all that it knew
	check.Fatal(t, n.unmount("u1"))
	if !l.loggedIn() || l.countMounts(again) != 1 {
		t.Error("the second pod has lost its disk")
	}
	check.Fatal(t, n.unmount("u2"))
	l.clean()
	path = l.mustMount(podOf("u3"), iscsiVolume())
	check.Equal(t, string(check.Value(os.ReadFile(filepath.Join(path, "file")))(t)), "kept", "a later pod reads")
	check.Fatal(t, n.unmount("u3"))
	l.clean()
}

// TestISCSIFromKubelet: a disk that a kubelet has mounted, without a note of ours, goes with its pod and by its
// iscsi.json, and stays while another pod has it.
func TestISCSIFromKubelet(t *testing.T) {
	l := newDiskLab(t)
	for _, uid := range []types.UID{"u1", "u2"} {
		l.mustMount(podOf(uid), iscsiVolume())
		check.Fatal(t, os.RemoveAll(filepath.Join(l.root, "kubelet/pods", string(uid), "plugins")))
	}
	check.Fatal(t, l.unmount("u1"))
	if !l.loggedIn() {
		t.Error("the second pod has lost its disk")
	}
	if path := l.mustMount(podOf("u2"), iscsiVolume()); l.countMounts(path) != 1 {
		t.Errorf("it was mounted again: %v", l.below())
	}
	check.Fatal(t, os.RemoveAll(filepath.Join(l.root, "kubelet/pods/u2/plugins")))
	check.Fatal(t, l.next().unmount("u2"))
	l.clean()
}

// TestISCSILeft: a disk that no pod has any more, as a kubelet leaves it that is killed when a pod has just ended, is
// detached when the next agent starts: also if it is not mounted any more. One that a pod has stays, with a note or without.
func TestISCSILeft(t *testing.T) {
	l := newDiskLab(t)
	check.Error(t, newLab(t).ReleaseLeft(ctx(t)))
	for name, kubelet := range map[string]func(){
		"mounted":     func() {},
		"not mounted": func() { check.Fatal(t, syscall.Unmount(filepath.Join(l.root, globalDir), 0)) },
	} {
		path := l.mustMount(podOf("u1"), iscsiVolume())
		check.Fatal(t, l.next().ReleaseLeft(ctx(t)))
		check.Fatal(t, os.RemoveAll(filepath.Join(l.root, "kubelet/pods/u1/plugins")))
		check.Fatal(t, l.next().ReleaseLeft(ctx(t)))
		if !l.loggedIn() || l.countMounts(path) != 1 || l.countMounts(filepath.Join(l.root, globalDir)) != 1 {
			t.Fatalf("%s: a pod has lost its disk: %v", name, l.below())
		}
		check.Fatal(t, syscall.Unmount(path, 0))
		check.Fatal(t, os.RemoveAll(filepath.Join(l.root, "kubelet/pods/u1")))
		kubelet()
		check.Fatal(t, l.next().ReleaseLeft(ctx(t)))
		l.clean()
	}
}

// TestISCSINotesOfKubelet: the file that is under the mount is what a kubelet reads.
func TestISCSINotesOfKubelet(t *testing.T) {
	l := newDiskLab(t)
	hosttest.Write(t, filepath.Join(l.play, "refuse-"+testPortal), "")
	_, err := l.mount(ctx(t), podOf("u1"), iscsiVolume(func(s *v1.ISCSIVolumeSource) { s.Portals = []string{"10.0.0.1:3260"} }))
	hosttest.WantError(t, err, port.Other, "iSCSI target "+testIQN+" (LUN 1) at "+testPortal+" can't be attached", "Connection refused")
	raw := check.Value(os.ReadFile(filepath.Join(l.root, globalDir, "iscsi.json")))(t)
	got := map[string]any{}
	check.Fatal(t, json.Unmarshal(raw, &got))
	for key, want := range map[string]string{"VolName": "data", "Iqn": testIQN, "Lun": "1", "InitIface": "default", "Iface": "default", "InitiatorName": ""} {
		if got[key] != want {
			t.Errorf("%s is %v, want %s", key, got[key], want)
		}
	}
	check.Fatal(t, l.next().unmount("u1")) // nothing was attached
	l.clean()
}

// TestHungISCSITarget: a target that does not answer holds up who needs it, and nobody else.
func TestHungISCSITarget(t *testing.T) {
	l := newDiskLab(t)
	const other = "10.0.0.2:3260"
	hosttest.Write(t, filepath.Join(l.play, "targets"), testIQN+"\n"+testIQN+"2\n")
	hosttest.Write(t, filepath.Join(l.play, "hang-"+other), "")
	limited, cancel := context.WithCancel(ctx(t))
	got := make(chan error, 1)
	go func() {
		_, err := l.mount(limited, podOf("u1"), iscsiVolume(func(s *v1.ISCSIVolumeSource) { s.TargetPortal, s.IQN = other, testIQN+"2" }))
		got <- err
	}()
	check.Until(t, "the target is asked", func() bool {
		b, err := os.ReadFile(filepath.Join(l.play, "calls"))
		return err == nil && strings.Contains(string(b), other+" -I default --discover")
	})
	l.mustMount(podOf("u2"), iscsiVolume())
	check.Fatal(t, l.unmount("u2"))
	cancel()
	hosttest.WantError(t, <-got, port.Canceled)
	check.Until(t, "the pod can go", func() bool { return l.unmount("u1") == nil })
	l.clean()
}

func TestFlexVolumeIsRefused(t *testing.T) {
	l := newLab(t)
	v := &v1.Volume{Name: "data", VolumeSource: v1.VolumeSource{FlexVolume: &v1.FlexVolumeSource{Driver: "example.com/lvm"}}}
	_, err := l.mount(ctx(t), newPod(), v)
	hosttest.WantError(t, err, port.InvalidConfig, `volume "data"`, "example.com/lvm", "deprecated", "CSI driver")
	_, err = l.mountRequest(ctx(t), claimed(newPod(), v1.PersistentVolumeSource{FlexVolume: &v1.FlexPersistentVolumeSource{Driver: "example.com/lvm"}}))
	hosttest.WantError(t, err, port.InvalidConfig, "PersistentVolume pv-1", "example.com/lvm", "deprecated", "CSI driver")
}

// TestISCSIThatCantBe: names that would lead elsewhere are refused before anything is made.
func TestISCSIThatCantBe(t *testing.T) {
	l := newLab(t)
	_, err := l.mount(ctx(t), newPod(), iscsiVolume(func(s *v1.ISCSIVolumeSource) { s.IQN = "iqn.x/../../../y" }))
	hosttest.WantError(t, err, port.InvalidConfig, "iqn")
	check.Fails(t, check.Err(blockdevice.OfDir("iscsi/../x")), "a directory elsewhere was read")
}

// commandIn gives children the environment that the played iscsiadm needs.
func commandIn(command func(string) *exec.Cmd, play string) func(string) *exec.Cmd {
	return func(arg string) *exec.Cmd {
		c := command(arg)
		c.Env = append(c.Env, "PLAY="+play)
		return c
	}
}

// TestFCVolume: a disk of Fibre Channel that udev shows is mounted where a kubelet mounts it. There is no host adapter
// here: a directory plays /sys and /dev, and a loop device the disk.
func TestFCVolume(t *testing.T) {
	l := newDiskLab(t)
	hosttest.Write(t, filepath.Join(l.play, "sys/class/fc_host/host1/port_name"), "")
	hosttest.Write(t, filepath.Join(l.play, "sys/class/scsi_host/host1/scan"), "")
	device := check.Value(os.Readlink(filepath.Join(l.play, "dev/sda")))(t)
	// The link leads to the real device, and its name is looked for in the directory that plays /dev.
	links := filepath.Join(l.play, "dev/disk/by-path")
	check.Fatal(t, errors.Join(os.MkdirAll(links, 0o755), os.Symlink(device, filepath.Join(links, "fc-0x500a0982991b8dc5-lun-2")), os.Symlink(device, filepath.Join(l.play, "dev", filepath.Base(device)))))
	deleted := filepath.Join(l.play, "sys/block", filepath.Base(device), "device/delete")
	hosttest.Write(t, deleted, "")
	fc := v1.FCVolumeSource{TargetWWNs: []string{"500a0982991b8dc5"}, Lun: new(int32(2))}
	inPod := l.mustMount(podOf("u1"), &v1.Volume{Name: "data", VolumeSource: v1.VolumeSource{FC: &fc}})
	hosttest.Write(t, filepath.Join(inPod, "file"), "kept")
	r := claimed(podOf("u2"), v1.PersistentVolumeSource{FC: &fc})
	r.ReadOnly = true
	path := check.Value(l.mountRequest(ctx(t), r))(t)
	check.Equal(t, path, filepath.Join(l.root, "kubelet/pods/u2/volumes/kubernetes.io~fc/pv-1"), "is at")
	check.Equal(t, string(check.Value(os.ReadFile(filepath.Join(path, "file")))(t)), "kept", "the second pod reads")
	global := filepath.Join(l.root, "kubelet/plugins/kubernetes.io/fc/500a0982991b8dc5-lun-2")
	if l.countMounts(global) != 1 {
		t.Errorf("mounts: %v", l.below())
	}
	// The second is one of a kubelet: without a note.
	check.Fatal(t, os.RemoveAll(filepath.Join(l.root, "kubelet/pods/u2/plugins")))
	for _, uid := range []types.UID{"u1", "u2"} {
		check.Equal(t, string(check.Value(os.ReadFile(deleted))(t)), "", "before %s has ended the disk was told", uid)
		check.Fatal(t, l.next().unmount(uid))
	}
	check.Equal(t, string(check.Value(os.ReadFile(deleted))(t)), "1", "the disk was told")
	hosttest.WantGone(t, global)
	l.clean()
}

// TestDamagedNotes: a file beside the pods is none, nor is an empty note. One that can't be read holds up its own pod
// alone, and of that not the other disks; with what is mounted it is written again.
func TestDamagedNotes(t *testing.T) {
	l := newDiskLab(t)
	l.warn = func(event string, fields ...any) { t.Errorf("warned: %s %v", event, fields) }
	hosttest.Write(t, filepath.Join(l.root, "kubelet/pods/stray"), "")
	hosttest.Write(t, filepath.Join(l.root, "kubelet/pods/u1/plugins/kubernetes.io~iscsi/stray"), "")
	l.mustMount(podOf("u1"), iscsiVolume())
	check.Fatal(t, l.unmount("u1"))
	l.clean()
	note := func(uid, volume string) string {
		return filepath.Join(l.root, "kubelet/pods", uid, "plugins/kubernetes.io~iscsi", volume, "disk")
	}
	damaged := note("u2", "other")
	hosttest.Write(t, damaged, "{")
	hosttest.Write(t, note("u3", "data"), "")
	hosttest.Write(t, note("u4", "data"), "\x00\x00\x00")
	for _, uid := range []types.UID{"u1", "u2"} {
		l.mustMount(podOf(uid), iscsiVolume())
	}
	check.Fatal(t, l.unmount("u1"))
	if !l.loggedIn() {
		t.Error("another pod has lost its disk")
	}
	check.Says(t, l.unmount("u2"), damaged, "its own pod")
	l.clean()
	for _, uid := range []types.UID{"u3", "u4"} {
		if err := errors.Join(l.unmount(uid), l.remove(port.PodDirs{UID: uid})); err != nil {
			t.Errorf("an empty note: %v", err)
		}
	}
	// A note is damaged while its pod has the disk: it stays for that, and goes with it.
	for _, uid := range []types.UID{"u5", "u6"} {
		l.mustMount(podOf(uid), iscsiVolume())
	}
	hosttest.Write(t, note("u5", "data"), "{")
	if err := l.unmount("u6"); err != nil || !l.loggedIn() {
		t.Errorf("the disk of a pod with a damaged note: a session %v, %v", l.loggedIn(), err)
	}
	check.Error(t, l.next().unmount("u5"))
	l.clean()
}

// TestISCSISessionOfOthers: one that was there before the pods stays, whichever pod ends last, and also for an agent that
// starts anew. iscsi.json says nothing of it.
func TestISCSISessionOfOthers(t *testing.T) {
	l := newDiskLab(t)
	login := exec.Command("iscsiadm", "-m", "node", "-p", testPortal, "-T", testIQN, "-I", "default", "--login")
	hosttest.Write(t, filepath.Join(l.play, "records/nodes", testIQN, "10.0.0.1,3260,1/default"), "node.startup = automatic\n")
	if out, err := login.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, uid := range []types.UID{"u1", "u2"} {
		l.mustMount(podOf(uid), iscsiVolume())
	}
	if b, err := os.ReadFile(filepath.Join(l.root, globalDir, "iscsi.json")); err == nil && strings.Contains(string(b), "ound") {
		t.Errorf("iscsi.json: %s", b)
	}
	for _, uid := range []types.UID{"u1", "u2"} {
		check.Fatal(t, l.next().unmount(uid))
	}
	if b, err := os.ReadFile(filepath.Join(l.play, "records/nodes", testIQN, "10.0.0.1,3260,1/default")); err != nil || string(b) != "node.startup = automatic\n" {
		t.Errorf("the record is %q, %v", b, err)
	}
	if !l.loggedIn() {
		t.Error("the session was ended")
	}
	check.None(t, l.below(), "still mounted")
}

// TestISCSIDiskInUse: a disk that is mounted elsewhere stays, which is said, and the pod ends.
func TestISCSIDiskInUse(t *testing.T) {
	l := newDiskLab(t)
	var warned []string
	l.warn = func(event string, fields ...any) { warned = append(warned, fmt.Sprint(event, fields)) }
	elsewhere := filepath.Join(l.root, "elsewhere")
	l.mustMount(podOf("u1"), iscsiVolume())
	check.Fatal(t, os.Mkdir(elsewhere, 0o755))
	hosttest.Run(t, "mount", filepath.Join(l.play, "dev/sda"), elsewhere)
	check.Fatal(t, l.unmount("u1"))
	if !l.loggedIn() || len(warned) != 1 || !strings.Contains(warned[0], testIQN) || !strings.Contains(warned[0], "sda") {
		t.Errorf("a session: %v; warned: %q", l.loggedIn(), warned)
	}
	hosttest.Run(t, "umount", elsewhere)
}

// TestDevicesBelowTheRealRoot: of links, only that of the root directory is followed to where devices are mounted.
func TestDevicesBelowTheRealRoot(t *testing.T) {
	root, elsewhere := t.TempDir(), t.TempDir()
	check.Fatal(t, errors.Join(os.Mkdir(filepath.Join(root, "real"), 0o755), os.Symlink("real", filepath.Join(root, "kubelet")), os.Symlink(elsewhere, filepath.Join(root, "real/pods"))))
	h := newLabAt(t, root)
	real := filepath.Join(root, "real/plugins/kubernetes.io")
	check.Equal(t, h.globalMount("pv-1"), real+"/local-volume/mounts/pv-1", "local devices are at")
	check.Equal(t, h.disks.root, real, "disks are below")
}
