// Package resourceuse reads what pods use of this machine, from the kernel's files, at
// the moment of a request. Nothing runs between two requests, and
// nothing is asked of the runtime: of a pod, each file is read once.
package resourceuse

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/opencontainers/cgroups"
	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/actors/decide/usage"
)

// Meter reads the cgroups of a machine.
type Meter struct {
	v2 bool
	// root is where hierarchies are mounted, proc where processes are shown, sys where devices are.
	root, proc, sys string
}

// sysfs is where the kernel shows the machine's devices (sysfs(5)).
const sysfs = "/sys"

// New looks what cgroups this machine has.
func New() *Meter {
	return &Meter{v2: cgroups.IsCgroup2UnifiedMode(), root: "/sys/fs/cgroup", proc: "/proc", sys: sysfs}
}

// Cgroup reads the cgroup at path. The result is empty if there is no such cgroup.
func (m *Meter) Cgroup(path string, depth usage.Depth) usage.Cgroup {
	names := usage.FilesV1(depth)
	if m.v2 {
		names = usage.FilesV2(depth)
	}
	files := make(usage.Files, len(names))
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	for _, name := range names {
		if text, ok := read(m.file(path, name), *buffer); ok {
			files[name] = text
		}
	}
	var c usage.Cgroup
	if m.v2 {
		c = usage.V2(files, time.Now())
	} else {
		c = usage.V1(files, time.Now())
	}
	for i := range c.IO {
		c.IO[i].Name = device(m.sys, c.IO[i].Major, c.IO[i].Minor)
	}
	return c
}

// device is the file of a block device; empty if there is none of these numbers, as for a file system without a device.
func device(sys string, major, minor uint64) string {
	link, err := os.Readlink(filepath.Join(sys, "dev/block", fmt.Sprintf("%d:%d", major, minor)))
	if err != nil {
		return ""
	}
	return "/dev/" + filepath.Base(link)
}

// Dir is the directory of a cgroup; of v1, that of its memory.
func (m *Meter) Dir(path string) string {
	if m.v2 {
		return filepath.Join(m.root, path)
	}
	return filepath.Join(m.root, "memory", path)
}

// file is where a file of a cgroup is. Of v1, the name begins with its hierarchy.
func (m *Meter) file(path, name string) string {
	if m.v2 {
		return m.root + path + "/" + name
	}
	hierarchy, file, _ := strings.Cut(name, "/")
	return m.root + "/" + hierarchy + path + "/" + file
}

// buffers are for reading: a scrape of a hundred pods reads thousands of files.
var buffers = sync.Pool{New: func() any { return new(make([]byte, fileLimit)) }}

// fileLimit bounds what is read of a file.
const fileLimit = 64 << 10

// read is os.ReadFile for files that the kernel makes up as they are read: without
// its question for the size, and without the poller, which takes them for pipes.
func read(path string, buffer []byte) (string, bool) {
	fd, err := retried(func() (int, error) { return unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return "", false
	}
	defer unix.Close(fd) //nolint:errcheck // it was only read
	n := 0
	for n < len(buffer) {
		more, err := retried(func() (int, error) { return unix.Read(fd, buffer[n:]) })
		if err != nil {
			return "", false
		}
		if n += more; more < os.Getpagesize() {
			break // the kernel fills a page before it gives less
		}
	}
	return string(buffer[:n]), true
}

// retried continues after a signal.
func retried(call func() (int, error)) (n int, err error) {
	for {
		if n, err = call(); err != unix.EINTR { //nolint:errorlint // an Errno, as it is
			return n, err
		}
	}
}

// Pod fills in what a pod whose cgroup is known uses, and its containers and its
// network. A container that is not there any more is left as it is.
func (m *Meter) Pod(p *usage.Pod, depth usage.Depth) {
	if p.ID == "" {
		return
	}
	p.Cgroup = m.Cgroup(p.ID, depth)
	below := m.below(p.ID)
	for i := range p.Containers {
		c := &p.Containers[i]
		at := slices.IndexFunc(below, func(dir string) bool { return runtimeID(dir) == c.RuntimeID })
		if at < 0 {
			continue
		}
		c.ID = filepath.Join(p.ID, below[at])
		c.Cgroup = m.Cgroup(c.ID, depth)
		below = slices.Delete(below, at, at+1)
	}
	if depth != usage.All {
		return
	}
	// What is left is of containers that are just being made or removed, and of the
	// sandbox. No metric needs the usage of that; the network of the pod has its name.
	for _, dir := range below {
		if id := runtimeID(dir); id != "" && p.Sandbox.RuntimeID == "" && m.anyone(filepath.Join(p.ID, dir)) != "" {
			p.Sandbox.RuntimeID, p.Sandbox.ID = id, filepath.Join(p.ID, dir)
		}
	}
}

// linkLimit bounds how many descriptors of a container are looked at one by one.
const linkLimit = 10_000

// Open counts what the containers of a pod have open.
func (m *Meter) Open(p *usage.Pod) {
	for i := range p.Containers {
		if c := &p.Containers[i]; c.ID != "" {
			c.Open = m.open(m.processes(c.ID), linkLimit)
		}
	}
}

// open counts what processes have open, and looks at so many links one by one. The links in /proc/PID/fd are read and
// not followed: a file may be on a volume that hangs.
func (m *Meter) open(pids []string, links int) *usage.Open {
	var out usage.Open
	first := 0
	for _, pid := range pids {
		dir := filepath.Join(m.proc, pid, "fd")
		f, err := os.Open(dir)
		if err != nil {
			continue // it has just ended
		}
		for {
			names, err := f.Readdirnames(1000)
			out.Descriptors += uint64(len(names))
			for _, name := range names[:min(len(names), links)] {
				links--
				if what, err := os.Readlink(filepath.Join(dir, name)); err == nil && strings.HasPrefix(what, "socket") {
					out.Sockets++
				}
			}
			if err != nil {
				break
			}
		}
		f.Close() //nolint:errcheck // it was only read
		if n, err := strconv.Atoi(pid); err == nil && (first == 0 || n < first) {
			first = n
		}
	}
	if first > 0 { // most often what the container began with
		text, _ := os.ReadFile(filepath.Join(m.proc, strconv.Itoa(first), "limits")) //nolint:errcheck // then it is not known
		out.Limit = usage.OpenLimit(string(text))
	}
	return &out
}

// IO is what was done on a block device; nil if that can't be told.
func (m *Meter) IO(device string) *usage.DeviceIO {
	text, err := os.ReadFile(filepath.Join(m.proc, "diskstats"))
	if err != nil {
		return nil
	}
	return usage.IOOf(string(text), device)
}

// Network reads the interfaces of a pod that has a network of its own.
func (m *Meter) Network(p *usage.Pod) {
	if p.ID == "" {
		return
	}
	for _, dir := range m.below(p.ID) {
		pid := m.anyone(filepath.Join(p.ID, dir))
		if pid == "" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(m.proc, pid, "net/dev"))
		if err != nil {
			continue // it has just ended
		}
		p.Network, p.NetworkAt = usage.Interfaces(string(text)), time.Now()
		return
	}
}

// below are the names of the cgroups in one, in which containers are.
func (m *Meter) below(path string) []string {
	entries, err := os.ReadDir(m.Dir(path))
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() {
			out = append(out, e.Name())
		}
	}
	return out
}

// anyone is the ID of a process in a cgroup; empty if there is none.
func (m *Meter) anyone(path string) string {
	if pids := m.processes(path); len(pids) > 0 {
		return pids[0]
	}
	return ""
}

// processes are the IDs of those in a cgroup.
func (m *Meter) processes(path string) []string {
	text, err := os.ReadFile(filepath.Join(m.Dir(path), "cgroup.procs"))
	if err != nil {
		return nil
	}
	return strings.Fields(string(text))
}

// runtimeID is the container whose cgroup has this name: its ID, or with systemd
// PREFIX-ID.scope; empty if it is none's.
func runtimeID(dir string) string {
	dir = strings.TrimSuffix(dir, ".scope")
	dir = dir[strings.LastIndexByte(dir, '-')+1:]
	for i := range len(dir) {
		if c := dir[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return ""
		}
	}
	return dir
}
