package containerlogs

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Policy is how much of a log to keep (KubeletConfiguration containerLogMaxSize,
// containerLogMaxFiles).
type Policy struct {
	// MaxSize is the size in bytes from which the current file is rotated.
	MaxSize int64
	// MaxFiles is the maximum number of files of a log, including the current one; at least 2.
	MaxFiles int
}

// Log is the files on disk of one incarnation's log.
type Log struct {
	// Current: the file that the runtime should write exists. Size is its size in bytes.
	Current bool
	Size    int64
	// Beside are the other files of the log, in any order: the parts of their names after the current
	// file's name and a dot.
	Beside []string
}

// Round is what was done to a log since it was found to be too big.
type Round struct {
	// Runs: the container runs, as far as is known.
	Runs bool
	// Rotated: the current file was renamed, which happens once a round.
	Rotated bool
	// Refused: the runtime was told to reopen the log, and may have refused.
	Refused bool
}

// Step is one step with a log. No output is lost if it succeeds, if it fails, or if the agent ends
// in the middle of it.
//
//sumtype:decl
type Step interface{ isStep() }

// Remove removes superfluous files.
type Remove struct{ Suffixes []string }

// Rotate renames the current file. The runtime keeps writing to it.
type Rotate struct{ To string }

// Reopen tells the runtime to write to a new current file.
type Reopen struct{}

// Restore makes a rotated file the current one again, unless there is a current one.
type Restore struct{ From string }

// Compress replaces a rotated file by its compressed form.
type Compress struct{ Suffix string }

func (Remove) isStep()   {}
func (Rotate) isStep()   {}
func (Reopen) isStep()   {}
func (Restore) isStep()  {}
func (Compress) isStep() {}

const (
	// stampFormat is the format of rotated files' names. It is the kubelet's, which log collectors
	// recognize.
	stampFormat = "20060102-150405"
	compressed  = ".gz"
	// Unfinished is the suffix of a file while it is being written.
	Unfinished = ".tmp"
)

// CompressedName is the suffix of a file once it is compressed.
func CompressedName(suffix string) string { return suffix + compressed }

// PlanRotation returns the next step; nil for none.
//
//	                ┌─────────────── refused ──────────── Restore
//	                │                                       ▲
//	too big ──► Remove ──► Rotate ──► Reopen ──► Compress   │ does not run
//	                                    ▲                   │
//	no current file, as after a kill ───┴───────────────────┘
//
// A rotated file is compressed once another was rotated after it, and never while the runtime may
// still write to it.
func PlanRotation(l Log, r Round, p Policy, now time.Time) Step {
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

// keep is the allowed number of rotated files: one less if another is about to be added.
func (p Policy) keep(full bool) int {
	if full {
		return max(0, p.MaxFiles-2)
	}
	return max(0, p.MaxFiles-1)
}

// missing is the next step if there is no current file.
func missing(files []file, r Round) Step {
	if r.Runs && !r.Refused {
		return Reopen{}
	}
	if n := len(files); n > 0 && !files[n-1].compressed {
		return Restore{files[n-1].stamp}
	}
	return nil
}

// file is a rotated file.
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

// sorted are the rotated files, oldest first. If both forms of a file exist, the compressed one
// counts: it gets its name when it is complete.
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

// superfluous are the files to remove: unfinished ones, those with a compressed form, and the
// oldest beyond keep. Files with other names are not the log's.
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

// next names the file to rotate to. The name sorts after all others, because only names give the
// order, and a clock may be set back.
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
		panic("containerlogs: " + last + " was a time before")
	}
	return at.Add(time.Second).Format(stampFormat)
}

func isStamp(s string) bool {
	_, err := time.Parse(stampFormat, s)
	return err == nil
}
