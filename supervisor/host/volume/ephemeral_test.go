package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/supervisor/host/child"
	"github.com/troupe-dev/troupe/supervisor/host/child/filecount"
	"github.com/troupe-dev/troupe/supervisor/host/child/served"
	"github.com/troupe-dev/troupe/supervisor/host/volume/internal/diskuse"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

func TestEphemeralUse(t *testing.T) {
	hosttest.NeedRoot(t)
	l := newLab(t)
	scratch, memory := emptyDir("scratch", v1.EmptyDirVolumeSource{}),
		emptyDir("memory", v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory})
	claim := claimed(newPod(), local(t.TempDir()))
	p := newPod(with(scratch, hostPath("/etc", v1.HostPathUnset), memory, claim.Volume))
	dir := l.mustMount(p, scratch)
	// What has the name of a directory that is skipped above it counts, and a second name does not.
	hosttest.Write(t, filepath.Join(dir, volumesDir, "file"), strings.Repeat("x", 100_000))
	check.Fatal(t, os.Link(filepath.Join(dir, volumesDir, "file"), filepath.Join(dir, "again")))
	hosttest.Write(t, filepath.Join(l.mustMount(p, memory), "file"), strings.Repeat("x", 50_000))
	other := newPod(func(p *v1.Pod) { p.UID = "u2" }, with(emptyDir("not-yet", v1.EmptyDirVolumeSource{})))
	found, err := l.EphemeralUse(ctx(t), []*v1.Pod{p, other}, false)
	if err != nil || len(found) != 2 || len(found[0].Volumes) != 1 || found[0].UID != p.UID {
		t.Fatalf("%v %+v", err, found)
	}
	v := found[0].Volumes[0]
	if v.Name != "scratch" || v.Bytes < 100_000 || v.Bytes > 120_000 || v.Inodes != 3 {
		t.Errorf("the volume: %+v", v)
	}
	if o := found[0].Other; o.Inodes == 0 || o.Bytes >= 100_000 {
		t.Errorf("the rest: %+v", o)
	}
	if len(found[1].Volumes) != 1 || found[1].Volumes[0].Bytes+found[1].Other.Inodes != 0 {
		t.Errorf("a pod without a directory: %+v", found[1])
	}
	check.Fatal(t, l.unmount("u1"))
}

// One directory that can't be measured keeps nobody from the others, and is measured alone.
func TestEphemeralUseBesideAFailure(t *testing.T) {
	hosttest.NeedRoot(t)
	l := newLab(t)
	scratch := emptyDir("scratch", v1.EmptyDirVolumeSource{})
	p := newPod(with(scratch))
	hosttest.Write(t, filepath.Join(l.mustMount(p, scratch), "file"), strings.Repeat("x", 100_000))
	// A path that is too long for a request stands for one that makes a child fail.
	bad := filecount.Tree{Path: "/" + strings.Repeat("x", served.Limit)}
	for range 2 {
		trees := append([]diskuse.Tree{{Tree: bad, Pod: "u2"}}, l.treesOf(p)...)
		found, err := l.counts.Of(ctx(t), trees, true)
		if err == nil || found[l.onDisk(p, &p.Spec.Volumes[0])].Bytes < 100_000 || !found[bad.Path].Partial {
			t.Errorf("%v, %d directories", err, len(found))
		}
	}
}

// A directory with many files does not evade its limit: what was counted of it is a lower bound, and it is counted to
// its end by a child of its own. No other directory waits for that.
func TestManyFiles(t *testing.T) {
	hosttest.NeedRoot(t)
	root := t.TempDir()
	l := &lab{t: t, root: root, Volumes: newLabAt(t, root, func(c *Config) {
		c.Counting = diskuse.Effort{
			Slice: 1, Budget: time.Minute, Patience: time.Minute, Alone: []time.Duration{time.Minute}, Grace: time.Minute,
			Wait: time.Minute,
		}
	})}
	scratch := emptyDir("scratch", v1.EmptyDirVolumeSource{})
	many, few := newPod(with(scratch)), newPod(func(p *v1.Pod) { p.UID = "u2" }, with(scratch))
	dir := l.mustMount(many, scratch)
	for i := range 300 {
		hosttest.Write(t, filepath.Join(dir, fmt.Sprint(i)), "")
	}
	hosttest.Write(t, filepath.Join(dir, "below/file"), strings.Repeat("x", 1<<20))
	hosttest.Write(t, filepath.Join(l.mustMount(few, scratch), "file"), strings.Repeat("x", 100_000))
	pods := []*v1.Pod{many, few}
	found, err := l.EphemeralUse(ctx(t), pods, true)
	if v := found[0].Volumes[0]; err != nil || !v.Partial || v.Inodes < 2 || v.Inodes > 100 || !found[0].Partial() {
		t.Errorf("the first: %v %+v", err, found[0])
	}
	if v := found[1].Volumes[0]; v.Bytes < 100_000 || v.Partial || found[1].Partial() {
		t.Errorf("the other: %+v", found[1])
	}
	if found, err = l.EphemeralUse(ctx(t), pods, false); err != nil || found[0].Partial() || found[0].Volumes[0].Inodes != 303 ||
		found[0].Volumes[0].Bytes < 1<<20 {
		t.Errorf("later: %v %+v", err, found[0])
	}
	if found, err = l.EphemeralUse(ctx(t), pods, true); err != nil || found[0].Age <= 0 || found[0].Partial() {
		t.Errorf("from memory: %v %+v", err, found[0])
	}
}

// What a child has counted before it was killed is not lost.
func TestAChildFailsWhileItCounts(t *testing.T) {
	l := newLab(t)
	l.children.Command = func(string) *exec.Cmd {
		return exec.Command("/bin/sh", "-c", `read ask; echo '{"Walked":true,"Bytes":7}'; kill -9 $$`)
	}
	r := filecount.Request{Trees: []filecount.Tree{{Path: "/a"}, {Path: "/b"}}}
	if got, err := l.countInChild(ctx(t), r); err == nil || len(got) != 1 || got[0].Bytes != 7 {
		t.Errorf("%v %+v", err, got)
	}
	r.Trees = r.Trees[:1]
	if got, err := l.countInChild(ctx(t), r); err != nil || len(got) != 1 {
		t.Errorf("%v %+v", err, got)
	}
}

// A child that hangs keeps only its directory from being counted: the first of several may not be to blame.
func TestAChildHangsWhileItCounts(t *testing.T) {
	l := newLab(t)
	point := t.TempDir()
	s := newDeadServer(t, point)
	ended, cancel := context.WithCancel(ctx(t))
	r := filecount.Request{Home: filepath.Join(point, "x"), Trees: []filecount.Tree{{Path: "/a"}}}
	first := make(chan error, 1)
	go func() { first <- check.Err(l.countInChild(ended, r)) }()
	<-s.asked
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
	r.Home = ""
	check.Says(t, check.Err(l.countInChild(ctx(t), r)), "hangs in the kernel", "alone")
	r.Trees = []filecount.Tree{{Path: "/a"}, {Path: "/b"}}
	if got, err := l.countInChild(ctx(t), r); len(got) != len(r.Trees) {
		t.Errorf("with another: %+v, %v", got, err)
	}
	s.end()
	l.idle(point)
}

// A child that counts does so before most packages of the program are initialized, which takes longer than to count.
func TestACountingChildSkipsInitialization(t *testing.T) {
	started := func(arg string) string {
		cmd := child.Command(arg)
		var said strings.Builder
		cmd.Env, cmd.Stderr = append(cmd.Env, "GODEBUG=inittrace=1"), &said
		var ended *exec.ExitError
		if err := cmd.Run(); !errors.As(err, &ended) || ended.ExitCode() != served.NoAsk {
			t.Errorf("%s without a request: %v", arg, err)
		}
		return said.String()
	}
	const heavy = "init k8s.io/"
	if text := started(filecount.Arg); !strings.Contains(text, "init os ") || strings.Contains(text, heavy) {
		t.Errorf("it initialized:\n%s", text)
	}
	check.Has(t, started(childArg), heavy, "another child does not initialize those packages either")
}

// BenchmarkEphemeralUse measures 250 pods with 20 files each.
func BenchmarkEphemeralUse(b *testing.B) {
	root := b.TempDir()
	h := open(b, root, filepath.Join(root, "logs"))
	defer h.closeAll() //nolint:errcheck // nothing is written
	pods := make([]*v1.Pod, 250)
	for i := range pods {
		p := &v1.Pod{Spec: v1.PodSpec{Volumes: []v1.Volume{*emptyDir("scratch", v1.EmptyDirVolumeSource{})}}}
		p.UID = types.UID(fmt.Sprintf("pod-%d", i))
		dir := h.onDisk(p, &p.Spec.Volumes[0])
		check.Fatal(b, os.MkdirAll(dir, 0o755))
		for f := range 20 {
			check.Fatal(b, os.WriteFile(filepath.Join(dir, fmt.Sprint(f)), []byte("x"), 0o600))
		}
		pods[i] = p
	}
	for b.Loop() {
		check.Value(h.EphemeralUse(b.Context(), pods, false))(b)
	}
}
