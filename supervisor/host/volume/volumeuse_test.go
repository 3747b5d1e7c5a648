package volume

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/usage"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/hosttest"
	"github.com/troupe-dev/troupe/tests/podtest"
)

// with gives a pod volumes.
func with(volumes ...*v1.Volume) func(*v1.Pod) {
	return func(p *v1.Pod) {
		for _, v := range volumes {
			p.Spec.Volumes = append(p.Spec.Volumes, *v)
		}
		podtest.UseVolumes(&p.Spec)
	}
}

func names(all []usage.Volume) string {
	var out []string
	for i := range all {
		out = append(out, all[i].Name)
	}
	return strings.Join(out, " ")
}

func TestVolumeUse(t *testing.T) {
	hosttest.NeedRoot(t)
	l := newLab(t)
	scratch, memory := emptyDir("scratch", v1.EmptyDirVolumeSource{}), emptyDir("memory", v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory})
	claim := claimed(newPod(), local(t.TempDir()))
	p := newPod(with(scratch, hostPath("/etc", v1.HostPathUnset), memory, claim.Volume))
	claim.Pod = p
	hosttest.Write(t, filepath.Join(l.mustMount(p, scratch), "file"), strings.Repeat("x", 100_000))
	hosttest.Write(t, filepath.Join(l.mustMount(p, memory), "file"), strings.Repeat("x", 50_000))
	check.Value(l.mountRequest(ctx(t), claim))(t)
	other := newPod(func(p *v1.Pod) { p.UID = "u2" }, with(emptyDir("not-yet", v1.EmptyDirVolumeSource{})))
	found, err := l.VolumeUse(ctx(t), []*v1.Pod{p, other}, false)
	if err != nil || len(found) != 2 || names(found[0]) != "scratch memory data" {
		t.Fatalf("%v %+v", err, found)
	}
	for i, want := range []struct {
		local         bool
		claim, plugin string
		from, most    uint64
	}{
		{true, "", "kubernetes.io/empty-dir", 100_000, 120_000}, {false, "", "kubernetes.io/empty-dir", 50_000, 60_000},
		{false, "data", "kubernetes.io/local-volume", 1, 1 << 60},
	} {
		v := found[0][i]
		if v.Local != want.local || v.Claim != want.claim || v.Plugin != want.plugin || *v.Disk.Used < want.from || *v.Disk.Used > want.most || *v.Disk.Capacity < *v.Disk.Used {
			t.Errorf("%s: local %v, claim %q, of %s, %d of %d bytes", v.Name, v.Local, v.Claim, v.Plugin, *v.Disk.Used, *v.Disk.Capacity)
		}
	}
	check.Count(t, *found[0][0].Disk.InodesUsed, 2, "%d files in the emptyDir, with itself")
	if found, err = l.VolumeUse(ctx(t), []*v1.Pod{p}, true); err != nil || names(found[0]) != "data" {
		t.Errorf("of claims: %v %+v", err, found)
	}
	check.Fatal(t, l.unmount("u1"))
	if found, err = l.VolumeUse(ctx(t), []*v1.Pod{p}, true); err != nil || len(found[0]) != 0 {
		t.Errorf("of a pod that is no more: %v %+v", err, found)
	}
}

// csiUse is a CSI driver that says as much of each volume as is given.
type csiUse usage.Volume

func (u csiUse) Use(_, volume string) (usage.Volume, bool) {
	u.Name = volume
	return usage.Volume(u), u.Disk.Used != nil
}

// A volume of a CSI driver names it, whether the driver says how full the volume is or its file system does.
func TestUseNamesTheDriver(t *testing.T) {
	for _, used := range []*uint64{nil, new(uint64(7))} {
		l := newLab(t)
		l.UseCSI(csiUse{Plugin: usage.CSIPlugin("d"), Disk: usage.Disk{Used: used}})
		p := newPod(with(claimed(newPod(), v1.PersistentVolumeSource{}).Volume))
		l.NoteClaim("u1", "data", t.TempDir())
		found := check.Value(l.VolumeUse(ctx(t), []*v1.Pod{p}, true))(t)
		check.Equal(t, names(found[0]), "data", "volumes")
		check.Equal(t, found[0][0].Plugin, "kubernetes.io/csi:d", "the plugin")
	}
}

// One volume whose server is dead is left out, and keeps nobody from the others.
func TestUseOfAHungVolume(t *testing.T) {
	l := newLab(t)
	point := t.TempDir()
	s := newDeadServer(t, point)
	hung := claimed(newPod(), v1.PersistentVolumeSource{HostPath: &v1.HostPathVolumeSource{Path: filepath.Join(point, "x")}})
	good := claimed(newPod(), v1.PersistentVolumeSource{HostPath: &v1.HostPathVolumeSource{Path: t.TempDir()}})
	good.Volume.Name = "good"
	p := newPod(with(hung.Volume, good.Volume))
	for _, r := range []port.MountVolume{hung, good} {
		check.Value(l.mountRequest(ctx(t), r))(t)
	}
	for _, want := range []string{"deadline exceeded", "hangs in the kernel"} {
		found, err := l.VolumeUse(ctx(t), []*v1.Pod{p}, true)
		if err == nil || !strings.Contains(err.Error(), want) || names(found[0]) != "good" {
			t.Errorf("%v %+v, want %s", err, found, want)
		}
	}
	s.end()
	l.idle(filepath.Join(point, "x"))
}

// Volumes whose servers do not answer take the time of one. Of what was measured before, that is told.
func TestUseOfManyHungVolumes(t *testing.T) {
	l := newLab(t)
	point := t.TempDir()
	const volumes = "a b c d"
	p := newPod()
	var all []*v1.Volume
	for _, name := range strings.Fields(volumes) {
		dir := filepath.Join(point, name)
		check.Fatal(t, os.Mkdir(dir, 0o755))
		r := claimed(p, v1.PersistentVolumeSource{HostPath: &v1.HostPathVolumeSource{Path: dir}})
		r.Volume.Name = name
		all = append(all, r.Volume)
		check.Value(l.mountRequest(ctx(t), r))(t)
	}
	with(all...)(p)
	before := check.Value(l.VolumeUse(ctx(t), []*v1.Pod{p}, true))(t)
	s := newDeadServer(t, point)
	began := time.Now()
	found, err := l.VolumeUse(ctx(t), []*v1.Pod{p}, true)
	if took := time.Since(began); took >= 3*roomPatience {
		t.Errorf("it took %v", took)
	}
	check.Says(t, err, "deadline exceeded", "servers that do not answer")
	check.Equal(t, names(found[0]), volumes, "volumes")
	for i := range found[0] {
		check.Equal(t, found[0][i].Disk.At, before[0][i].Disk.At, "when %s was measured", found[0][i].Name)
	}
	s.end()
	for _, name := range strings.Fields(volumes) {
		l.idle(filepath.Join(point, name))
	}
}

// What is measured of a volume that goes meanwhile is not kept: nobody would remove it.
func TestUseOfAVolumeThatGoes(t *testing.T) {
	h := &Volumes{measured: func(string, time.Duration) {}}
	measure := func() {
		s := system{uid: "u1", of: &usage.Volume{Name: "v"}, room: room{Block: 1, Blocks: 2}}
		check.Equal(t, s.settle(h), true, "it was measured")
	}
	h.last.SetPlace("u1", "v", "/there")
	measure()
	if _, is := h.last.Size("u1", "v"); !is {
		t.Error("what was measured of a volume that is there is not kept")
	}
	h.last.Forget("u1")
	measure()
	if d, is := h.last.Size("u1", "v"); is {
		t.Errorf("of a volume that is gone it is kept: %+v", d)
	}
}
