package volume

import (
	"path/filepath"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
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
