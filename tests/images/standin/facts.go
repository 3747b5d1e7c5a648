package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// facts are lines on what a container is given.
func facts() (out []string) {
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	groups, _ := os.Getgroups()
	dir, _ := os.Getwd()
	say("args %q", os.Args)
	say("id uid=%d gid=%d groups=%v dir=%s first=%t", os.Getuid(), os.Getgid(), groups, dir, os.Getpid() == 1)
	for _, line := range linesOf("/proc/self/status") {
		name, value, _ := strings.Cut(line, ":")
		if slices.Contains([]string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp"}, name) {
			say("status %s %s", name, strings.TrimSpace(value))
		}
	}
	for _, file := range []string{
		"/proc/self/oom_score_adj", "/proc/sys/net/ipv4/ip_unprivileged_port_start", "/etc/resolv.conf", "/etc/hosts",
		"/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/cpu/cpu.shares", "/sys/fs/cgroup/cpu/cpu.cfs_quota_us",
		"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/cpu.max", "/sys/fs/cgroup/cpu.weight",
	} {
		for _, line := range linesOf(file) {
			say("file %s: %s", file, line)
		}
	}
	env := os.Environ()
	slices.Sort(env)
	for _, v := range env {
		if !strings.HasPrefix(v, "STAND_IN") {
			say("env %s", strings.ReplaceAll(v, "\n", " "))
		}
	}
	looks := strings.Fields(os.Getenv("STAND_IN_LOOKS"))
	var at []string
	for _, l := range looks {
		_, path, _ := strings.Cut(l, ":")
		at = append(at, path)
	}
	for _, line := range linesOf("/proc/self/mountinfo") {
		if m := mount(line, at); m != "" {
			say("mount %s", m)
		}
	}
	for _, l := range looks {
		how, path, _ := strings.Cut(l, ":")
		out = append(out, look(path, how == "list")...)
	}
	return out
}

func linesOf(file string) []string {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

// mount is a line of mountinfo without what differs from run to run. It is empty for one that is not at one of these
// places, and not where a runtime or an agent puts files.
func mount(line string, at []string) string {
	before, after, _ := strings.Cut(line, " - ")
	fields, kind := strings.Fields(before), strings.Fields(after)
	if len(fields) < 6 || len(kind) < 3 {
		return line
	}
	point := fields[4]
	agents := []string{"/", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/dev/termination-log", "/dev/shm"}
	if !slices.Contains(at, point) && !slices.Contains(agents, point) && !strings.HasPrefix(point, "/var/run/secrets") &&
		!strings.HasPrefix(point, "/run/secrets") {
		return ""
	}
	how := "private"
	for _, f := range fields[6:] {
		name, _, _ := strings.Cut(f, ":")
		how = map[string]string{"shared": "shared", "master": "slave"}[name]
		if how == "shared" {
			break
		}
	}
	size := ""
	for o := range strings.SplitSeq(kind[2], ",") {
		if strings.HasPrefix(o, "size=") && kind[0] == "tmpfs" {
			size = " " + o
		}
	}
	return fmt.Sprintf("%s %s %s %s%s", point, kind[0], fields[5], how, size)
}

// look is what a directory is, and what is below it.
func look(path string, below bool) (out []string) {
	const most = 60
	err := filepath.WalkDir(path, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			out = append(out, fmt.Sprintf("at %s: %v", at, err))
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		line := fmt.Sprintf("at %s %v", at, info.Mode())
		if s, ok := info.Sys().(*syscall.Stat_t); ok {
			line += fmt.Sprintf(" %d:%d", s.Uid, s.Gid)
		}
		out = append(out, line+content(at, info))
		switch {
		case !below || len(out) > most:
			return fs.SkipAll
		case d.IsDir() && strings.HasPrefix(d.Name(), "..2"):
			return fs.SkipDir // the same files are behind the links
		}
		return nil
	})
	if err != nil {
		out = append(out, fmt.Sprintf("at %s: %v", path, err))
	}
	return out
}

// content is what a link leads to, or that of a small file.
func content(at string, info fs.FileInfo) string {
	if info.Mode()&fs.ModeSymlink != 0 {
		to, _ := os.Readlink(at)
		target, err := os.Stat(at)
		if err != nil {
			return " -> " + to + " " + err.Error()
		}
		text, _ := os.ReadFile(at)
		s := target.Sys().(*syscall.Stat_t)
		return fmt.Sprintf(" -> %s %v %d:%d %.200q", to, target.Mode(), s.Uid, s.Gid, text)
	}
	return ""
}
