package volume

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/supervisor/host/kernel/mounts"
	"github.com/troupe-dev/troupe/supervisor/host/volume/internal/unmount"
)

// inOwnVolumes parts the mounts that a pod has left in its emptyDirs (mountPropagation Bidirectional, FUSE) from
// others. The deepest come first. What is mounted in a part of an emptyDir, or of a volume of a CSI driver that no
// other pod has, that a container has by subPath is one of them.
func (h *Volumes) inOwnVolumes(pod string, all []mounts.Mount) (within, others []mounts.Mount) {
	volumes := filepath.Join(pod, volumesDir)
	for _, m := range all {
		rest := strings.TrimPrefix(m.Point, filepath.Join(h.pods.Real, pod)+"/")
		parts := strings.Split(rest, "/")
		in := len(parts) > 3 && filepath.Join(parts[:2]...) == filepath.Join(volumesDir, emptyDirName)
		ofPart := len(parts) > 4 && parts[0] == subPathsDir && (h.exists(filepath.Join(volumes, emptyDirName, parts[1])) ||
			h.exists(filepath.Join(volumes, csiPlugin, parts[1])) && h.isOnly(volumes, csiPlugin, parts[1]))
		if in || ofPart {
			within = append(within, m)
		} else {
			others = append(others, m)
		}
	}
	unmount.DeepestFirst(within)
	return within, others
}

// isOnly says whether no other pod has a volume. volumes is the directory of those of a pod.
func (h *Volumes) isOnly(volumes, plugin, name string) bool {
	all, err := dirsOf(h.pods.Root.FS(), filepath.Join("*", volumesDir, plugin, name))
	own := filepath.Join(volumes, plugin, name)
	return err == nil && !slices.ContainsFunc(all, func(dir string) bool { return dir != own })
}

// unmountWithin unmounts what a pod has left in its emptyDir. The way there leads through what its processes have made
// and mounted: a child goes it.
func (h *Volumes) unmountWithin(ctx context.Context, m mounts.Mount) error {
	return h.unmountInChild(ctx, request{Path: m.Point, Source: h.pods.Real})
}

// ofAgent are the kinds of volumes whose content the agent makes and removes.
var ofAgent = [...]string{
	emptyDirName, configMapName, "kubernetes.io~secret", "kubernetes.io~downward-api", "kubernetes.io~projected",
}

// removeVolumes removes the directories of the volumes of a pod, when nothing is mounted there any more. Files stay in
// the directory of a volume that is only mounted there, or in a part of one: a container wrote them when it was not
// mounted, and somebody may need them.
func (h *Volumes) removeVolumes(ctx context.Context, dir string) error {
	for _, kind := range ofAgent {
		if err := h.pods.Remove(ctx, filepath.Join(dir, volumesDir), kind); err != nil {
			return err
		}
	}
	// A part is volume-subpaths/<volume>/<container>/<number>. It may be a file.
	const depthOfPart = 3
	err := h.pods.RemoveDirs(ctx, dir, subPathsDir, depthOfPart)
	if err == nil {
		err = h.pods.RemoveDirs(ctx, dir, volumesDir, 0)
	}
	// The markers last: while one is there, so is its volume.
	for _, sub := range [...]string{volumeDevicesDir, pluginsDir} {
		if err == nil {
			err = h.pods.Remove(ctx, dir, sub)
		}
	}
	return err
}
