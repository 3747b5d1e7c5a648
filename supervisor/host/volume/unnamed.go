package volume

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/supervisor/host/kernel/mounts"
)

// Bounds of what it costs to look for the files of a pod that have no name: processes and open files that are looked
// at, and the time. What is beyond them is not found.
const (
	unnamedProcesses = 1000
	unnamedFiles     = 20_000
	unnamedPatience  = 250 * time.Millisecond
)

// UseProcesses sets who tells the processes of a pod, by their numbers in /proc. Without it, files that were removed
// while a process has them open are not found.
func (h *Volumes) UseProcesses(of func(*v1.Pod) []int) { h.processes = of }

// unnamed is what a pod's processes have open that was removed: no walk finds it, and it takes room until it is closed.
// volumes are bytes of emptyDirs by name, layers those of the writable layers of its containers together.
type unnamed struct {
	volumes map[string]uint64
	layers  uint64
}

// unnamedOf looks through the open files of a pod's processes. It asks no file system that could have a server.
func (h *Volumes) unnamedOf(p *v1.Pod) unnamed {
	u := unnamed{volumes: map[string]uint64{}}
	if h.processes == nil {
		return u
	}
	at := "/" + string(p.UID) + "/" + volumesDir + "/" + emptyDirName + "/"
	seen, files := map[inode]bool{}, 0
	spaces := map[string]map[string]mounts.Mount{}
	begun := time.Now()
	for i, pid := range h.processes(p) {
		dir := filepath.Join("/proc", strconv.Itoa(pid))
		open, err := os.ReadDir(filepath.Join(dir, "fd"))
		if err != nil {
			continue // it has ended
		}
		for _, fd := range open {
			if files++; files > unnamedFiles || i >= unnamedProcesses || time.Since(begun) > unnamedPatience {
				return u
			}
			file := filepath.Join(dir, "fd", fd.Name())
			link, err := os.Readlink(file)
			name, removed := strings.CutSuffix(link, " (deleted)")
			if err != nil || !removed {
				continue
			}
			m, is := mountOf(dir, fd.Name(), spaces)
			if !is {
				continue
			}
			_, within, inVolume := strings.Cut(filepath.Join(m.Root, strings.TrimPrefix(name, m.Point)), at)
			var stat unix.Stat_t
			if !inVolume && m.Type != "overlay" || unix.Stat(file, &stat) != nil || stat.Nlink > 0 {
				continue
			}
			if id := (inode{stat.Dev, stat.Ino}); seen[id] { //nolint:unconvert // of another size elsewhere
				continue
			} else {
				seen[id] = true
			}
			const block = 512 // of st_blocks
			if bytes := uint64(stat.Blocks) * block; inVolume {
				volume, _, _ := strings.Cut(within, "/")
				u.volumes[volume] += bytes
			} else {
				u.layers += bytes
			}
		}
	}
	return u
}

// mountOf is the mount that an open file of a process is on. spaces are the mounts of each mount namespace so far, by
// number.
func mountOf(dir, fd string, spaces map[string]map[string]mounts.Mount) (mounts.Mount, bool) {
	info, err := os.ReadFile(filepath.Join(dir, "fdinfo", fd))
	if err != nil {
		return mounts.Mount{}, false
	}
	id := ""
	for line := range strings.Lines(string(info)) {
		if n, is := strings.CutPrefix(line, "mnt_id:"); is {
			id = strings.TrimSpace(n)
		}
	}
	space, err := os.Readlink(filepath.Join(dir, "ns/mnt"))
	if err != nil {
		return mounts.Mount{}, false
	}
	all := spaces[space]
	if all == nil {
		all = map[string]mounts.Mount{}
		spaces[space] = all
		table, err := mounts.In(dir)
		if err != nil {
			return mounts.Mount{}, false
		}
		for _, m := range table {
			all[strconv.Itoa(m.ID)] = m
		}
	}
	m, is := all[id]
	return m, is
}
