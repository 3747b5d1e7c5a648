package podlogs

import (
	"os"
	"path/filepath"

	"github.com/troupe-dev/troupe/supervisor/host/kernel/resourceuse"
)

// Use is what the log files of a container take below root, the directory of all pods' logs: bytes on the
// disk, and files. It is false if the container has none.
func Use(root, namespace, pod, uid, container string) (bytes, files uint64, ok bool) {
	entries, err := os.ReadDir(filepath.Join(root, namespace+"_"+pod+"_"+uid, container))
	if err != nil {
		return 0, 0, false
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			bytes += resourceuse.OnDisk(info)
			files++
		}
	}
	return bytes, files, true
}
