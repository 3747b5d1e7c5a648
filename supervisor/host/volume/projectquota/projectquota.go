// Package projectquota measures directories with the project quotas of their file system (KEP-1029), in one call
// and without a walk: ext4 with the features quota and project, or XFS mounted with pquota.
//
// A directory gets a project of its own while it is empty. What is made in it inherits the project, and the kernel
// refuses to rename or link anything into it that has another one (EXDEV), so the project has exactly what is in the
// directory. Nothing is limited: a limit would be an error of a write in the pod, where the kubelet evicts it
// (docs/decisions/0047).
//
// The record of a project is the directory itself and a line in /etc/projects, as the kubelet writes it, with a name
// in /etc/projid. A directory is measured by its project only if both agree. Who owns a file may give it another
// project, but not from within a user namespace: a caller gives projects only to pods with users of their own.
package projectquota

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

const (
	// First is the lowest project that is given, as by the kubelet.
	First = 1<<20 + 1
	// mostTries is how many projects are looked at that no file names and that have something on the disk.
	mostTries = 1000
)

// Projects gives directories of one file system their projects.
type Projects struct {
	kernel Kernel
	files  Files
	mu     sync.Mutex // held while projects are given or taken
}

// Open fails with what is missing, if the file system of root has no project quotas. Directories are named by
// their path below that of root, which is where a user has put it. Projects of directories that are gone are free
// from then on.
func Open(root *os.File, path string, k Kernel, f Files) (*Projects, error) {
	if _, err := k.Quota(root, First); err != nil {
		return nil, fmt.Errorf("it has no project quotas in force: %w", err)
	}
	p := &Projects{kernel: k, files: f}
	err := p.forget(func(of string) bool {
		if !below(of, path) {
			return false
		}
		_, err := os.Lstat(of)
		return errors.Is(err, fs.ErrNotExist)
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}

func below(path, above string) bool {
	return path == above || strings.HasPrefix(path, filepath.Clean(above)+"/")
}

// Assign gives an empty directory a project of its own, if it has none. path is its absolute path.
func (p *Projects) Assign(dir *os.File, path string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	a, err := p.kernel.Attributes(dir)
	if err != nil {
		return err
	}
	if a.Project != 0 {
		t, err := p.Table()
		if err == nil && !t.has(path, a) {
			err = fmt.Errorf("%s has project %d already, which is not its own", path, a.Project)
		}
		return err
	}
	if _, err := dir.ReadDir(1); !errors.Is(err, io.EOF) {
		return errors.Join(fmt.Errorf("%s is not empty, so it gets no project", path), err)
	}
	err = p.files.change(func(t *table) (bool, error) {
		t.remove(func(of string) bool { return of == path }) // of one before it, or of one that was begun
		a.Project, err = p.free(dir, t)
		if err == nil {
			t.add(a.Project, path)
		}
		return true, err
	})
	if err != nil {
		return err
	}
	a.Flags |= Inherit
	if err := p.kernel.SetAttributes(dir, a); err != nil {
		return errors.Join(err, p.forget(func(of string) bool { return of == path }))
	}
	return nil
}

// free is the lowest project that no file names and that has nothing on the disk.
func (p *Projects) free(dir *os.File, t *table) (uint32, error) {
	used := map[uint32]bool{}
	for _, line := range t.projects {
		if id, _, ok := projectOf(line); ok {
			used[id] = true
		}
	}
	for _, line := range t.names {
		if _, id, ok := nameOf(line); ok {
			used[id] = true
		}
	}
	tries := 0
	for id := uint32(First); tries < mostTries; id++ {
		if used[id] {
			continue
		}
		q, err := p.kernel.Quota(dir, id)
		if err != nil {
			return 0, err
		}
		if q.Bytes == 0 && q.Inodes == 0 {
			return id, nil
		}
		tries++
	}
	return 0, fmt.Errorf("%d projects that are not in /etc/projects have files on the disk: no project is free", tries)
}

// Release frees the projects of all directories below path, which are about to be removed. As long as there is
// something of one on the disk, nobody else gets it.
func (p *Projects) Release(path string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.forget(func(of string) bool { return below(of, path) })
}

// forget writes nothing if there is nothing to forget: the files may be on a disk that can't be written.
func (p *Projects) forget(gone func(path string) bool) error {
	t, err := p.files.read()
	if err != nil || !t.remove(gone) {
		return err
	}
	return p.files.change(func(t *table) (bool, error) { return t.remove(gone), nil })
}

// Table is who has which project, at one time.
type Table struct {
	kernel Kernel
	of     map[string][]uint32
	shared map[uint32]int
}

// Table reads it.
func (p *Projects) Table() (Table, error) {
	t, err := p.files.read()
	out := Table{p.kernel, map[string][]uint32{}, map[uint32]int{}}
	for _, line := range t.projects {
		if id, path, ok := projectOf(line); ok {
			out.of[path] = append(out.of[path], id)
			out.shared[id]++
		}
	}
	return out, err
}

// has says whether a directory with these attributes has a project of its own, which all that is in it has.
func (t Table) has(path string, a Attributes) bool {
	of := t.of[path]
	return len(of) == 1 && of[0] == a.Project && t.shared[a.Project] == 1 && a.Flags&Inherit != 0
}

// Lists says whether a directory is in the table, so that it may have a project of its own.
func (t Table) Lists(path string) bool { return len(t.of[path]) > 0 }

// Use is what a directory and all below it takes of the disk. False: it has no project of its own, or the kernel
// does not say.
func (t Table) Use(dir *os.File, path string) (Quota, bool) {
	if !t.Lists(path) {
		return Quota{}, false
	}
	a, err := t.kernel.Attributes(dir)
	if err != nil || !t.has(path, a) {
		return Quota{}, false
	}
	q, err := t.kernel.Quota(dir, a.Project)
	return q, err == nil && q.Inodes > 0 // the directory itself is one
}
