// Package openfiles finds what processes have open that was removed: no walk finds it, and it takes room until it is
// closed. It asks no file system that could have a server.
package openfiles

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/supervisor/host/kernel/mounts"
)

// Bounds of what it costs to look for the files of a pod that have no name: processes and open files that are looked
// at, and the time. What is beyond them is not found.
const (
	mostProcesses = 1000
	mostFiles     = 20_000
	patience      = 250 * time.Millisecond
)

// Removed is what processes have open that was removed, in bytes: of volumes below a directory by their name there, and
// of all overlays together, which are the writable layers of containers.
type Removed struct {
	Volumes map[string]uint64
	Layers  uint64
}

// inode is the identity of a file.
type inode struct{ device, number uint64 }

// Of looks through the open files of processes. A volume is in the directory volumes, of which only the end is given:
// it has other names where containers have it.
func Of(pids []int, volumes string) Removed {
	u := Removed{Volumes: map[string]uint64{}}
	seen, files := map[inode]bool{}, 0
	spaces := map[string]map[string]mounts.Mount{}
	begun := time.Now()
	for i, pid := range pids {
		dir := filepath.Join("/proc", strconv.Itoa(pid))
		open, err := os.ReadDir(filepath.Join(dir, "fd"))
		if err != nil {
			continue // it has ended
		}
		for _, fd := range open {
			if files++; files > mostFiles || i >= mostProcesses || time.Since(begun) > patience {
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
			_, within, inVolume := strings.Cut(filepath.Join(m.Root, strings.TrimPrefix(name, m.Point)), volumes)
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
				u.Volumes[volume] += bytes
			} else {
				u.Layers += bytes
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
