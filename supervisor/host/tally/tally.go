// Package tally counts what directories take of a disk, in child processes that cost little to start.
//
// A child is the program itself. Most of the start of a program is the initialization of its packages, and the agent
// has many; this one needs few, and so is initialized before them (language specification, "Program initialization":
// packages that are ready come in the order of their import paths). A child does its work then, and never gets to
// main. So this package imports nothing outside of the standard library but golang.org/x/sys.
package tally

import (
	"encoding/json"
	"io"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Arg is the first argument of a child that counts. No user passes it.
const Arg = "__host-count"

// Limit bounds the size of a request and of an answer, in bytes.
const Limit = 1 << 20

// Exit codes of a child.
const (
	Done     = 0
	NoAsk    = 2 // no request came
	Orphaned = 3 // the agent is gone
	NoAnswer = 4 // the answer could not be written
)

// Tree is a directory to count.
type Tree struct {
	Path string `json:"path"`
	// Skip are names of directories in it that don't count.
	Skip []string `json:"skip,omitempty"`
}

// Count is what is below a directory.
type Count struct {
	// Walked: it was there.
	Walked  bool   `json:",omitempty"`
	Bytes   uint64 `json:",omitempty"`
	Entries uint64 `json:",omitempty"`
	// Took is how long it took to count.
	Took time.Duration `json:",omitempty"`
}

// Request is what a child reads from its stdin. What is not on the file system of Home counts nothing. Each tree is
// counted up to Most files, and all of them for Budget; what is counted up to there is a lower bound.
type Request struct {
	Home   string        `json:"home,omitempty"`
	Trees  []Tree        `json:"trees,omitempty"`
	Most   uint64        `json:"most,omitempty"`
	Budget time.Duration `json:"budget,omitempty"`
}

// Answer is what a child writes to its stdout, in the order of the trees.
type Answer struct {
	Rooms []Count `json:"rooms"`
}

func init() {
	if len(os.Args) == 2 && os.Args[1] == Arg {
		syscall.Exit(serve(os.Stdin, os.Stdout))
	}
}

func serve(stdin io.Reader, stdout io.Writer) int {
	var r Request
	if err := json.NewDecoder(io.LimitReader(stdin, Limit)).Decode(&r); err != nil {
		return NoAsk
	}
	EndWith(stdin)
	if err := json.NewEncoder(stdout).Encode(Answer{r.count()}); err != nil {
		return NoAnswer
	}
	return Done
}

// EndWith ends this process, a child, and its process group when stdin ends: the agent is gone.
func EndWith(stdin io.Reader) {
	go func() {
		io.Copy(io.Discard, stdin) //nolint:errcheck // only its end matters
		if group, own := syscall.Getpgrp(), syscall.Getpid(); group == own {
			syscall.Kill(-group, syscall.SIGKILL) //nolint:errcheck // it ends either way
		}
		syscall.Exit(Orphaned)
	}()
}

func (r *Request) count() []Count {
	out := make([]Count, len(r.Trees))
	var top unix.Stat_t
	if unix.Lstat(r.Home, &top) != nil {
		return out
	}
	end := time.Now().Add(r.Budget)
	for i, t := range r.Trees {
		began := time.Now()
		w := Walk{Device: &top.Dev, Skip: t.Skip, Most: r.Most, End: end}
		out[i] = w.Of(t.Path)
		out[i].Took = time.Since(began)
	}
	return out
}

// Walk bounds a walk.
type Walk struct {
	// Device is the only one of which something counts; nil for that of the top.
	Device *uint64
	// Skip are names of directories in the top that don't count.
	Skip []string
	Most uint64
	// End is when the walk is given up; zero for never.
	End time.Time
}

const (
	// names is how many names of a directory are read at once.
	names = 1000
	// sector is the unit that the blocks of files are counted in (stat(2)).
	sector = 512
)

// walk is one under way.
type walk struct {
	Walk
	Count
	device uint64
	// seen are files with several names.
	seen map[uint64]bool
	// next are directories to go into.
	next []string
}

// Of counts what is below path, and path. It follows no link, and stays on its file system. A file with several names
// counts once.
func (w Walk) Of(path string) Count {
	var top unix.Stat_t
	if unix.Lstat(path, &top) != nil || w.Device != nil && top.Dev != *w.Device {
		return Count{}
	}
	on := walk{Walk: w, Count: Count{Walked: true}, device: top.Dev}
	if on.add(&top) && top.Mode&unix.S_IFMT == unix.S_IFDIR {
		on.next = append(on.next, path)
	}
	for n := len(on.next); n > 0 && !on.over(); n = len(on.next) {
		dir := on.next[n-1]
		on.next = on.next[:n-1]
		on.in(dir)
		on.Skip = nil // the top was the first
	}
	return on.Count
}

// over: the walk is given up.
func (w *walk) over() bool {
	return w.Entries >= w.Most || w.Entries%1024 == 0 && !w.End.IsZero() && time.Now().After(w.End)
}

// in counts what is in a directory. What cannot be read has just been removed.
func (w *walk) in(dir string) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	f := os.NewFile(uintptr(fd), dir)
	defer f.Close() //nolint:errcheck // it was only read
	for {
		some, err := f.Readdirnames(names)
		for _, name := range some {
			if w.over() {
				return
			}
			var s unix.Stat_t
			if unix.Fstatat(fd, name, &s, unix.AT_SYMLINK_NOFOLLOW) != nil {
				continue
			}
			if s.Mode&unix.S_IFMT != unix.S_IFDIR {
				w.add(&s)
			} else if !slices.Contains(w.Skip, name) && w.add(&s) {
				w.next = append(w.next, dir+"/"+name)
			}
		}
		if err != nil {
			return
		}
	}
}

// add counts one file, unless it is on another file system or is another name of one that was counted.
func (w *walk) add(s *unix.Stat_t) bool {
	if s.Dev != w.device { // a file may be a mount point too
		return false
	}
	if s.Nlink > 1 && s.Mode&unix.S_IFMT != unix.S_IFDIR {
		if w.seen[s.Ino] {
			return false
		}
		if w.seen == nil {
			w.seen = map[uint64]bool{}
		}
		w.seen[s.Ino] = true
	}
	w.Bytes += uint64(s.Blocks) * sector
	w.Entries++
	return true
}
