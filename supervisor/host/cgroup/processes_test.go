package cgroup

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/opencontainers/cgroups"

	"github.com/troupe-dev/troupe/tests/hosttest"
)

// TestJoinAll moves processes between cgroups of its own.
func TestJoinAll(t *testing.T) {
	hosttest.NeedRoot(t)
	top := fmt.Sprintf("/troupe-join-%d", os.Getpid())
	in := func(path string) []int {
		dir := filepath.Join(cgroupRoot, "memory", path)
		if cgroups.IsCgroup2UnifiedMode() {
			dir = filepath.Join(cgroupRoot, path)
		}
		pids, err := cgroups.GetPids(dir)
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(pids)
		return pids
	}
	var end []func()
	t.Cleanup(func() {
		for _, f := range end {
			f()
		}
		hierarchies, err := filepath.Glob(filepath.Join(cgroupRoot, "*", top))
		if err != nil {
			t.Error(err)
		}
		for _, dir := range append(hierarchies, filepath.Join(cgroupRoot, top)) {
			if err := cgroups.RemovePath(dir); err != nil {
				t.Error(err)
			}
		}
	})
	var want []int
	for range 3 {
		c := exec.Command("sleep", "1000")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		end = append(end, func() {
			c.Process.Kill() //nolint:errcheck // it may have ended
			c.Wait()         //nolint:errcheck // it was killed
		})
		want = append(want, c.Process.Pid)
		hosttest.Need(t, "cgroups", Join(top+"/from", c.Process.Pid))
	}
	slices.Sort(want)
	if got := in(top + "/from"); !slices.Equal(got, want) {
		t.Fatalf("%v joined, want %v", got, want)
	}
	for range 2 {
		if err := JoinAll(top+"/from", top+"/to"); err != nil {
			t.Fatal(err)
		}
	}
	if left, got := in(top+"/from"), in(top+"/to"); len(left) > 0 || !slices.Equal(got, want) {
		t.Errorf("%v stayed, %v moved, want %v", left, got, want)
	}
	if err := JoinAll(top+"/none", top+"/to"); err == nil {
		t.Error("there is nothing to move from")
	}
	if !kernelThread(2) || kernelThread(os.Getpid()) {
		t.Error("kernel threads are not told apart")
	}
}
