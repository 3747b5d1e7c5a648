// Package mounts tells what is mounted on this machine.
package mounts

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"
)

// Mount is one line of /proc/self/mountinfo (proc_pid_mountinfo(5)).
type Mount struct {
	// ID is the number of the mount in its namespace (mnt_id in fdinfo of an open file).
	ID int
	// Point is where, Type the file system (tmpfs, nfs4), Source what.
	Point, Type, Source string
	// Device is the file system (st_dev, as major:minor), Root the directory or file of it that is mounted. A bind mount
	// has both of what it shows.
	Device, Root string
	// Shared: what is mounted below it is seen in other mount namespaces that have it, and the other way round
	// (mount_namespaces(7)).
	Shared bool
	// Options are those of the file system, as the kernel writes them. One may have a comma in quotes.
	Options string
}

// Local reports whether the file system needs no server.
func (m Mount) Local() bool { return localTypes[m.Type] }

func (m Mount) String() string { return fmt.Sprintf("%s (%s from %s)", m.Point, m.Type, m.Source) }

// mountInfo tells what is mounted, in order of mounting. The kernel asks no file
// server for it: reading it cannot hang on a dead one.
const mountInfo = "/proc/self/mountinfo"

// parse reads the text of a file mountinfo. No line may be longer than 64 KiB: mount(2) takes options of 4 KiB.
func parse(text string) ([]Mount, error) {
	lines, err := mountinfo.GetMountsFromReader(strings.NewReader(text), nil)
	if err != nil {
		return nil, fmt.Errorf("mountinfo: %w", err)
	}
	out := make([]Mount, 0, len(lines))
	for _, l := range lines {
		out = append(out, Mount{
			ID: l.ID, Point: l.Mountpoint, Type: l.FSType, Source: l.Source,
			Device: strconv.Itoa(l.Major) + ":" + strconv.Itoa(l.Minor), Root: l.Root,
			Shared: strings.Contains(l.Optional, "shared:"), Options: l.VFSOptions,
		})
	}
	return out, nil
}

// Now reads what is mounted, once: for a child process. An agent has a Table.
func Now() ([]Mount, error) { return In("/proc/self") }

// In reads what a process has mounted, by its directory in /proc.
func In(process string) ([]Mount, error) {
	text, err := os.ReadFile(filepath.Join(process, "mountinfo"))
	if err != nil {
		return nil, err
	}
	return parse(string(text))
}

// Of is the file system that a path is on; nil if none is known. path is absolute, without symbolic links.
func Of(all []Mount, path string) (of *Mount) {
	for i := range all {
		m := &all[i]
		is := m.Point == path || m.Point == "/" || strings.HasPrefix(path, m.Point+"/")
		if is && (of == nil || len(m.Point) >= len(of.Point)) {
			of = m // of two at one place, the later hides the other
		}
	}
	return of
}

// At is what is mounted at a point; nil for nothing. Of several the last one is seen there.
func At(all []Mount, point string) (at *Mount) {
	for i := range all {
		if all[i].Point == point {
			at = &all[i]
		}
	}
	return at
}

// Below are those at dir or below it, in order of mounting.
func Below(all []Mount, dir string) []Mount {
	var out []Mount
	for _, m := range all {
		if m.Point == dir || strings.HasPrefix(m.Point, dir+"/") {
			out = append(out, m)
		}
	}
	return out
}
