package projectquota_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/supervisor/host/volume/projectquota"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

// place is a root with directories in it, and the two files.
type place struct {
	t      *testing.T
	root   string
	kernel hosttest.Projects
	files  projectquota.Files
}

func newPlace(t *testing.T) *place {
	etc := t.TempDir()
	return &place{t: t, root: t.TempDir(), files: projectquota.Files{
		Projects: filepath.Join(etc, "projects"), Names: filepath.Join(etc, "projid"),
	}}
}

func (p *place) open(path string) *os.File {
	p.t.Helper()
	f := check.Value(os.Open(path))(p.t)
	p.t.Cleanup(func() { f.Close() }) //nolint:errcheck // it was only read
	return f
}

// agent is one that starts.
func (p *place) agent() *projectquota.Projects {
	p.t.Helper()
	return check.Value(projectquota.Open(p.open(p.root), p.root, &p.kernel, p.files))(p.t)
}

func (p *place) dir(name string) (*os.File, string) {
	p.t.Helper()
	path := filepath.Join(p.root, name)
	check.Fatal(p.t, os.MkdirAll(path, 0o755))
	return p.open(path), path
}

// say writes the files.
func (p *place) say(projects, names string) {
	p.t.Helper()
	hosttest.Write(p.t, p.files.Projects, strings.ReplaceAll(projects, "ROOT", p.root))
	hosttest.Write(p.t, p.files.Names, names)
}

func (p *place) want(projects, names string) {
	p.t.Helper()
	for file, want := range map[string]string{p.files.Projects: projects, p.files.Names: names} {
		got, err := os.ReadFile(file)
		if text := strings.ReplaceAll(string(got), p.root, "ROOT"); text != want || err != nil && want != "" {
			p.t.Errorf("%s has %q, %v; want %q", filepath.Base(file), text, err, want)
		}
	}
}

// use is what an agent says that a directory takes.
func (p *place) use(a *projectquota.Projects, name string) (projectquota.Quota, bool) {
	p.t.Helper()
	table := check.Value(a.Table())(p.t)
	return table.Use(p.dir(name))
}

func (p *place) project(name string) uint32 {
	p.t.Helper()
	dir, _ := p.dir(name)
	a := check.Value(p.kernel.Attributes(dir))(p.t)
	return a.Project
}

// A directory gets a project, the next agent knows it, and it is free when the directory goes.
func TestLife(t *testing.T) {
	p := newPlace(t)
	p.say("7:/home\n# a remark\n", "home:7\nother:1048577\n")
	a := p.agent()
	for _, name := range []string{"a/one", "a/two", "b/one"} {
		check.Fatal(t, a.Assign(p.dir(name)))
	}
	p.want("7:/home\n# a remark\n1048578:ROOT/a/one\n1048579:ROOT/a/two\n1048580:ROOT/b/one\n",
		"home:7\nother:1048577\nvolume1048578:1048578\nvolume1048579:1048579\nvolume1048580:1048580\n")
	p.kernel.Used = map[uint32]projectquota.Quota{p.project("a/two"): {Bytes: 4096, Inodes: 3}}
	a = p.agent()
	if q, ok := p.use(a, "a/two"); !ok || q.Bytes != 4096 || q.Inodes != 4 {
		t.Errorf("%+v %v", q, ok)
	}
	if err := a.Assign(p.dir("a/two")); err != nil || p.project("a/two") != 1048579 {
		t.Errorf("again: %v, project %d", err, p.project("a/two"))
	}
	check.Fatal(t, a.Release(filepath.Join(p.root, "a")))
	p.want("7:/home\n# a remark\n1048580:ROOT/b/one\n", "home:7\nother:1048577\nvolume1048580:1048580\n")
	if q, ok := p.use(a, "a/two"); ok {
		t.Errorf("after the release: %+v", q)
	}
	// The directories are still there, so others do not get their projects.
	if err := a.Assign(p.dir("c")); err != nil || p.project("c") != 1048581 {
		t.Errorf("%v, project %d", err, p.project("c"))
	}
	// This one was removed by hand.
	check.Fatal(t, os.RemoveAll(filepath.Join(p.root, "b")))
	p.agent()
	p.want("7:/home\n# a remark\n1048581:ROOT/c\n", "home:7\nother:1048577\nvolume1048581:1048581\n")
}

// What the kubelet has left is measured, and freed.
func TestChangeover(t *testing.T) {
	p := newPlace(t)
	dir, path := p.dir("a")
	check.Fatal(t, p.kernel.SetAttributes(dir, projectquota.Attributes{Project: 1048577, Flags: projectquota.Inherit}))
	p.say("1048577:ROOT/a\n1048578:ROOT/gone\n", "volume1048577:1048577\nvolume1048578:1048578\n")
	a := p.agent()
	if _, ok := p.use(a, "a"); !ok {
		t.Error("a directory of the kubelet is not measured")
	}
	p.want("1048577:ROOT/a\n", "volume1048577:1048577\n")
	check.Fatal(t, a.Release(path))
	p.want("", "")
}

// A directory whose project can't be relied on is not measured by it.
func TestNotRelied(t *testing.T) {
	for name, spoil := range map[string]func(*place, *os.File, projectquota.Attributes) error{
		"another project": func(p *place, dir *os.File, a projectquota.Attributes) error {
			a.Project = 5
			return p.kernel.SetAttributes(dir, a)
		},
		"no project": func(p *place, dir *os.File, _ projectquota.Attributes) error {
			return p.kernel.SetAttributes(dir, projectquota.Attributes{})
		},
		"not inherited": func(p *place, dir *os.File, a projectquota.Attributes) error {
			a.Flags = 0
			return p.kernel.SetAttributes(dir, a)
		},
		"no line": func(p *place, _ *os.File, _ projectquota.Attributes) error { return os.Remove(p.files.Projects) },
		"shared": func(p *place, _ *os.File, _ projectquota.Attributes) error {
			p.say("1048577:ROOT/a\n1048577:/else\n", "")
			return nil
		},
		"two lines": func(p *place, _ *os.File, _ projectquota.Attributes) error {
			p.say("1048577:ROOT/a\n1048578:ROOT/a\n", "")
			return nil
		},
		"no quotas any more": func(p *place, _ *os.File, _ projectquota.Attributes) error {
			p.kernel.None = true
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			a := p.agent()
			dir, path := p.dir("a")
			check.Fatal(t, a.Assign(dir, path))
			if _, ok := p.use(a, "a"); !ok {
				t.Fatal("it is not measured")
			}
			attributes, err := p.kernel.Attributes(dir)
			if err = errors.Join(err, spoil(p, dir, attributes)); err != nil {
				t.Fatal(err)
			}
			if q, ok := p.use(a, "a"); ok {
				t.Errorf("it is measured: %+v", q)
			}
		})
	}
}

// No project is given that would not have exactly what is in the directory.
func TestNotAssigned(t *testing.T) {
	t.Run("not empty", func(t *testing.T) {
		p := newPlace(t)
		hosttest.Write(t, filepath.Join(p.root, "a/file"), "x")
		check.Says(t, p.agent().Assign(p.dir("a")), "not empty", "the error")
		p.want("", "")
	})
	t.Run("of somebody else", func(t *testing.T) {
		p := newPlace(t)
		dir, path := p.dir("a")
		check.Fatal(t, p.kernel.SetAttributes(dir, projectquota.Attributes{Project: 9, Flags: projectquota.Inherit}))
		check.Says(t, p.agent().Assign(dir, path), "project 9", "the error")
		check.Equal(t, p.project("a"), 9, "it has project %d now", p.project("a"))
	})
	t.Run("refused", func(t *testing.T) {
		p := newPlace(t)
		p.kernel.Fail = unix.EPERM
		if err := p.agent().Assign(p.dir("a")); !errors.Is(err, unix.EPERM) {
			t.Error(err)
		}
		p.want("", "")
	})
	t.Run("interrupted before", func(t *testing.T) {
		p := newPlace(t)
		a := p.agent()
		p.say("1048590:ROOT/a\n", "volume1048590:1048590\n")
		check.Error(t, a.Assign(p.dir("a")))
		p.want("1048577:ROOT/a\n", "volume1048577:1048577\n")
	})
	t.Run("link", func(t *testing.T) {
		p := newPlace(t)
		precious := filepath.Join(t.TempDir(), "precious")
		hosttest.Write(t, precious, "")
		check.Fatal(t, os.Symlink(precious, p.files.Projects))
		if err := p.agent().Assign(p.dir("a")); !errors.Is(err, unix.ELOOP) {
			t.Error(err)
		}
	})
	t.Run("held", func(t *testing.T) {
		p := newPlace(t)
		a := p.agent()
		p.say("", "")
		check.Fatal(t, unix.Flock(int(p.open(p.files.Names).Fd()), unix.LOCK_EX))
		check.Says(t, a.Assign(p.dir("a")), "another process", "the error")
	})
}

// A file system without quotas is told from one with.
func TestOpenWithoutQuotas(t *testing.T) {
	p := newPlace(t)
	p.kernel.None = true
	if _, err := projectquota.Open(p.open(p.root), p.root, &p.kernel, p.files); !errors.Is(err, unix.ESRCH) {
		t.Error(err)
	}
	// The real kernel's answer, whatever the file system is: an error, or what no project of ours can have.
	dir := p.open(p.root)
	if a, err := (projectquota.Linux{}).Attributes(dir); err == nil && a.Project != 0 {
		t.Errorf("a temporary directory has %+v", a)
	}
	if _, err := projectquota.Open(p.open("/proc"), "/proc", projectquota.Linux{}, p.files); err == nil {
		t.Error("/proc has project quotas")
	}
}
