package selinux

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	library "github.com/opencontainers/selinux/go-selinux"

	"github.com/troupe-dev/troupe/supervisor/host/kernel/mounts"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

func TestHost(t *testing.T) {
	policy := func(on bool, file string) Policy {
		return Policy{Enabled: func() bool { return on }, File: func() string { return file }}
	}
	const label = "system_u:object_r:container_file_t:s0:c1,c2"
	if h, err := policy(false, label).Host(true); h != nil || err != nil {
		t.Errorf("without SELinux: %+v, %v", h, err)
	}
	if h, err := policy(true, label).Host(true); err != nil || h.File != label || !h.AllModes {
		t.Errorf("with it: %+v, %v", h, err)
	}
	if h, err := policy(true, "").Host(false); h == nil || err == nil || !strings.Contains(err.Error(), "lxc_contexts") {
		t.Errorf("with a policy that has no containers: %+v, %v", h, err)
	}
}

// TestLabelPlugins: the directories are made and labelled, one that can't be does not keep the others from it.
func TestLabelPlugins(t *testing.T) {
	dir := t.TempDir()
	var labelled []string
	p := Policy{Enabled: func() bool { return true }, Set: func(path, label string) error {
		if filepath.Base(path) == "bad" {
			return errors.New("read-only")
		}
		labelled = append(labelled, filepath.Base(path)+" "+label)
		return nil
	}}
	failed := p.LabelPlugins(filepath.Join(dir, "bad"), filepath.Join(dir, "plugins"))
	check.Same(t, labelled, []string{"plugins system_u:object_r:container_file_t:s0"}, "labels")
	check.Equal(t, len(failed), 1, "failures")
	check.Says(t, failed[0], filepath.Join(dir, "bad")+": read-only", "the error")
	check.Error(t, check.Err(os.Stat(filepath.Join(dir, "plugins"))))
	p.Enabled = func() bool { return false }
	check.None(t, p.LabelPlugins(filepath.Join(dir, "other")), "failures without SELinux")
	check.Equal(t, os.IsNotExist(check.Err(os.Stat(filepath.Join(dir, "other")))), true, "without SELinux nothing is made")
}

// TestMachine: on a machine without SELinux nothing is asked of a policy.
func TestMachine(t *testing.T) {
	if library.GetEnabled() {
		hosttest.Need(t, "a machine without SELinux", errors.New("this one has it"))
	}
	if h, err := Machine().Host(false); h != nil || err != nil {
		t.Errorf("%+v, %v", h, err)
	}
}

func TestLabels(t *testing.T) {
	dir := t.TempDir()
	root := filepath.Join(dir, "link")
	check.Fatal(t, os.Symlink(dir, root))
	all := []mounts.Mount{
		{Point: "/", Options: "rw,seclabel"}, {Point: filepath.Join(dir, "one"), Options: `rw,context="u:r:t:s0:c1,c2"`},
		{Point: filepath.Join(dir, "nfs"), Options: "rw,vers=4"},
	}
	f := FilesBelow(root+"/", func() ([]mounts.Mount, error) { return all, nil })
	for path, want := range map[string]bool{
		"one": false, "one/below": false, "nfs": false, "dir": true, "oneself": true,
	} {
		if f.Labels(filepath.Join(root, path)) != want || f.Labels(filepath.Join(dir, path)) != want {
			t.Errorf("%s: want %v", path, want)
		}
	}
	if all = nil; f.Labels(filepath.Join(root, "dir")) {
		t.Error("labels of what nothing is known of")
	}
	f.Mounts = func() ([]mounts.Mount, error) { return nil, errors.New("no") }
	if !f.Labels("/x") {
		t.Error("without a table the runtime has to find out")
	}
}
