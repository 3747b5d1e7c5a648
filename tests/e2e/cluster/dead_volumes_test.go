package cluster

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/csidriver"
	"github.com/troupe-dev/troupe/tests/e2e/deadfs"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

// silentServer is an address that takes connections where a client of NFS asks for the ports of a server, and answers
// nothing. The mount program asks before the kernel is involved.
func silentServer(t *testing.T) (address string, asked <-chan struct{}) {
	t.Helper()
	address = "127.77.0.9" // nobody else's
	l := check.Value(net.Listen("tcp", address+":111"))(t)
	ended := make(chan struct{})
	t.Cleanup(func() {
		l.Close()
		<-ended
	})
	calls := make(chan struct{}, 1)
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close() // all of them in the end
			select {
			case calls <- struct{}{}:
			default:
			}
		}
	}()
	udp := check.Value(net.ListenPacket("udp", address+":111"))(t)
	t.Cleanup(func() { udp.Close() })
	return address, calls
}

// dead are volumes of pods that hang, all at once: one of an NFS server and some of a CSI driver that do not answer any more,
// and those of a file system that is mounted and has died.
type dead struct {
	*bed
	disks  *disks
	share  string
	files  *deadfs.Server
	asked  <-chan struct{}
	silent string
}

// uses mounts a claim or a directory at /data.
func uses(source v1.VolumeSource) func(*v1.PodSpec) {
	return changes(work("sleep"), func(s *v1.PodSpec) {
		s.Volumes = []v1.Volume{volume("data", source)}
		s.Containers[0].VolumeMounts = []v1.VolumeMount{mounted("data")}
	})
}

func claimSource(name string) v1.VolumeSource {
	return v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name}}
}

func (d *dead) onFiles() v1.VolumeSource {
	return v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: d.share, Type: new(v1.HostPathDirectory)}}
}

// pods are by what hangs for them: the call of troupe tree.
var deadPods = map[string]string{
	"nfs": "MountVolume", "files-begins": "MountVolume",
	"staged": "NodeStageVolume", "published": "NodePublishVolume", "leaves": "NodeUnpublishVolume",
}

// die has all that hang.
func (d *dead) die(t *testing.T) {
	t.Helper()
	point := t.TempDir()
	d.files = check.Value(deadfs.Mount(point))(t)
	// Whatever happens, nobody may hang when the directory is removed and pods are taken away, and the driver must answer.
	t.Cleanup(func() { check.Error(t, errors.Join(d.files.Close(), d.disks.End(context.Background(), "*"))) })
	d.share = filepath.Join(point, deadfs.Share)
	inline := v1.VolumeSource{CSI: &v1.CSIVolumeSource{Driver: d.disks.Name}}
	d.create(t, d.pod("files-runs", uses(d.onFiles())))
	d.create(t, d.pod("leaves", uses(inline)))
	for _, name := range []string{"files-runs", "leaves"} {
		d.awaitPod(t, name, "is ready", ready)
	}
	d.files.Die()
	check.Fatal(t, d.disks.Set(t.Context(), csidriver.Fault{Method: "*", Hang: true}))
	d.create(t, d.pod("files-begins", uses(d.onFiles())))
	d.create(t, d.pod("nfs", uses(claimSource("nfs"))))
	d.create(t, d.pod("staged", uses(claimSource("disk"))))
	d.create(t, d.pod("published", uses(inline)))
	d.remove(t, "leaves")
	for what, asked := range map[string]<-chan struct{}{"the file system": d.files.Asked(), "the NFS server": d.asked} {
		select {
		case <-asked:
		case <-time.After(patience):
			t.Fatal("nobody asked " + what)
		}
	}
	d.await(t, "calls of the driver hang", func() error {
		n := d.disks.Hanging(t.Context(), "*")
		return check.That(n >= 3, "%d do", n)
	})
}

// shown looks at what people are told while all hangs.
func (d *dead) shown(t *testing.T) {
	t.Helper()
	for name, want := range map[string]string{
		"nfs":          `MountVolume.SetUp failed for volume "` + d.name + `-nfs" : waiting: its file system does not answer`,
		"files-begins": `MountVolume.SetUp failed for volume "data" : waiting: its file system does not answer`,
		"staged":       `" : waiting: CSI driver ` + d.disks.Name + ` has not answered NodeStageVolume of volume `,
		"published":    `MountVolume.SetUp failed for volume "data" : waiting: CSI driver ` + d.disks.Name + ` has not answered NodePublishVolume of volume `,
		"leaves":       `UnmountVolume.TearDown has not ended: its volumes are being unmounted since `,
	} {
		d.await(t, "kubectl describe says what pod "+name+" waits for", func() error {
			s := d.do(t, nil, "describe", "pod", name)
			return check.That(strings.Contains(s.out, want), "it says %s%s, without %q", s.out, s.err, want)
		})
	}
	tree := check.Value(d.Command(t.Context(), "tree", "--root-dir", d.Root()))(t)
	for name, call := range deadPods {
		if !strings.Contains(tree, call) {
			t.Errorf("troupe tree does not show %s:\n%s", call, tree)
		}
		timeline := check.Value(d.Command(t.Context(), "timeline", d.name+"/"+name, "--root-dir", d.Root()))(t)
		if !strings.Contains(timeline, call) {
			t.Errorf("troupe timeline of %s does not show %s:\n%s", name, call, timeline)
		}
	}
}

// bury takes all of it away. A pod whose NFS server or file system has died can be deleted as any other.
func (d *dead) bury(t *testing.T) {
	t.Helper()
	for _, name := range []string{"nfs", "files-begins", "files-runs", "published"} {
		d.remove(t, name)
	}
	for _, name := range []string{"nfs", "files-begins", "files-runs"} {
		d.awaitGone(t, name)
	}
	check.Fatal(t, d.files.Close())
	check.Fatal(t, d.disks.End(t.Context(), "*"))
	d.awaitPod(t, "staged", "is ready once the driver answers", ready)
	d.remove(t, "staged")
	for _, name := range []string{"staged", "published", "leaves"} {
		d.awaitGone(t, name)
	}
}

// TestDeadVolumes: an NFS server and a CSI driver that do not answer any more, and a mounted file system that has died, all
// at once, do not delay other pods, and the node stays ready. People are told which pod waits for which volume.
//
//tier:all size: thirty pods twice
func TestDeadVolumes(t *testing.T) {
	t.Parallel()
	lab.Need(t, lab.MountNFS)
	hosttest.NeedFUSE(t)
	b := started(t, "dead-volumes")
	d := &dead{bed: b}
	d.disks = b.newDisks(t, func(c *csidriver.Config, s *storagev1.CSIDriverSpec) { c.NoAttach, s.AttachRequired = true, new(false) })
	d.disks.claim(t, "disk", v1.ReadWriteOnce)
	d.silent, d.asked = silentServer(t)
	b.claimed(t, "nfs", v1.PersistentVolumeSpec{
		PersistentVolumeSource: v1.PersistentVolumeSource{NFS: &v1.NFSVolumeSource{Server: d.silent, Path: "/"}},
		MountOptions:           []string{"vers=3", "nolock", "retry=1000"}, // minutes
	})
	since := condition(b.node(t), v1.NodeReady).LastTransitionTime
	others := changes(work("sleep"), func(s *v1.PodSpec) {
		s.Volumes = []v1.Volume{volume("data", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}})}
		s.Containers[0].VolumeMounts = []v1.VolumeMount{mounted("data")}
	})
	p := b.paced(t)
	many := lab.Size(8, 30)
	alone := p.round(t, "alone", many, others)
	d.die(t)
	p.round(t, "beside", many, others).unhindered(t, "dead volumes", alone)
	d.shown(t)
	d.bury(t)
	if now := condition(b.node(t), v1.NodeReady); now.Status != v1.ConditionTrue || !now.LastTransitionTime.Equal(&since) {
		t.Errorf("the node has not been ready all the time: %+v", now)
	}
}
