package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
)

// Usage is the CPU time that the runtime has used so far, that of children it has waited for
// (runc, CNI plugins) included.
type Usage struct {
	Containerd time.Duration
	Shims      time.Duration // of the shims that live now
	ShimCount  int
	RSS        int64 // bytes, containerd and shims together
}

// Total is what containerd and its shims used.
func (u Usage) Total() time.Duration { return u.Containerd + u.Shims }

// Usage reads the CPU time of containerd and its shims from /proc. What a shim used is lost from
// it when the shim ends.
func (l *Lab) Usage() (Usage, error) {
	var u Usage
	pid := l.PID()
	if pid == 0 {
		return u, errors.New("containerd does not run")
	}
	cpu, rss, err := processUsage(pid)
	if err != nil {
		return u, fmt.Errorf("read containerd's usage: %w", err)
	}
	u.Containerd, u.RSS = cpu, rss
	shims, err := l.shims()
	if err != nil {
		return u, err
	}
	for _, pid := range shims {
		cpu, rss, err := processUsage(pid)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // ended meanwhile
		}
		if err != nil {
			return u, fmt.Errorf("read a shim's usage: %w", err)
		}
		u.Shims += cpu
		u.RSS += rss
		u.ShimCount++
	}
	return u, nil
}

// processUsage reads utime, stime, cutime, cstime and rss of proc_pid_stat(5).
func processUsage(pid int) (cpu time.Duration, rss int64, err error) {
	defer check.Return(&err)
	text := check.Must(os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)))
	_, after, ok := bytes.Cut(text, []byte(") ")) // the command's name may hold spaces
	fields := strings.Fields(string(after))
	const first = 3 // number of the field after the name
	if !ok || len(fields) < 24-first+1 {
		return 0, 0, fmt.Errorf("/proc/%d/stat: %q", pid, text)
	}
	var ticks int64
	for _, field := range []int{14, 15, 16, 17} {
		n := check.Must(strconv.ParseInt(fields[field-first], 10, 64))
		ticks += n
	}
	pages, err := strconv.ParseInt(fields[24-first], 10, 64)
	const tick = time.Second / 100 // USER_HZ, the same on every Linux that Go knows
	return time.Duration(ticks) * tick, pages * int64(os.Getpagesize()), err
}

// processes calls each for every process with its command line.
func processes(each func(pid int, args []string)) error {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil || len(text) == 0 {
			continue // gone, a zombie or a kernel thread
		}
		each(pid, strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00"))
	}
	return nil
}

// shims are the processes that serve this lab's containerd: those told its socket as -address.
func (l *Lab) shims() ([]int, error) {
	var pids []int
	err := processes(func(pid int, args []string) {
		at := slices.Index(args, "-address")
		if at > 0 && at+1 < len(args) && args[at+1] == l.SocketPath() &&
			strings.HasPrefix(filepath.Base(args[0]), "containerd-shim") {
			pids = append(pids, pid)
		}
	})
	return pids, err
}

// killStray ends a containerd that an earlier process left behind in our directory.
func (l *Lab) killStray(ctx context.Context) error {
	var stray []int
	err := processes(func(pid int, args []string) {
		if filepath.Base(args[0]) == "containerd" && slices.Contains(args, l.configPath()) {
			stray = append(stray, pid)
		}
	})
	if err != nil {
		return err
	}
	return kill(ctx, stray)
}

// kill sends SIGKILL and waits until the processes are gone or zombies.
func kill(ctx context.Context, pids []int) error {
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("kill process %d: %w", pid, err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	for _, pid := range pids {
		err := poll(ctx, func() (bool, error) { return !alive(pid), nil })
		if err != nil {
			return fmt.Errorf("kill process %d: it is there still: %w", pid, err)
		}
	}
	return nil
}

func alive(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, after, _ := bytes.Cut(text, []byte(") "))
	return !bytes.HasPrefix(after, []byte("Z"))
}

// containerProcesses are the processes in a cgroup whose last element is one of the IDs, which
// for runc is a container's.
func containerProcesses(ids []string) ([]int, error) {
	known := make(map[string]bool, len(ids))
	for _, id := range ids {
		known[id] = true
	}
	var pids []int
	err := processes(func(pid int, _ []string) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
		if err != nil {
			return
		}
		for line := range strings.Lines(string(text)) {
			if known[filepath.Base(strings.TrimSpace(line))] {
				pids = append(pids, pid)
				return
			}
		}
	})
	return pids, err
}
