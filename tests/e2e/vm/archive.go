package vm

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/tests/check"
)

// archive collects the files of an initramfs. Paths are absolute, as the guest sees them.
type archive struct {
	entries map[string]entry
	// libraries are directories to look for libraries in before those of the host.
	libraries []string
}

// entry is a directory without more, a file of the host, a file with a content, or a symbolic link with
// its target as the content.
type entry struct {
	mode fs.FileMode
	from string
	data []byte
}

func newArchive() *archive { return &archive{entries: map[string]entry{}} }

// directory adds a directory and those above it.
func (a *archive) directory(name string) {
	for ; name != "/" && name != "."; name = path.Dir(name) {
		if _, there := a.entries[name]; !there {
			a.entries[name] = entry{mode: fs.ModeDir | 0o755}
		}
	}
}

// file adds a file of the host, read when the archive is written, through symbolic links.
func (a *archive) file(name, from string, mode fs.FileMode) {
	a.directory(path.Dir(name))
	a.entries[name] = entry{mode: mode, from: from}
}

// content adds a file.
func (a *archive) content(name string, data []byte, mode fs.FileMode) {
	a.directory(path.Dir(name))
	a.entries[name] = entry{mode: mode, data: data}
}

// link adds a symbolic link.
func (a *archive) link(name, target string) {
	a.directory(path.Dir(name))
	a.entries[name] = entry{mode: fs.ModeSymlink | 0o777, data: []byte(target)}
}

// write writes the archive in the kernel's format, uncompressed: the virtual machine reads it from
// memory. (Documentation/driver-api/early-userspace/buffer-format.rst)
func (a *archive) write(to io.Writer) error {
	w := &cpioWriter{to: bufio.NewWriterSize(to, 1<<20)}
	var names []string
	for name := range a.entries {
		names = append(names, name)
	}
	slices.Sort(names) // a directory before what is in it
	for _, name := range names {
		if err := w.add(strings.TrimPrefix(name, "/"), a.entries[name]); err != nil {
			return fmt.Errorf("pack %s: %w", name, err)
		}
	}
	if err := w.header("TRAILER!!!", 0, 0); err != nil {
		return err
	}
	return w.to.Flush()
}

// cpioWriter writes entries of the "newc" format.
type cpioWriter struct {
	to    *bufio.Writer
	inode int
}

// Types of files in a mode (inode(7)).
const (
	typeDirectory = 0o040000
	typeFile      = 0o100000
	typeLink      = 0o120000
)

func (w *cpioWriter) add(name string, e entry) (err error) {
	defer check.Return(&err)
	if e.mode.IsDir() {
		return w.header(name, typeDirectory|int(e.mode.Perm()), 0)
	}
	if e.from == "" {
		kind := typeFile
		if e.mode.Type() == fs.ModeSymlink {
			kind = typeLink
		}
		check.OK(w.header(name, kind|int(e.mode.Perm()), len(e.data)))
		check.Must(w.to.Write(e.data))
		return w.pad(len(e.data))
	}
	f := check.Must(os.Open(e.from))
	defer f.Close()
	info := check.Must(f.Stat())
	size := int(info.Size())
	check.OK(w.header(name, typeFile|int(e.mode.Perm()), size))
	check.Must(io.CopyN(w.to, f, info.Size()))
	return w.pad(size)
}

// header writes an entry's header and name: thirteen numbers of eight hexadecimal digits.
func (w *cpioWriter) header(name string, mode, size int) error {
	w.inode++
	const links, namedFor = 1, 1 // the name is counted with its NUL
	numbers := [13]int{w.inode, mode, 0, 0, links, 0, size, 0, 0, 0, 0, len(name) + namedFor, 0}
	text := "070701"
	for _, n := range numbers {
		text += fmt.Sprintf("%08X", n)
	}
	text += name + "\x00"
	if _, err := w.to.WriteString(text); err != nil {
		return err
	}
	return w.pad(len(text))
}

// pad fills up to a multiple of four bytes.
func (w *cpioWriter) pad(written int) error {
	_, err := w.to.WriteString("\x00\x00\x00"[:-written&3])
	return err
}
