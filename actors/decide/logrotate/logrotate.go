// Package logrotate decides how the log of a container is kept small.
//
//	0.log.20261121-100000.gz   0.log.20261121-110000   0.log
//	rotated, compressed        rotated last            what the runtime writes
//
// It works from what lies on the disk alone, one step at a time, so that an agent
// that was killed between any two steps is followed by one that goes on.
package logrotate

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Policy is how much of a log is kept (KubeletConfiguration containerLogMaxSize,
// containerLogMaxFiles).
type Policy struct {
	// MaxSize is how many bytes the current file has when it is rotated.
	MaxSize int64
	// MaxFiles is how many files a log has at most, the current one among them; at
	// least 2.
	MaxFiles int
}

// Log is what lies on the disk of the log of one incarnation of a container.
type Log struct {
	// Current says that the file is there that the runtime is told to write, and
	// Size how many bytes it has.
	Current bool
	Size    int64
	// Beside are the other files of the log, in any order: what follows the name
	// of the current one and a dot.
	Beside []string
}

// Round is what happened to a log since it was looked at for being too big.
type Round struct {
	// Runs says that the container runs, as far as is known.
	Runs bool
	// Rotated: the current file was renamed. It is, once a round.
	Rotated bool
	// Refused: the runtime was told to open the log anew, and may have refused.
	Refused bool
}

// Step is one thing to do with a log. Each leaves a log of which nothing is lost,
// if it is done, if it is not, and if the agent ends in the middle of it.
//
//sumtype:decl
type Step interface{ isStep() }

// Remove removes files that are superfluous.
type Remove struct{ Suffixes []string }

// Rotate renames the current file. The runtime goes on writing to it.
type Rotate struct{ To string }

// Reopen tells the runtime to write to a new current file.
type Reopen struct{}

// Restore makes a rotated file the current one again, unless there is one.
type Restore struct{ From string }

// Compress replaces a rotated file by a compressed one.
type Compress struct{ Suffix string }

func (Remove) isStep()   {}
func (Rotate) isStep()   {}
func (Reopen) isStep()   {}
func (Restore) isStep()  {}
func (Compress) isStep() {}

const (
	// stampFormat is how rotated files are named, as a kubelet names them: what
	// collects logs on nodes knows them by it.
	stampFormat = "20060102-150405"
	compressed  = ".gz"
	// Unfinished is what the name of a file ends with while it is written.
	Unfinished = ".tmp"
)

// CompressedName is the suffix of a file once it is compressed.
func CompressedName(suffix string) string { return suffix + compressed }

// Plan returns what to do next, nil for nothing.
//
//	                ┌─────────────── refused ──────────── Restore
//	                │                                       ▲
//	too big ──► Remove ──► Rotate ──► Reopen ──► Compress   │ does not run
//	                                    ▲                   │
//	no current file, as after a kill ───┴───────────────────┘
//
// A rotated file is compressed when another was rotated after it, never while the
// runtime may still write to it.
func Plan(l Log, r Round, p Policy, now time.Time) Step {
	files := sorted(l.Beside)
	if !l.Current {
		return missing(files, r)
	}
	full := l.Size >= p.MaxSize && r.Runs && !r.Rotated
	if s := superfluous(l.Beside, files, p.keep(full)); len(s) > 0 {
		return Remove{s}
	}
	if full {
		return Rotate{next(files, now)}
	}
	for i := range files[:max(0, len(files)-1)] {
		if !files[i].compressed {
			return Compress{files[i].stamp}
		}
	}
	return nil
}

// keep is how many rotated files there may be: one less if another is to come.
func (p Policy) keep(full bool) int {
	if full {
		return max(0, p.MaxFiles-2)
	}
	return max(0, p.MaxFiles-1)
}

// missing is what to do if there is no current file.
func missing(files []file, r Round) Step {
	if r.Runs && !r.Refused {
		return Reopen{}
	}
	if n := len(files); n > 0 && !files[n-1].compressed {
		return Restore{files[n-1].stamp}
	}
	return nil
}

// file is one that was rotated.
type file struct {
	stamp      string
	compressed bool
}

func (f file) suffix() string {
	if f.compressed {
		return f.stamp + compressed
	}
	return f.stamp
}

// sorted are the rotated files, oldest first. One that is there both ways is
// compressed: it is named so when it is whole.
func sorted(beside []string) []file {
	var all []file
	for _, suffix := range beside {
		stamp, is := strings.CutSuffix(suffix, compressed)
		if isStamp(stamp) {
			all = append(all, file{stamp, is})
		}
	}
	slices.SortFunc(all, func(x, y file) int {
		if c := cmp.Compare(x.stamp, y.stamp); c != 0 || x.compressed == y.compressed {
			return c
		}
		if x.compressed {
			return -1
		}
		return 1
	})
	return slices.CompactFunc(all, func(x, y file) bool { return x.stamp == y.stamp })
}

// superfluous are the files that go: those that were not finished, those of which
// there is a compressed one, and the oldest beyond keep. What does not look like a
// file of a log is somebody else's.
func superfluous(beside []string, files []file, keep int) (out []string) {
	for _, suffix := range beside {
		stamp, unfinished := strings.CutSuffix(suffix, Unfinished)
		stamp, _ = strings.CutSuffix(stamp, compressed)
		i := slices.IndexFunc(files, func(f file) bool { return f.stamp == stamp })
		switch {
		case unfinished && isStamp(stamp), i >= 0 && files[i].suffix() != suffix, i >= 0 && i < len(files)-keep:
			out = append(out, suffix)
		}
	}
	slices.Sort(out)
	return out
}

// next names the file that is rotated now. Its name comes after all others, for
// they are told apart by their names alone, and clocks are set back.
func next(files []file, now time.Time) string {
	stamp := now.Format(stampFormat)
	if len(files) == 0 {
		return stamp
	}
	last := files[len(files)-1].stamp
	if stamp > last {
		return stamp
	}
	at, err := time.Parse(stampFormat, last)
	if err != nil {
		panic("logrotate: " + last + " was a time before")
	}
	return at.Add(time.Second).Format(stampFormat)
}

func isStamp(s string) bool {
	_, err := time.Parse(stampFormat, s)
	return err == nil
}
