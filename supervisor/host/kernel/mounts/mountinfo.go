// Package mounts tells what is mounted on this machine.
package mounts

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
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

// parse reads the text of a file mountinfo. A line may be of any length: the root of a mount is shown with the whole
// way to it, and a container can move what is mounted of its volume below as many directories as it likes.
func parse(text string) ([]Mount, error) {
	out := make([]Mount, 0, strings.Count(text, "\n"))
	for line := range strings.Lines(text) {
		// 36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw
		left, right, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " - ")
		place := strings.Fields(left)
		kind, what, ok := strings.Cut(right, " ") // the source may be empty
		if !ok || len(place) < 6 {
			return nil, fmt.Errorf("mountinfo: cannot read the line %.200q", line)
		}
		id, err := strconv.Atoi(place[0])
		if err != nil {
			return nil, fmt.Errorf("mountinfo: the number of a mount: %w", err)
		}
		source, options, _ := strings.Cut(what, " ")
		out = append(out, Mount{
			ID: id, Point: unescape(place[4]), Type: kind, Source: unescape(source), Device: place[2],
			Root: unescape(place[3]), Options: unescape(options),
			Shared: slices.ContainsFunc(place[6:], func(field string) bool { return strings.HasPrefix(field, "shared:") }),
		})
	}
	return out, nil
}

// escapes are the five characters that the kernel writes in octal.
var escapes = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`, `\043`, "#")

func unescape(text string) string {
	if strings.Contains(text, `\`) { // few have one
		return escapes.Replace(text)
	}
	return text
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
