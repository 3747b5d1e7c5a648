package hosttest

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/supervisor/host/volume/projectquota"
)

// Projects stands for a kernel with project quotas, which not every file system has. It knows the projects of
// directories that were set through it, and what the test says that a project takes.
type Projects struct {
	// None: the file system has no quotas.
	None bool
	// Fail, if not nil, is why a project can't be set.
	Fail error
	// Used is what projects take beside the directories that have them.
	Used map[uint32]projectquota.Quota
	// Asked counts the calls of Quota for a directory with a project.
	Asked int

	set map[uint64]projectquota.Attributes
}

var _ projectquota.Kernel = (*Projects)(nil)

func inode(dir *os.File) uint64 {
	info, err := dir.Stat()
	if err != nil {
		panic(err) // an open directory
	}
	return info.Sys().(*syscall.Stat_t).Ino
}

// Attributes implements [projectquota.Kernel].
func (p *Projects) Attributes(dir *os.File) (projectquota.Attributes, error) {
	return p.set[inode(dir)], nil
}

// SetAttributes implements [projectquota.Kernel].
func (p *Projects) SetAttributes(dir *os.File, a projectquota.Attributes) error {
	if p.set == nil {
		p.set = map[uint64]projectquota.Attributes{}
	}
	if p.Fail == nil {
		p.set[inode(dir)] = a
	}
	return p.Fail
}

// Quota implements [projectquota.Kernel].
func (p *Projects) Quota(dir *os.File, project uint32) (projectquota.Quota, error) {
	if p.None {
		return projectquota.Quota{}, unix.ESRCH
	}
	q := p.Used[project]
	for _, a := range p.set {
		if a.Project == project {
			q.Inodes++
		}
	}
	if p.set[inode(dir)].Project == project {
		p.Asked++
	}
	return q, nil
}
