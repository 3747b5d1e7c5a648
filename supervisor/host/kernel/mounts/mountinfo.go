// Package mounts tells what is mounted on this machine.
package mounts

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// Mount is one line of /proc/self/mountinfo (proc_pid_mountinfo(5)).
type Mount struct {
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

func Parse(text string) ([]Mount, error) {
	var out []Mount
	for line := range strings.Lines(text) {
		// 36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw
		left, right, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " - ")
		place, what := strings.Fields(left), strings.SplitN(right, " ", 3) // the source may be empty
		if !ok || len(place) < 6 || len(what) < 1 {
			return nil, fmt.Errorf("mountinfo: cannot read the line %q", line)
		}
		m := Mount{
			Point: unescape(place[4]), Type: what[0], Device: place[2], Root: unescape(place[3]),
			Shared: slices.ContainsFunc(place[6:], func(field string) bool { return strings.HasPrefix(field, "shared:") }),
		}
		if len(what) > 1 {
			m.Source = unescape(what[1])
		}
		if len(what) > 2 {
			m.Options = unescape(what[2])
		}
		out = append(out, m)
	}
	return out, nil
}

// unescape resolves the five characters that the kernel writes in octal.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`, `\043`, "#").Replace

// Now reads what is mounted, once: for a child process. An agent has a Table.
func Now() ([]Mount, error) {
	text, err := os.ReadFile(mountInfo)
	if err != nil {
		return nil, err
	}
	return Parse(string(text))
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
