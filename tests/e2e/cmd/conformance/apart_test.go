package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/troupe-dev/troupe/supervisor/host/kernel/mounts"
	"github.com/troupe-dev/troupe/tests/check"
)

// A cgroup of its own has what the hierarchy has, before this process moves there.
//
//tier:unit
func TestJoinGroup(t *testing.T) {
	for kind, c := range map[string]struct{ has, want map[string]string }{
		"cgroup": {
			map[string]string{"cpuset.cpus": "0-1\n", "cpuset.mems": "0\n"},
			map[string]string{"run/cpuset.cpus": "0-1\n", "run/cpuset.mems": "0\n", "run/cgroup.procs": "0"},
		},
		"cgroup2": {
			map[string]string{"cgroup.controllers": "pids\n", "cgroup.subtree_control": ""},
			map[string]string{"cgroup.subtree_control": "+pids", "run/cgroup.procs": "0"},
		},
	} {
		root := t.TempDir()
		for file, text := range c.has {
			check.Fatal(t, os.WriteFile(filepath.Join(root, file), []byte(text), 0o644))
		}
		check.Fatal(t, os.Mkdir(filepath.Join(root, "run"), 0o755))
		for file := range c.want { // the kernel makes those of a cgroup
			check.Fatal(t, os.WriteFile(filepath.Join(root, file), nil, 0o644))
		}
		check.Fatal(t, joinGroup(mounts.Mount{Point: root, Type: kind}, "/run"))
		for file, want := range c.want {
			check.Equal(t, string(check.Value(os.ReadFile(filepath.Join(root, file)))(t)), want, "%s of %s", file, kind)
		}
	}
}
