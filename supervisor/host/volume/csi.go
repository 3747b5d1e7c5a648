package volume

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/actors/decide/usage"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/disk/agentdir"
	"github.com/troupe-dev/troupe/supervisor/host/internal/hostcall"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/mounts"
	"github.com/troupe-dev/troupe/supervisor/host/volume/blockmap"
)

// csiPlugin is the directory of CSI volumes of a pod, which package csidrivers keeps.
const csiPlugin = "kubernetes.io~csi"

// volumeDevicesDir has the devices of a pod.
const volumeDevicesDir = blockmap.DevicesDir

// DriverUse is what CSI drivers say of the use of their volumes.
type DriverUse interface {
	// Use is the use of a volume of a pod; false: its driver has not said, and at most Plugin is known.
	Use(uid, volume string) (usage.Volume, bool)
}

// UseCSI says that CSI drivers are there: what they have published for a pod stays until they have unpublished it.
func (h *Volumes) UseCSI(drivers DriverUse) { h.csi = drivers }

// withoutCSI fails while a CSI driver has to unpublish a volume of a pod.
func (h *Volumes) withoutCSI(dir string) error {
	if h.csi == nil {
		return nil
	}
	var names []string
	for _, sub := range []string{volumesDir, volumeDevicesDir} {
		some, err := h.pods.Names(filepath.Join(dir, sub, csiPlugin), nil)
		if err != nil {
			return err
		}
		names = append(names, some...)
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return hostcall.Failf(port.StateConflict,
		"nothing was removed: CSI drivers have not unpublished volumes of the pod yet: %s", strings.Join(names, ", "))
}

// Mounts is the mount table.
func (h *Volumes) Mounts() ([]mounts.Mount, error) { return h.mounts() }

// NoteClaim notes where the volume of a claim is, for statistics.
func (h *Volumes) NoteClaim(uid, volume, path string) { h.last.SetPlace(uid, volume, path) }

// ForgetClaims forgets where the claims of a pod are.
func (h *Volumes) ForgetClaims(uid string) { h.last.Forget(uid) }

// UnmountSubPaths unmounts what a pod's containers have mounted of its volumes, and what they left mounted in there.
func (h *Volumes) UnmountSubPaths(ctx context.Context, uid string) error {
	dir, err := agentdir.PodDir(uid)
	if err != nil {
		return err
	}
	all, err := h.mounts()
	if err != nil {
		return err
	}
	mine, left := split(mounts.Below(all, filepath.Join(h.pods.Real, dir, subPathsDir)), filepath.Join(h.pods.Real, dir))
	within, _ := h.inOwnVolumes(dir, left)
	return h.unmountAll(ctx, mine, within)
}
