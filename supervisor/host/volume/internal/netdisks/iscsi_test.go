package netdisks

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/troupe-dev/troupe/actors/decide/blockdevice"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/internal/hostcall"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/mounts"
	"github.com/troupe-dev/troupe/supervisor/host/volume/blockmap"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const iqn = "iqn.2003-01.org.example:disk"

// play is a directory that plays a machine with open-iscsi: testdata/bin/iscsiadm.
type play struct {
	Machine
	t   *testing.T
	dir string
}

func newPlay(t *testing.T) *play {
	t.Helper()
	bin := check.Value(filepath.Abs("testdata/bin"))(t)
	dir := t.TempDir()
	t.Setenv("PLAY", dir)
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	p := &play{t: t, dir: dir, Machine: Machine{
		Sys: filepath.Join(dir, "sys"), Dev: filepath.Join(dir, "dev"), Records: []string{filepath.Join(dir, "none"), filepath.Join(dir, "records")},
	}}
	p.write("targets", iqn+"\n")
	return p
}

func (p *play) write(name, content string) {
	p.t.Helper()
	check.Fatal(p.t, os.MkdirAll(filepath.Dir(filepath.Join(p.dir, name)), 0o755))
	check.Fatal(p.t, os.WriteFile(filepath.Join(p.dir, name), []byte(content), 0o600))
}

// calls are the calls of iscsiadm since the last time.
func (p *play) calls() []string {
	b, err := os.ReadFile(filepath.Join(p.dir, "calls"))
	if err != nil && !os.IsNotExist(err) {
		p.t.Fatal(err)
	}
	os.Remove(filepath.Join(p.dir, "calls")) //nolint:errcheck // it may not be there
	var out []string
	for line := range strings.Lines(string(b)) {
		out = append(out, strings.TrimSpace(line))
	}
	return out
}

func (p *play) attach(d *blockdevice.ISCSI, chap blockdevice.CHAP) string {
	p.t.Helper()
	return check.Value(p.AttachISCSI(p.t.Context(), d, chap))(p.t)
}

// wantInvalid fails unless err says the texts, and that a retry does not help.
func wantInvalid(t *testing.T, err error, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if err == nil || hostcall.KindOf(err) != port.InvalidConfig || !strings.Contains(err.Error(), text) {
			t.Errorf("error %v: want one of kind %s that says %q", err, port.InvalidConfig, text)
		}
	}
}

func disk(portals ...string) *blockdevice.ISCSI {
	return &blockdevice.ISCSI{VolName: "data", Portals: portals, IQN: iqn, LUN: "1", InitIface: "default", Iface: "default"}
}

func TestAttachAndDetach(t *testing.T) {
	p := newPlay(t)
	d := disk("10.0.0.1:3260")
	check.Equal(t, p.attach(d, blockdevice.CHAP{}), filepath.Join(p.Dev, "sda"), "device")
	const discovery, node = "-m discoverydb -t sendtargets -p 10.0.0.1:3260 -I default ", "-m node -p 10.0.0.1:3260 -T " + iqn + " -I default "
	want := []string{
		discovery + "-o new", discovery + "--discover", node + "-o update -n node.session.scan -v manual", node + "--login",
		node + "-o update -n node.startup -v manual",
	}
	if got := p.calls(); !slices.Equal(got, want) {
		t.Errorf("calls:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	p.attach(d, blockdevice.CHAP{})
	check.None(t, p.calls(), "it was attached again with")
	other := blockdevice.Used{ISCSI: disk("10.0.0.1:3260")}
	other.ISCSI.LUN = "2"
	check.Value(p.DetachISCSI(t.Context(), &blockdevice.Used{ISCSI: d}, []blockdevice.Used{other}))(t)
	check.None(t, p.calls(), "the session of another LUN was ended")
	if b, err := os.ReadFile(filepath.Join(p.Sys, "block/sda/device/delete")); err != nil || string(b) != "1" {
		t.Errorf("the disk was not removed: %q, %v", b, err)
	}
	for range 2 { // the second time there is nothing
		check.Value(p.DetachISCSI(t.Context(), &blockdevice.Used{ISCSI: d}, nil))(t)
		p.wantCalls(node+"--logout", node+"-o delete")
	}
	check.None(t, check.Value(p.Sessions())(t), "sessions")
}

// TestSecretsAreNoArguments: they are in the records, which only root reads.
func TestSecretsAreNoArguments(t *testing.T) {
	p := newPlay(t)
	chap := blockdevice.CHAP{
		Discovery: map[string]string{"discovery.sendtargets.auth.password": "hush-d"},
		Session:   map[string]string{"node.session.auth.authmethod": "CHAP", "node.session.auth.password": "hush-s"},
	}
	p.attach(disk("10.0.0.1:3260"), chap)
	if all := strings.Join(p.calls(), "\n"); strings.Contains(all, "hush") {
		t.Errorf("iscsiadm was called with a secret:\n%s", all)
	}
	for name, want := range map[string]string{
		"send_targets/10.0.0.1,3260/st_config":      "discovery.sendtargets.auth.password = hush-d\n",
		"nodes/" + iqn + "/10.0.0.1,3260,1/default": "node.session.auth.password = hush-s\n",
	} {
		file := filepath.Join(p.dir, "records", name)
		b, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(b), want) {
			t.Errorf("%s is %q, %v; want %q", name, b, err, want)
		}
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	p.Records = p.Records[:1]
	_, err := p.AttachISCSI(t.Context(), disk("10.0.0.2:3260"), chap)
	wantInvalid(t, err, "no record", p.Records[0])
	if strings.Contains(err.Error(), "hush") {
		t.Errorf("the error has a secret: %v", err)
	}
}

func TestOnePortalOfTwo(t *testing.T) {
	p := newPlay(t)
	p.write("refuse-10.0.0.1:3260", "")
	p.attach(disk("10.0.0.1:3260", "10.0.0.2:3260"), blockdevice.CHAP{})
	if left, err := filepath.Glob(filepath.Join(p.dir, "records/*/*10.0.0.1*")); err != nil || len(left) > 0 {
		t.Errorf("records of the portal that refused are left: %v %v", left, err)
	}
	_, err := p.AttachISCSI(t.Context(), disk("10.0.0.1:3260"), blockdevice.CHAP{})
	if err == nil || !strings.Contains(err.Error(), "portal 10.0.0.1:3260: iscsiadm discoverydb --discover failed (exit status 4): iscsiadm: cannot make connection to 10.0.0.1: Connection refused") {
		t.Errorf("error %v", err)
	}
}

// TestScan: a LUN that the session does not show is looked for, and found when the kernel has it.
func TestScan(t *testing.T) {
	p := newPlay(t)
	p.write("hidden", "")
	got := make(chan error, 1)
	go func() {
		_, err := p.AttachISCSI(t.Context(), disk("10.0.0.1:3260"), blockdevice.CHAP{})
		got <- err
	}()
	scan := filepath.Join(p.Sys, "class/scsi_host/host3/scan")
	check.Until(t, "the host is scanned", func() bool {
		b, err := os.ReadFile(scan)
		return err == nil && string(b) == "0 0 1"
	})
	check.Fatal(t,
		os.MkdirAll(filepath.Join(p.Sys, "class/iscsi_host/host3/device/session3/target3:0:0/3:0:0:1/block/sdq"), 0o755))
	check.Fatal(t, <-got)
}

func TestInitiatorName(t *testing.T) {
	p := newPlay(t)
	d := disk("10.0.0.1:3260")
	d.InitiatorName, d.Iface = "iqn.me", "10.0.0.1:3260:data"
	p.attach(d, blockdevice.CHAP{})
	const iface = "-m iface -I 10.0.0.1:3260:data "
	want := []string{
		"-m iface -I default -o show", iface + "-o new", iface + "-o update -n iface.initiatorname -v iqn.me",
		iface + "-o update -n iface.transport_name -v tcp",
	}
	if got := p.calls(); !slices.Equal(got[:4], want) {
		t.Errorf("calls %v, want %v", got, want)
	}
	check.Value(p.DetachISCSI(t.Context(), &blockdevice.Used{ISCSI: d}, nil))(t)
	if got := p.calls(); len(got) != 3 || got[2] != iface+"-o delete" {
		t.Errorf("calls %v", got)
	}
}

func TestWithoutTools(t *testing.T) {
	p := newPlay(t)
	t.Setenv("PATH", t.TempDir())
	began := time.Now()
	_, err := p.AttachISCSI(t.Context(), disk("10.0.0.1:3260", "10.0.0.2:3260"), blockdevice.CHAP{})
	wantInvalid(t, err, "iscsiadm is not installed on this node", "install open-iscsi")
	check.AtMost(t, time.Since(began), commandWait, "it was waited for")
}

// TestMultipath: the disk is used through the device that multipathd has made.
func TestMultipath(t *testing.T) {
	p := newPlay(t)
	p.write("sys/block/sda/holders/dm-1/x", "")
	p.write("sys/block/dm-1/dm/uuid", "LVM-abc\n")
	check.Equal(t, p.multipath("sda"), "", "a logical volume was taken for multipath")
	p.write("sys/block/sda/holders/dm-2/x", "")
	p.write("sys/block/dm-2/dm/uuid", "mpath-3600\n")
	check.Equal(t, p.attach(disk("10.0.0.1:3260"), blockdevice.CHAP{}), filepath.Join(p.Dev, "dm-2"), "device")
}

// mountedLoop makes a disk of the machine a loop device, which is mounted elsewhere until free is called.
func (p *play) mountedLoop(name string) (free func()) {
	p.t.Helper()
	hosttest.NeedRoot(p.t)
	loop, point := hosttest.NewLoop(p.t, 16<<20), p.t.TempDir()
	hosttest.Run(p.t, "mkfs.ext4", "-q", loop.Device)
	hosttest.Run(p.t, "mount", loop.Device, point)
	free = sync.OnceFunc(func() { hosttest.Run(p.t, "umount", point) })
	p.t.Cleanup(free)
	check.Fatal(p.t, errors.Join(os.MkdirAll(p.Dev, 0o755), os.Symlink(loop.Device, filepath.Join(p.Dev, name))))
	return free
}

// mappedLoop makes a disk of the machine a loop device, which is mapped into a pod until free is called. device is its
// name.
func (p *play) mappedLoop(name string) (device string, free func()) {
	p.t.Helper()
	hosttest.NeedRoot(p.t)
	loop, dir := hosttest.NewLoop(p.t, 16<<20), p.t.TempDir()
	m := blockmap.Map{File: filepath.Join(dir, "plugins/x/volumeDevices/pv-1/u1"), Link: filepath.Join(dir, "pods/u1/volumeDevices/x/pv-1")}
	check.Fatal(p.t, m.Set(loop.Device))
	free = sync.OnceFunc(func() {
		all, err := mounts.Now()
		check.Error(p.t, errors.Join(err, blockmap.Clear(all, m.File)))
	})
	p.t.Cleanup(free)
	check.Fatal(p.t, errors.Join(os.MkdirAll(p.Dev, 0o755), os.Symlink(loop.Device, filepath.Join(p.Dev, name))))
	return filepath.Base(loop.Device), free
}

// wantLeft compares the disks that the end of a use leaves attached.
func (p *play) wantLeft(want ...string) func(left []string, err error) {
	return func(left []string, err error) {
		p.t.Helper()
		if err != nil || !slices.Equal(left, want) {
			p.t.Errorf("left %v, %v; want %v", left, err, want)
		}
	}
}

// wantCalls compares the calls of iscsiadm since the last time.
func (p *play) wantCalls(want ...string) {
	p.t.Helper()
	check.Same(p.t, p.calls(), want, "calls")
}

// attached is a play with a disk that is attached.
func attached(t *testing.T) (*play, *blockdevice.ISCSI) {
	t.Helper()
	p, d := newPlay(t), disk("10.0.0.1:3260")
	p.attach(d, blockdevice.CHAP{})
	p.calls()
	return p, d
}

// wantDeleted fails unless the kernel was told to remove a disk, or was not.
func (p *play) wantDeleted(disk string, deleted bool) {
	p.t.Helper()
	b, err := os.ReadFile(filepath.Join(p.Sys, "block", disk, "device/delete"))
	if err != nil || (string(b) == "1") != deleted {
		p.t.Errorf("disk %s was told %q, %v; want it deleted: %v", disk, b, err, deleted)
	}
}

// TestDiskInUseStays: a disk that is mounted elsewhere stays, with its session and its record.
func TestDiskInUseStays(t *testing.T) {
	p, d := attached(t)
	free := p.mountedLoop("sda")
	p.wantLeft("sda")(p.DetachISCSI(t.Context(), &blockdevice.Used{ISCSI: d}, nil))
	p.wantCalls()
	p.wantDeleted("sda", false)
	free()
	p.wantLeft()(p.DetachISCSI(t.Context(), &blockdevice.Used{ISCSI: d}, nil))
	p.wantDeleted("sda", true)
	if got := p.calls(); len(got) != 2 {
		t.Errorf("calls %v", got)
	}
}

// TestMappedLUNKeepsTheSession: also a LUN that a pod has as a device, which is not open exclusively.
func TestMappedLUNKeepsTheSession(t *testing.T) {
	p, d := attached(t)
	_, free := p.mappedLoop("sda")
	p.wantLeft("sda")(p.DetachISCSI(t.Context(), &blockdevice.Used{ISCSI: d}, nil))
	p.wantDeleted("sda", false)
	p.wantCalls()
	free()
	p.wantLeft()(p.DetachISCSI(t.Context(), &blockdevice.Used{ISCSI: d}, nil))
	p.wantDeleted("sda", true)
}

// TestOtherLUNInUseKeepsTheSession: one that no volume has, and that is mounted.
func TestOtherLUNInUseKeepsTheSession(t *testing.T) {
	p, d := attached(t)
	p.write("sys/class/iscsi_host/host3/device/session3/target3:0:0/3:0:0:7/block/sdh/x", "")
	p.mountedLoop("sdh")
	p.wantLeft("sdh")(p.DetachISCSI(t.Context(), &blockdevice.Used{ISCSI: d}, nil))
	p.wantDeleted("sda", true)
	p.wantCalls()
}

// TestFoundSessionStays: the LUN goes, the session and its record do not.
func TestFoundSessionStays(t *testing.T) {
	p, d := attached(t)
	p.wantLeft()(p.DetachISCSI(t.Context(), &blockdevice.Used{ISCSI: d, Found: d.Portals}, nil))
	p.wantDeleted("sda", true)
	p.wantCalls()
}

// TestIPv6WrittenOtherwise: iscsiadm gets the address as the kernel shows it.
func TestIPv6WrittenOtherwise(t *testing.T) {
	p := newPlay(t)
	p.attach(disk("[FD00:0::0001]:3260"), blockdevice.CHAP{})
	check.Has(t, strings.Join(p.calls(), "\n"), "-p [fd00::1]:3260 -T "+iqn+" -I default --login", "calls")
}
