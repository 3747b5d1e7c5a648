package node

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/troupe-dev/troupe/supervisor/host/kernel/mounts"
)

// shareRoot makes the root directory a shared mount, for pods with mountPropagation Bidirectional: those of CSI drivers
// (docs/decisions/0067). Without it other pods run as usual. A simulated runtime mounts nothing.
func (d *nodeDaemon) shareRoot(context.Context) error {
	if !d.onRealMachine() {
		return nil
	}
	log, root := d.Log, d.rootDir()
	made, err := mounts.Share(root)
	if err != nil {
		log.Warn().Str("rootDir", root).Str("error", err.Error()).Msg("the root directory is not a shared mount, so " +
			"the runtime refuses containers with mountPropagation Bidirectional that mount it, as those of CSI drivers " +
			"do: run mount --make-rshared on the file system that it is on")
		return nil
	}
	if !made {
		return nil
	}
	log.Info().Str("rootDir", root).Msg("mounted the root directory on itself as a shared mount")
	d.closers = append(d.closers, func() {
		if err := unshareRoot(root); err != nil {
			log.Warn().Str("rootDir", root).Str("error", err.Error()).Msg("cannot unmount the root directory from itself")
		}
	})
	return nil
}

// unshareRoot leaves no mount behind on a node without pods and volumes. Containers that run go on to use it, and
// what is mounted below it would be gone with it.
func unshareRoot(root string) error {
	pods, err := os.ReadDir(filepath.Join(root, "pods"))
	if len(pods) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return mounts.Unshare(root)
}
