package serve

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
)

// logFiles are the files and directories below a directory. A link that leads out of it fails, and a
// file that is not regular does not exist: reading a pipe would block.
type logFiles struct {
	root *os.Root
	// names are absolute paths of the directory, as links in it may name it.
	names []string
}

func openLogFiles(dir string) (l logFiles, err error) {
	if l.root, err = os.OpenRoot(dir); err != nil {
		return l, err
	}
	for _, of := range []func(string) (string, error){filepath.Abs, filepath.EvalSymlinks} {
		if name, err := of(dir); err == nil && filepath.IsAbs(name) {
			l.names = append(l.names, filepath.Clean(name))
		}
	}
	return l, nil
}

// Open implements fs.FS.
func (l logFiles) Open(name string) (fs.File, error) {
	refuse := func(why error) (fs.File, error) { return nil, &fs.PathError{Op: "open", Path: name, Err: why} }
	if !fs.ValidPath(name) { // a client's mistake, not the node's
		return refuse(fs.ErrNotExist)
	}
	f, err := l.root.OpenFile(l.follow(name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return refuse(fs.ErrNotExist)
	}
	if err != nil {
		return refuse(fs.ErrPermission)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// mostLinks is how many links a path may lead through, as in the kernel.
const mostLinks = 40

// follow replaces links in a path that have an absolute path in the directory: os.Root follows only others. It does not
// have to be safe: whatever it returns, root lets nothing lead out of the directory.
func (l logFiles) follow(name string) string {
	done, left := ".", strings.Split(name, "/")
	for links := 0; len(left) > 0 && links <= mostLinks; {
		at := path.Join(done, left[0])
		to, err := l.root.Readlink(at)
		if errors.Is(err, syscall.EINVAL) { // no link
			done, left = at, left[1:]
			continue
		}
		if err != nil { // nothing is there, so nothing below it either
			break
		}
		links++
		if filepath.IsAbs(to) {
			inside, ok := l.inside(to)
			if !ok {
				return name
			}
			done, to = ".", inside
		}
		left = append(strings.Split(to, "/"), left[1:]...)
	}
	return path.Join(append([]string{done}, left...)...)
}

// inside is an absolute path as one in the directory.
func (l logFiles) inside(to string) (string, bool) {
	for _, name := range l.names {
		if rel, err := filepath.Rel(name, filepath.Clean(to)); err == nil && filepath.IsLocal(rel) {
			return rel, true
		}
	}
	return "", false
}
