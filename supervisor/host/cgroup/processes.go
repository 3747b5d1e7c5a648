package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/opencontainers/cgroups"
	cgroupmanager "github.com/opencontainers/cgroups/manager"
)

// Own is the cgroup of this process: its path in the hierarchy of cgroup v2, or in that of the memory controller of v1.
func Own() (string, error) {
	controller := "memory"
	if cgroups.IsCgroup2UnifiedMode() {
		controller = V2
	}
	return In("/proc/self/cgroup", controller)
}

// V2 is the hierarchy of cgroup v2 for [In].
const V2 = ""

// In reads a list of the cgroups of a process (cgroups(7)): its path in the hierarchy of a controller, empty if the
// list does not have that.
func In(list, controller string) (string, error) {
	all, err := cgroups.ParseCgroupFile(list)
	if err != nil {
		return "", fmt.Errorf("find the cgroup of a process: %w", err)
	}
	return all[controller], nil
}

// Nested says whether /proc is that of another PID namespace than the one of this process, whose status
// (proc_pid_status(5)) is given: the host's, for a container with a namespace of its own. Then processes in cgroups
// have other numbers than in /proc.
func Nested(status []byte) bool {
	for line := range strings.Lines(string(status)) {
		if numbers, is := strings.CutPrefix(line, "NSpid:"); is {
			return len(strings.Fields(numbers)) > 1 // one for each namespace, from that of /proc to its own
		}
	}
	return false
}

// Join moves a process into a cgroup of each hierarchy, and makes the cgroup if there is none. path is that in the
// hierarchy; systemd is not told. For a process that is there already it writes nothing: with cgroup v2 it would give
// all controllers to each cgroup above, and systemd takes them away again.
func Join(path string, pid int) error {
	path = filepath.Clean("/" + path)
	m, err := cgroupmanager.New(&cgroups.Cgroup{Path: path, Resources: &cgroups.Resources{SkipDevices: true}})
	if err == nil {
		is, e := cgroups.ParseCgroupFile(fmt.Sprintf("/proc/%d/cgroup", pid))
		if e == nil && within(is, path, m.GetPaths()) {
			return nil
		}
		err = m.Apply(pid)
	}
	if err != nil {
		return fmt.Errorf("move process %d into cgroup %s: %w", pid, path, err)
	}
	return nil
}

// within says whether a process whose cgroups are in is, by controllers, is in that at path in all hierarchies.
func within(is map[string]string, path string, hierarchies map[string]string) bool {
	for controller := range hierarchies {
		// Without a rule for devices the library moves nothing in that hierarchy.
		if in, has := is[controller]; controller != "devices" && (!has || in != path) {
			return false
		}
	}
	return true
}

// moveRounds is how often the processes of a cgroup are listed to move them: what forks meanwhile is found by the next.
const moveRounds = 10

// JoinAll moves the processes that are in one cgroup, and not in one below it, into another. Process 1 and kernel
// threads stay. What forks all the time may leave some behind; the error then says so.
func JoinAll(from, to string) error {
	dir := filepath.Join(cgroupRoot, from)
	if !cgroups.IsCgroup2UnifiedMode() {
		dir = filepath.Join(cgroupRoot, "memory", from)
	}
	var failed error
	for range moveRounds {
		all, err := cgroups.GetPids(dir)
		if err != nil {
			return fmt.Errorf("list the processes in cgroup %s: %w", from, err)
		}
		failed = nil
		moved := 0
		for _, pid := range all {
			if pid == 1 || kernelThread(pid) {
				continue
			}
			moved++
			if err := Join(to, pid); err != nil && !errors.Is(err, syscall.ESRCH) {
				failed = err
			}
		}
		if moved == 0 {
			return nil
		}
	}
	if failed == nil {
		failed = fmt.Errorf("there are new processes in cgroup %s all the time", from)
	}
	return failed
}

// kernelThread says whether a process is one of the kernel: those run no file (proc_pid_exe(5)).
func kernelThread(pid int) bool {
	_, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "exe"))
	return errors.Is(err, fs.ErrNotExist)
}

const (
	// killRounds is how often what is left in a cgroup is killed: what forks
	// meanwhile is found by the next. killPause is the time between two.
	killRounds = 5
	killPause  = 20 * time.Millisecond
)

// EndAll kills all processes in some cgroups and below them, given by their directories, also frozen ones. It waits a
// moment for them to be gone.
func EndAll(ctx context.Context, dirs []string) error {
	for range killRounds {
		pids, err := inside(dirs)
		if err != nil {
			return fmt.Errorf("list the processes in the cgroup: %w", err)
		}
		if len(pids) == 0 {
			return nil
		}
		for _, pid := range pids {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("kill process %d, which still runs in the cgroup: %w", pid, err)
			}
		}
		if err := thaw(dirs); err != nil {
			return err
		}
		select {
		case <-time.After(killPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// thaw lets frozen processes go on, or to their end: with cgroup v1 a frozen process does not end when it is killed
// (kernel: cgroup-v1/freezer-subsystem). A runc that was killed while it changed a container leaves one behind (runc
// issue 2575).
func thaw(dirs []string) error {
	for _, top := range dirs {
		err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || d.Name() != "freezer.state" {
				return nil //nolint:nilerr // cgroups come and go
			}
			if err := os.WriteFile(path, []byte(cgroups.Thawed), 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("thaw the cgroup: %w", err)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Processes are those in a cgroup and in all below it, given by its directory; none if it is not there.
func Processes(dir string) []int {
	pids, _ := inside([]string{dir}) // it goes away at any time
	return pids
}

// inside are the processes in some cgroups and all below them. With v1 one may be
// in the cgroup of one controller alone.
func inside(dirs []string) ([]int, error) {
	found := map[int]bool{}
	for _, dir := range dirs {
		pids, err := cgroups.GetAllPids(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, pid := range pids {
			found[pid] = true
		}
	}
	return slices.Sorted(maps.Keys(found)), nil
}
