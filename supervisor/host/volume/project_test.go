package volume

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/supervisor/host/volume/projectquota"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

// projectLab is a lab in which the file system has project quotas.
type projectLab struct {
	*lab
	kernel     hosttest.Projects
	files      projectquota.Files
	complaints []error
	sources    map[string]int
}

func newProjectLab(t *testing.T) *projectLab {
	t.Helper()
	l := &projectLab{lab: newLab(t), sources: map[string]int{}}
	l.files = projectquota.Files{Projects: filepath.Join(l.root, "projects"), Names: filepath.Join(l.root, "projid")}
	check.Fatal(t, l.use(l.Volumes))
	return l
}

func (l *projectLab) use(h *Volumes) error {
	h.measured = func(source string, _ time.Duration) { l.sources[source]++ }
	return h.UseProjectQuotas(&l.kernel, l.files, func(err error) { l.complaints = append(l.complaints, err) })
}

// takes says what the project of a directory takes beside the directory.
func (l *projectLab) takes(dir string, q projectquota.Quota) {
	l.t.Helper()
	l.kernel.Used = map[uint32]projectquota.Quota{l.attributes(dir).Project: q}
}

func (l *projectLab) attributes(dir string) projectquota.Attributes {
	l.t.Helper()
	f := check.Value(os.Open(dir))(l.t)
	defer f.Close() //nolint:errcheck // it was only read
	return check.Value(l.kernel.Attributes(f))(l.t)
}

func ownUsers(p *v1.Pod) { p.Spec.HostUsers = new(false) }

// An emptyDir of a pod with users of its own is asked of the file system, by the next agent too, and not walked.
func TestEmptyDirByProject(t *testing.T) {
	l := newProjectLab(t)
	scratch := emptyDir("scratch", v1.EmptyDirVolumeSource{})
	p := newPod(ownUsers, with(scratch))
	dir := l.mustMount(p, scratch)
	if a := l.attributes(dir); a.Project != projectquota.First || a.Flags != projectquota.Inherit {
		t.Fatalf("the volume has %+v", a)
	}
	hosttest.Write(t, filepath.Join(dir, "file"), strings.Repeat("x", 100_000))
	l.takes(dir, projectquota.Quota{Bytes: 7 << 20, Inodes: 9})
	next := newLabAt(t, l.root)
	check.Fatal(t, l.use(next))
	for _, h := range []*Volumes{l.Volumes, next} {
		l.sources = map[string]int{}
		found, err := h.EphemeralUse(ctx(t), []*v1.Pod{p}, false)
		if err != nil || found[0].Volumes[0].Bytes != 7<<20 || found[0].Volumes[0].Inodes != 10 || found[0].Other.Inodes == 0 {
			t.Errorf("%v %+v", err, found)
		}
		volumes, err := h.VolumeUse(ctx(t), []*v1.Pod{p}, false)
		if err != nil || *volumes[0][0].Disk.Used != 7<<20 || *volumes[0][0].Disk.InodesUsed != 10 || *volumes[0][0].Disk.Capacity == 0 {
			t.Errorf("%v %+v", err, volumes)
		}
		if l.sources[SourceQuota] != 2 || len(l.sources) != 1 {
			t.Errorf("measured by %v", l.sources)
		}
	}
	check.Fatal(t, l.unmount("u1"))
	if text, err := os.ReadFile(l.files.Projects); err != nil || len(text) > 0 {
		t.Errorf("after the pod: %q, %v", text, err)
	}
	check.None(t, l.complaints, "it")
}

// What can't be relied on is walked: the count is then that of the files.
func TestEmptyDirWalked(t *testing.T) {
	scratch := emptyDir("scratch", v1.EmptyDirVolumeSource{})
	for name, c := range map[string]struct {
		pod       []func(*v1.Pod)
		before    func(*projectLab)
		after     func(*projectLab, string)
		complains string
	}{
		"users of the node": {},
		"another project": {pod: []func(*v1.Pod){ownUsers}, after: func(l *projectLab, dir string) {
			f, err := os.Open(dir)
			if err == nil {
				err = errors.Join(l.kernel.SetAttributes(f, projectquota.Attributes{Project: 3, Flags: projectquota.Inherit}), f.Close())
			}
			if err != nil {
				t.Fatal(err)
			}
		}},
		"no project to be had": {
			pod: []func(*v1.Pod){ownUsers}, before: func(l *projectLab) { l.kernel.Fail = unix.EOPNOTSUPP }, complains: "not supported",
		},
		"no line": {pod: []func(*v1.Pod){ownUsers}, after: func(l *projectLab, _ string) {
			check.Fatal(t, os.Remove(l.files.Projects))
		}},
		"unreadable lines": {pod: []func(*v1.Pod){ownUsers}, after: func(l *projectLab, _ string) {
			check.Fatal(t, errors.Join(os.Remove(l.files.Projects), os.Mkdir(l.files.Projects, 0o700)))
		}, complains: "is a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newProjectLab(t)
			if c.before != nil {
				c.before(l)
			}
			p := newPod(append(c.pod, with(scratch))...)
			dir := l.mustMount(p, scratch)
			hosttest.Write(t, filepath.Join(dir, "file"), strings.Repeat("x", 100_000))
			if c.after != nil {
				c.after(l, dir)
			}
			found, err := l.EphemeralUse(ctx(t), []*v1.Pod{p}, false)
			if v := found[0].Volumes[0]; err != nil || v.Bytes < 100_000 || v.Bytes > 120_000 || v.Inodes != 2 {
				t.Errorf("%v %+v", err, v)
			}
			if l.sources[SourceWalk] != 1 || len(l.sources) != 1 {
				t.Errorf("measured by %v", l.sources)
			}
			if all := errors.Join(l.complaints...); (all != nil) != (c.complains != "") || all != nil && !strings.Contains(all.Error(), c.complains) {
				t.Errorf("complaints: %v, want %q", all, c.complains)
			}
		})
	}
}

// A volume in memory gets none, nor one that was there before quotas were used, for it may have files.
func TestNoProject(t *testing.T) {
	l := newLab(t)
	old := emptyDir("old", v1.EmptyDirVolumeSource{})
	p := newPod(ownUsers, with(old))
	dir := l.mustMount(p, old)
	hosttest.Write(t, filepath.Join(dir, "file"), "x")
	with := newProjectLab(t)
	with.lab, with.root = l, l.root
	check.Fatal(t, with.use(l.Volumes))
	if l.mustMount(p, old) != dir || with.attributes(dir).Project != 0 || with.complaints != nil {
		t.Errorf("%+v %v", with.attributes(dir), with.complaints)
	}
}

// Without quotas in the file system the error says so, and volumes are made and measured as ever.
func TestNoProjectQuotas(t *testing.T) {
	l := &projectLab{lab: newLab(t), sources: map[string]int{}}
	l.kernel.None = true
	if err := l.use(l.Volumes); !errors.Is(err, unix.ESRCH) {
		t.Error(err)
	}
	scratch := emptyDir("scratch", v1.EmptyDirVolumeSource{})
	p := newPod(ownUsers, with(scratch))
	l.mustMount(p, scratch)
	if found, err := l.EphemeralUse(ctx(t), []*v1.Pod{p}, false); err != nil || found[0].Volumes[0].Inodes != 1 || l.sources[SourceWalk] != 1 {
		t.Errorf("%v %+v %v", err, found, l.sources)
	}
}

// The lines have the path as it was configured, as the kubelet writes it, where the root directory is a link.
func TestProjectBelowLink(t *testing.T) {
	l := newProjectLab(t)
	link := filepath.Join(t.TempDir(), "kubelet")
	check.Fatal(t, os.Symlink(filepath.Join(l.root, "kubelet"), link))
	h := open(t, link, filepath.Join(l.root, "logs"))
	defer h.closeAll() //nolint:errcheck // nothing is written
	check.Fatal(t, l.use(h))
	l.Volumes = h
	scratch := emptyDir("scratch", v1.EmptyDirVolumeSource{})
	p := newPod(ownUsers, with(scratch))
	dir := l.mustMount(p, scratch)
	text, err := os.ReadFile(l.files.Projects)
	if want := "1048577:" + dir + "\n"; err != nil || string(text) != want || !strings.HasPrefix(dir, link) {
		t.Errorf("%v: %q, want %q", err, text, want)
	}
	if _, err := h.EphemeralUse(ctx(t), []*v1.Pod{p}, false); err != nil || l.sources[SourceQuota] != 1 || len(l.sources) != 1 {
		t.Errorf("%v, measured by %v", err, l.sources)
	}
}
