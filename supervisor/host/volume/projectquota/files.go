package projectquota

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/supervisor/host/disk/durable"
)

// Files are the two that name the projects of a machine (projects(5), projid(5)). The kubelet keeps its projects in
// them too.
type Files struct {
	// Projects has lines PROJECT:DIRECTORY, Names has lines NAME:PROJECT.
	Projects, Names string
}

// Etc are the files of this machine.
var Etc = Files{Projects: "/etc/projects", Names: "/etc/projid"}

const (
	// lockPatience is how long another process may hold the files, lockRetry how often they are tried.
	lockPatience = 2 * time.Second
	lockRetry    = 10 * time.Millisecond
	filesMode    = 0o644
)

// table is the content of the files, as lines.
type table struct{ projects, names []string }

// projectOf takes a line of Projects apart.
func projectOf(line string) (id uint32, path string, ok bool) {
	number, path, ok := strings.Cut(line, ":")
	n, err := strconv.ParseUint(number, 10, 32)
	return uint32(n), path, ok && err == nil
}

// nameOf takes a line of Names apart.
func nameOf(line string) (name string, id uint32, ok bool) {
	name, number, ok := strings.Cut(line, ":")
	n, err := strconv.ParseUint(number, 10, 32)
	return name, uint32(n), ok && err == nil && !strings.HasPrefix(name, "#")
}

// directories are how many directories a project has.
func (t *table) directories(id uint32) (n int) {
	for _, line := range t.projects {
		if of, _, ok := projectOf(line); ok && of == id {
			n++
		}
	}
	return n
}

// named says whether a project has a name.
func (t *table) named(id uint32) bool {
	return slices.ContainsFunc(t.names, func(line string) bool { _, of, ok := nameOf(line); return ok && of == id })
}

// name is the one that the kubelet gives.
func name(id uint32) string { return fmt.Sprintf("volume%d", id) }

func (t *table) add(id uint32, path string) {
	if !t.named(id) {
		t.names = append(t.names, fmt.Sprintf("%s:%d", name(id), id))
	}
	t.projects = append(t.projects, fmt.Sprintf("%d:%s", id, path))
}

// remove removes directories, and the names of projects that have none, if they are names of this package.
func (t *table) remove(gone func(path string) bool) (changed bool) {
	before := len(t.projects) + len(t.names)
	t.projects = slices.DeleteFunc(t.projects, func(line string) bool {
		_, path, ok := projectOf(line)
		return ok && gone(path)
	})
	t.names = slices.DeleteFunc(t.names, func(line string) bool {
		given, id, ok := nameOf(line)
		return ok && id >= First && given == name(id) && t.directories(id) == 0
	})
	return len(t.projects)+len(t.names) != before
}

// read reads the files as they are. One that does not exist is empty.
func (f Files) read() (table, error) {
	projects, err := readLines(f.Projects)
	if err != nil {
		return table{}, err
	}
	names, err := readLines(f.Names)
	return table{projects, names}, err
}

func readLines(path string) ([]string, error) {
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return lines(text), nil
}

func lines(text []byte) []string {
	return slices.Collect(func(yield func(string) bool) {
		for line := range bytes.Lines(text) {
			if !yield(string(bytes.TrimRight(line, "\n"))) {
				return
			}
		}
	})
}

// change changes the files, unless f says that nothing has changed. Both are locked meanwhile as the kubelet locks
// them (flock(2)), and replaced as a whole.
func (f Files) change(change func(*table) (changed bool, err error)) error {
	projects, err := lock(f.Projects)
	if err != nil {
		return err
	}
	defer projects.Close() //nolint:errcheck // it was only read
	names, err := lock(f.Names)
	if err != nil {
		return err
	}
	defer names.Close() //nolint:errcheck // it was only read
	var t table
	for _, file := range []struct {
		from *os.File
		to   *[]string
	}{{projects, &t.projects}, {names, &t.names}} {
		text, err := io.ReadAll(file.from)
		if err != nil {
			return err
		}
		*file.to = lines(text)
	}
	was := slices.Clone(t.names)
	if changed, err := change(&t); !changed || err != nil {
		return err
	}
	// The names first: a project that has a name and no directory is removed with the next.
	if !slices.Equal(t.names, was) {
		if err := replace(names, t.names); err != nil {
			return err
		}
	}
	return replace(projects, t.projects)
}

// lock opens a file, which it makes if there is none, and locks it until it is closed.
func lock(path string) (*os.File, error) {
	end := time.Now().Add(lockPatience)
	for {
		f, err := os.OpenFile(path, os.O_RDONLY|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, filesMode)
		if err != nil {
			return nil, err
		}
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			if current, e := isAt(f, path); e != nil || current {
				return f, e
			}
		}
		f.Close() //nolint:errcheck // nothing was written
		switch {
		case err != nil && !errors.Is(err, unix.EWOULDBLOCK):
			return nil, &os.PathError{Op: "lock", Path: path, Err: err}
		case time.Now().After(end):
			return nil, fmt.Errorf("lock %s: another process holds it for more than %s", path, lockPatience)
		}
		time.Sleep(lockRetry)
	}
}

// isAt says whether a file is still the one at its path: who had it locked may have replaced it.
func isAt(f *os.File, path string) (bool, error) {
	opened, err := f.Stat()
	if err != nil {
		return false, errors.Join(err, f.Close())
	}
	if !opened.Mode().IsRegular() {
		return false, errors.Join(fmt.Errorf("%s is not a regular file", path), f.Close())
	}
	there, err := os.Lstat(path)
	return err == nil && os.SameFile(opened, there), nil
}

// replace writes a file anew, with the mode that it has.
func replace(old *os.File, lines []string) error {
	info, err := old.Stat()
	if err != nil {
		return err
	}
	var text bytes.Buffer
	for _, line := range lines {
		text.WriteString(line + "\n")
	}
	return durable.WriteAt(old.Name(), text.Bytes(), info.Mode().Perm(), durable.Whole)
}
