package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/opencontainers/cgroups"
	cgroupmanager "github.com/opencontainers/cgroups/manager"
)

// Join moves a process into a cgroup of each hierarchy, and makes the cgroup if there is none. path is that in the
// hierarchy; systemd is not told.
func Join(path string, pid int) error {
	m, err := cgroupmanager.New(&cgroups.Cgroup{
		Path: filepath.Clean("/" + path), Resources: &cgroups.Resources{SkipDevices: true},
	})
	if err == nil {
		err = m.Apply(pid)
	}
	if err != nil {
		return fmt.Errorf("move process %d into cgroup %s: %w", pid, path, err)
	}
	return nil
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
