package cgroup

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/opencontainers/cgroups"
	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

// TestJoinWhereItIs writes nothing.
func TestJoinWhereItIs(t *testing.T) {
	hosttest.NeedRoot(t)
	path := fmt.Sprintf("/troupe-stay-%d", os.Getpid())
	dir := filepath.Join(cgroupRoot, "memory", path)
	if cgroups.IsCgroup2UnifiedMode() {
		dir = filepath.Join(cgroupRoot, path)
	}
	c := exec.Command("sleep", "1000")
	check.Fatal(t, c.Start())
	t.Cleanup(func() {
		c.Process.Kill() //nolint:errcheck // it may have ended
		c.Wait()         //nolint:errcheck // it was killed
		removeAll(t, path)
	})
	hosttest.Need(t, "cgroups", Join(path, c.Process.Pid))
	notes := check.Value(unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC))(t)
	defer unix.Close(notes) //nolint:errcheck // nothing was written
	for _, d := range []string{dir, filepath.Dir(dir)} {
		check.Value(unix.InotifyAddWatch(notes, d, unix.IN_MODIFY))(t)
	}
	written := func() bool {
		n, err := unix.Read(notes, make([]byte, 4096))
		if err != nil && !errors.Is(err, unix.EAGAIN) {
			t.Fatal(err)
		}
		return n > 0
	}
	for range 2 {
		check.Fatal(t, Join(path, c.Process.Pid))
	}
	if written() {
		t.Error("a process that is there already was moved")
	}
	check.Fatal(t, cgroups.WriteCgroupProc(dir, c.Process.Pid))
	if !written() {
		t.Error("the test does not see writes")
	}
}

// removeAll removes a cgroup from all hierarchies.
func removeAll(t *testing.T, path string) {
	t.Helper()
	hierarchies, err := filepath.Glob(filepath.Join(cgroupRoot, "*", path))
	if err != nil {
		t.Error(err)
	}
	for _, dir := range append(hierarchies, filepath.Join(cgroupRoot, path)) {
		check.Error(t, cgroups.RemovePath(dir))
	}
}

func TestWithin(t *testing.T) {
	const path = "/system.slice/kubelet.service"
	for _, c := range []struct {
		name            string
		is, hierarchies map[string]string
		want            bool
	}{
		{"v2", map[string]string{"": path}, map[string]string{"": "dir"}, true},
		{"v2, elsewhere", map[string]string{"": "/"}, map[string]string{"": "dir"}, false},
		{"v2, below", map[string]string{"": path + "/x"}, map[string]string{"": "dir"}, false},
		{"v1, and v2 beside it", map[string]string{"": "/", "cpu": path, "memory": path},
			map[string]string{"cpu": "dir", "memory": "dir"}, true},
		{"v1, one elsewhere", map[string]string{"cpu": path, "memory": "/"},
			map[string]string{"cpu": "dir", "memory": "dir"}, false},
		{"v1, without the devices", map[string]string{"cpu": path, "devices": "/"},
			map[string]string{"cpu": "dir", "devices": "dir"}, true},
		{"v1, one missing", map[string]string{"cpu": path}, map[string]string{"cpu": "dir", "memory": "dir"}, false},
	} {
		check.Equal(t, within(c.is, path, c.hierarchies), c.want, "%s", c.name)
	}
}

func TestNested(t *testing.T) {
	own, err := os.ReadFile("/proc/self/status")
	if err != nil || Nested(own) {
		t.Errorf("here: nested, or %v", err)
	}
	for status, want := range map[string]bool{
		"Name:\ttroupe\nNSpid:\t4242\nNSpgid:\t4242\n":          false,
		"Name:\ttroupe\nNSpid:\t4242\t7\nNSpgid:\t4242\t7\n":    true,
		"Name:\ttroupe\nPid:\t4242\n(a kernel without NSpid)\n": false,
	} {
		check.Equal(t, Nested([]byte(status)), want, "%q", status)
	}
}

// TestNestedForReal is what a process in a PID namespace of its own reads in the /proc of its parent.
func TestNestedForReal(t *testing.T) {
	hosttest.NeedRoot(t)
	c := exec.Command("cat", "/proc/self/status")
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	status, err := c.Output()
	if err != nil || !Nested(status) {
		t.Errorf("not nested, or %v:\n%s", err, status)
	}
}

// TestJoinAll moves processes between cgroups of its own.
func TestJoinAll(t *testing.T) {
	hosttest.NeedRoot(t)
	top := fmt.Sprintf("/troupe-join-%d", os.Getpid())
	in := func(path string) []int {
		dir := filepath.Join(cgroupRoot, "memory", path)
		if cgroups.IsCgroup2UnifiedMode() {
			dir = filepath.Join(cgroupRoot, path)
		}
		pids := check.Value(cgroups.GetPids(dir))(t)
		slices.Sort(pids)
		return pids
	}
	var end []func()
	t.Cleanup(func() {
		for _, f := range end {
			f()
		}
		removeAll(t, top)
	})
	var want []int
	for range 3 {
		c := exec.Command("sleep", "1000")
		check.Fatal(t, c.Start())
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
		check.Fatal(t, JoinAll(top+"/from", top+"/to"))
	}
	if left, got := in(top+"/from"), in(top+"/to"); len(left) > 0 || !slices.Equal(got, want) {
		t.Errorf("%v stayed, %v moved, want %v", left, got, want)
	}
	check.Fails(t, JoinAll(top+"/none", top+"/to"), "there is nothing to move from")
	if !kernelThread(2) || kernelThread(os.Getpid()) {
		t.Error("kernel threads are not told apart")
	}
}
