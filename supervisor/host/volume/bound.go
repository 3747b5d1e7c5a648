package volume

import (
	"errors"
	"io/fs"
	"path/filepath"
	"sync"
	"syscall"
)

// binding counts the requests of each pod that bind parts of its volumes (subPath) just now. Such a request may have
// found a version of a volume, and not bound it yet.
type binding struct {
	mu sync.Mutex
	of map[string]int
}

// begin counts a request, until end is called.
func (b *binding) begin(uid string) (end func()) {
	b.add(uid, 1)
	return func() { b.add(uid, -1) }
}

func (b *binding) add(uid string, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.of == nil {
		b.of = map[string]int{}
	}
	if b.of[uid] += n; b.of[uid] == 0 {
		delete(b.of, uid)
	}
}

func (b *binding) underWay(uid string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.of[uid] > 0
}

// inode is the identity of a file or directory.
type inode struct{ device, number uint64 }

func inodeOf(info fs.FileInfo) inode { return inode{deviceOf(info), info.Sys().(*syscall.Stat_t).Ino} }

// boundOf says what containers have of a volume by subPath. It must not be removed: a container that was created with
// it binds it once more when it starts, and the kernel binds nothing that is removed.
func (h *Volumes) boundOf(uid, volume string) (func(fs.FileInfo) bool, error) {
	if h.binding.underWay(uid) {
		return func(fs.FileInfo) bool { return true }, nil
	}
	has := map[inode]bool{}
	dir := filepath.Join(uid, subPathsDir, volume)
	containers, err := h.entries(dir)
	if err != nil {
		return nil, err
	}
	for _, c := range containers {
		parts, err := h.entries(filepath.Join(dir, c.Name()))
		if err != nil {
			return nil, err
		}
		for _, p := range parts {
			// A part that is not mounted is a file of its own, which is in no volume.
			info, err := h.pods.Root.Lstat(filepath.Join(dir, c.Name(), p.Name()))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
			if err == nil {
				has[inodeOf(info)] = true
			}
		}
	}
	return func(info fs.FileInfo) bool { return has[inodeOf(info)] }, nil
}

// entries are those of a directory; none if it is not there.
func (h *Volumes) entries(dir string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(h.pods.Root.FS(), dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return entries, err
}
