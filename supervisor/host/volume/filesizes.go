package volume

import (
	"path/filepath"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/usage"
	"github.com/troupe-dev/troupe/actors/decide/volumefiles"
	"github.com/troupe-dev/troupe/supervisor/host/disk/agentdir"
)

// FilesInMemory is what the volumes of a pod with files of the API take of the memory, in bytes. It asks no server.
func (h *Volumes) FilesInMemory(p *v1.Pod) (sum uint64) {
	uid, err := agentdir.PodDir(string(p.UID))
	if err != nil {
		return 0
	}
	for v := range podspec.Volumes(&p.Spec) {
		if !volumefiles.Holds(v) || agentdir.Element("volume name", v.Name) != nil {
			continue
		}
		dir := filepath.Join(uid, volumesDir, filesPlugin(v), v.Name)
		if mounted, err := h.mountedAt(dir, "tmpfs"); !mounted || err != nil {
			continue
		}
		var s unix.Statfs_t
		if unix.Statfs(filepath.Join(h.pods.Real, dir), &s) == nil && s.Type == unix.TMPFS_MAGIC {
			sum += (s.Blocks - s.Bfree) * uint64(s.Bsize)
		}
	}
	return sum
}

// contents says how often volumes got new content so far, for noteSize.
func (h *Volumes) contents() uint64 {
	h.placesMu.Lock()
	defer h.placesMu.Unlock()
	return h.written
}

// sizeOf is what a volume with files of the API takes, if it was measured since they were written.
func (h *Volumes) sizeOf(uid, volume string) (usage.Disk, bool) {
	h.placesMu.Lock()
	defer h.placesMu.Unlock()
	d, is := h.sizes[uid][volume]
	return d, is
}

// noteSize remembers what such a volume takes, unless one was written after contents: it may be this one.
func (h *Volumes) noteSize(uid, volume string, d usage.Disk, contents uint64) {
	h.placesMu.Lock()
	defer h.placesMu.Unlock()
	if h.written == contents {
		h.setSize(uid, volume, d)
	}
}

// noteUse remembers what was measured last of a volume of a server, if it is there still.
func (h *Volumes) noteUse(uid, volume string, d usage.Disk) {
	h.placesMu.Lock()
	defer h.placesMu.Unlock()
	if h.places[uid][volume] != "" {
		h.setSize(uid, volume, d)
	}
}

func (h *Volumes) setSize(uid, volume string, d usage.Disk) {
	if h.sizes == nil {
		h.sizes = map[string]map[string]usage.Disk{}
	}
	if h.sizes[uid] == nil {
		h.sizes[uid] = map[string]usage.Disk{}
	}
	h.sizes[uid][volume] = d
}

// forgetSize has a volume measured again: its files were written.
func (h *Volumes) forgetSize(uid, volume string) {
	h.placesMu.Lock()
	defer h.placesMu.Unlock()
	h.written++
	delete(h.sizes[uid], volume)
}
