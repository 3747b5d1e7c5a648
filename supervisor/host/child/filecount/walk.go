package filecount

import (
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Walk bounds a walk.
type Walk struct {
	// Device is the only one of which something counts; nil for that of the top.
	Device *uint64
	// Skip are names of directories in the top that don't count.
	Skip []string
	// Most is how many names are looked at; 0 for any number.
	Most uint64
	// End is when the walk is given up; zero for never.
	End time.Time
}

const (
	// names is how many names of a directory are read at once.
	names = 256
	// look is how many names are looked at between two looks at the clock.
	look = 64
	// deepest is how many directories are open at once, one in another. What is deeper is begun again at the top, by
	// its path; farMost bounds the memory for such paths, in bytes.
	deepest = 500
	farMost = 16 << 20
	// piece is how much of a path is opened at once: the kernel takes no more than 4096 bytes.
	piece = 4000
	// linksMost is how many files with several names are remembered.
	linksMost = 250_000
	// sector is the unit that the blocks of files are counted in (stat(2)).
	sector = 512
)

// walk is one under way. Its memory does not grow with the number of files.
type walk struct {
	Walk
	Count
	top    string
	device uint64
	// names were looked at. over: it was given up.
	names uint64
	over  bool
	// links are the files with several names of which one was counted, with how many are left.
	links map[uint64]uint64
	// shares is the sum of the parts of a file that its names count for, if it is not in links.
	shares float64
	// way are the names on the way to the directory that is being read, the first as a path below top.
	way []string
	// far are directories that are too deep, by their paths below top, and farBytes what they take.
	far      []string
	farBytes int
}

// Of counts what is below path, and path. It follows no link, and stays on its file system. A file with several names
// counts once. What has been removed meanwhile does not count; what can't be read for another reason makes the count
// partial.
func (w Walk) Of(path string) Count {
	var top unix.Stat_t
	if unix.Lstat(path, &top) != nil || w.Device != nil && top.Dev != *w.Device {
		return Count{}
	}
	on := walk{Walk: w, Count: Count{Walked: true}, top: path, device: top.Dev, names: 1}
	if on.add(&top) && top.Mode&unix.S_IFMT == unix.S_IFDIR {
		on.far = append(on.far, "")
	}
	for n := len(on.far); n > 0 && !on.over; n = len(on.far) {
		dir := on.far[n-1]
		on.far, on.farBytes = on.far[:n-1], on.farBytes-len(dir)
		on.from(dir)
	}
	on.Entries += uint64(on.shares)
	return on.Count
}

// ends says whether the walk is given up before the next name.
func (w *walk) ends() bool {
	if w.Most > 0 && w.names >= w.Most || w.names%look == 0 && !w.End.IsZero() && time.Now().After(w.End) {
		w.over, w.Partial = true, true
	}
	return w.over
}

// from counts what is in a directory below the top.
func (w *walk) from(path string) {
	fd, err := open(w.top, path)
	if err != nil {
		w.lost(err)
		return
	}
	w.way = append(w.way[:0], path)
	w.in(fd)
}

// in counts what is in an open directory, at the end of the way, and closes it.
func (w *walk) in(fd int) {
	f := os.NewFile(uintptr(fd), "directory")
	defer f.Close() //nolint:errcheck // it was only read
	for !w.over {
		some, err := f.Readdirnames(names)
		for _, name := range w.stat(fd, some) {
			if len(w.way) == deepest {
				w.later(name)
				continue
			}
			next, err := unix.Openat(fd, name, openFlags, 0)
			if err != nil {
				w.lost(err)
				continue
			}
			w.way = append(w.way, name)
			w.in(next)
			w.way = w.way[:len(w.way)-1]
			if w.over {
				return
			}
		}
		if err != nil {
			w.lost(err)
			return
		}
	}
}

// stat counts some names of an open directory, and says which ones are directories to go into.
func (w *walk) stat(fd int, some []string) []string {
	top := len(w.way) == 1 && w.way[0] == ""
	into := some[:0]
	for _, name := range some {
		if w.ends() {
			return nil
		}
		w.names++
		var s unix.Stat_t
		if unix.Fstatat(fd, name, &s, unix.AT_SYMLINK_NOFOLLOW) != nil {
			continue // gone, or a mount point of a file system that keeps the agent out
		}
		if dir := s.Mode&unix.S_IFMT == unix.S_IFDIR; dir && top && slices.Contains(w.Skip, name) {
			continue
		} else if w.add(&s) && dir {
			into = append(into, name)
		}
	}
	return into
}

// later notes a directory that is too deep to be opened now, in the one at the end of the way.
func (w *walk) later(name string) {
	path := strings.Join(w.way, "/") + "/" + name
	if w.farBytes+len(path) > farMost {
		w.Partial = true
		return
	}
	w.far, w.farBytes = append(w.far, path), w.farBytes+len(path)
}

// lost is told why a directory can't be read any further. What was removed or replaced does not count.
func (w *walk) lost(err error) {
	for _, gone := range [...]error{io.EOF, unix.ENOENT, unix.ENOTDIR, unix.ELOOP} {
		if errors.Is(err, gone) {
			return
		}
	}
	w.Partial = true
}

const openFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC

// open opens a directory that may be below top deeper than a path can say. No part of the way below top may be a link.
func open(top, path string) (int, error) {
	fd, err := unix.Open(top, openFlags, 0)
	for path = strings.TrimPrefix(path, "/"); err == nil && path != ""; {
		next := path
		if len(next) > piece {
			next = next[:strings.LastIndexByte(next[:piece], '/')]
		}
		path = strings.TrimPrefix(path[len(next):], "/")
		var below int
		below, err = unix.Openat2(fd, next, &unix.OpenHow{Flags: openFlags, Resolve: unix.RESOLVE_NO_SYMLINKS})
		unix.Close(fd) //nolint:errcheck // it was not written to
		fd = below
	}
	return fd, err
}

// add counts one file, unless it is on another file system or is another name of one that was counted.
func (w *walk) add(s *unix.Stat_t) bool {
	if s.Dev != w.device { // a file may be a mount point too
		return false
	}
	bytes, all := uint64(s.Blocks)*sector, uint64(s.Nlink)
	if all > 1 && s.Mode&unix.S_IFMT != unix.S_IFDIR {
		left, known := w.links[s.Ino]
		switch {
		case known && left > 1:
			w.links[s.Ino] = left - 1
			return false
		case known:
			delete(w.links, s.Ino)
			return false
		case len(w.links) >= linksMost: // each name counts for a part of it
			w.Bytes += bytes / all
			w.shares += 1 / float64(all)
			return true
		case w.links == nil:
			w.links = map[uint64]uint64{}
		}
		w.links[s.Ino] = all - 1
	}
	w.Bytes += bytes
	w.Entries++
	return true
}
