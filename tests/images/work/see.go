package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// seen is what a container finds around it.
type seen struct {
	Args, Env, Limits    []string
	Dir, Hostname, First string // First: whether it is process 1
	Status               map[string]string
	Namespaces           map[string]string
	Mounts               map[string]string
	Files                map[string]string
	Settings             map[string]string
}

// statusLines are those of /proc/self/status that say what a process may do.
var statusLines = []string{
	"Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "Umask",
}

// settingFiles are single settings: of the process, of its cgroups in either version, and sysctls that a pod may ask for.
var settingFiles = []string{
	"/proc/self/oom_score_adj", "/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes",
	"/sys/fs/cgroup/memory/memory.swappiness", "/sys/fs/cgroup/cpu/cpu.shares", "/sys/fs/cgroup/cpu/cpu.cfs_quota_us",
	"/sys/fs/cgroup/cpu/cpu.cfs_period_us", "/sys/fs/cgroup/pids/pids.max", "/sys/fs/cgroup/cpuset/cpuset.cpus",
	"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.min", "/sys/fs/cgroup/memory.high", "/sys/fs/cgroup/memory.swap.max",
	"/sys/fs/cgroup/memory.oom.group", "/sys/fs/cgroup/cpu.max", "/sys/fs/cgroup/cpu.weight", "/sys/fs/cgroup/pids.max",
	"/proc/sys/kernel/shm_rmid_forced", "/proc/sys/net/ipv4/ip_local_port_range", "/proc/sys/net/ipv4/tcp_syncookies",
	"/proc/sys/net/ipv4/ping_group_range", "/proc/sys/net/ipv4/ip_unprivileged_port_start",
	"/proc/sys/net/ipv4/tcp_keepalive_time", "/proc/sys/kernel/hostname", "/proc/sys/kernel/domainname",
}

// see prints all of it as JSON, in one line.
func see() error {
	s := seen{
		Args: os.Args, Env: os.Environ(), First: fmt.Sprint(os.Getpid() == 1), Status: map[string]string{},
		Namespaces: map[string]string{}, Mounts: map[string]string{}, Files: map[string]string{}, Settings: map[string]string{},
	}
	slices.Sort(s.Env)
	s.Dir, _ = os.Getwd()
	s.Hostname, _ = os.Hostname()
	for line := range strings.Lines(text("/proc/self/status")) {
		name, value, _ := strings.Cut(line, ":")
		if slices.Contains(statusLines, name) {
			s.Status[name] = strings.Join(strings.Fields(value), " ")
		}
	}
	for line := range strings.Lines(text("/proc/self/limits")) {
		s.Limits = append(s.Limits, strings.Join(strings.Fields(line), " "))
	}
	for _, f := range settingFiles {
		s.Settings[f] = strings.TrimSpace(text(f))
	}
	for _, kind := range []string{"ipc", "mnt", "net", "pid", "user", "uts", "cgroup"} {
		s.Namespaces[kind], _ = os.Readlink("/proc/self/ns/" + kind)
	}
	s.mounts()
	for _, dir := range []string{"/dev", "/etc"} {
		entries, err := os.ReadDir(dir)
		for _, e := range entries {
			s.Files[filepath.Join(dir, e.Name())] = e.Type().String()
		}
		if err != nil {
			s.Files[dir] = err.Error()
		}
	}
	line, err := json.Marshal(s)
	if err == nil {
		fmt.Printf("SEE %s\n", line)
	}
	return err
}

// text is a file's, or why it can't be read.
func text(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return "error: " + err.Error()
	}
	return string(b)
}

// ofKernel are file systems whose files are the kernel's own.
var ofKernel = []string{"proc", "sysfs", "cgroup", "cgroup2", "devpts", "mqueue", "overlay", "securityfs", "debugfs", "tracefs", "bpf"}

// mounts reads the mount table, and the files of what is mounted.
func (s *seen) mounts() {
	for line := range strings.Lines(text("/proc/self/mountinfo")) {
		f := strings.Fields(line)
		end := slices.Index(f, "-")
		if end < 0 || len(f) < end+4 {
			continue
		}
		root, point, options, kind, super := f[3], f[4], f[5], f[end+1], f[end+3]
		for _, o := range f[6:end] {
			name, _, _ := strings.Cut(o, ":")
			options += " " + name
		}
		if kind == "tmpfs" {
			options += " " + super
		}
		if slices.Contains(ofKernel, kind) {
			s.Mounts[point] += strings.Join([]string{kind, options}, " ") + ";"
			continue
		}
		s.Mounts[point] += strings.Join([]string{kind, root, options}, " ") + ";"
		if point != "/" && !strings.HasPrefix(point, "/dev") && !strings.HasPrefix(point, "/sys/") && !strings.HasPrefix(point, "/proc/") {
			s.walk(point)
		}
	}
}

// mostFiles of one container are looked at.
const mostFiles = 400

func (s *seen) walk(dir string) {
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error { // what can't be read is told
		switch {
		case len(s.Files) > mostFiles:
			return fs.SkipAll
		case err != nil:
			s.Files[path] += " error: " + err.Error()
			return nil
		}
		s.Files[path] = described(path, e)
		return nil
	})
}

// mostText is the size of files that are shown as they are.
const mostText = 4096

func described(path string, e fs.DirEntry) string {
	info, err := e.Info()
	if err != nil {
		return "error: " + err.Error()
	}
	out := info.Mode().String()
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		out += fmt.Sprintf(" %d:%d", st.Uid, st.Gid)
	}
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		to, _ := os.Readlink(path)
		return out + " -> " + to
	case !info.Mode().IsRegular():
		return out
	}
	is := text(path)
	if len(is) > mostText {
		return fmt.Sprintf("%s %d bytes %.8x", out, len(is), sha256.Sum256([]byte(is)))
	}
	return out + " " + is
}

// answer answers one request of HTTP: /ok is well, everything else is not.
func answer(c net.Conn) {
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		return
	}
	status := "418 I'm a teapot"
	if strings.Contains(line, " /ok ") {
		status = "200 OK"
	}
	fmt.Fprintf(c, "HTTP/1.1 %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", status)
}
