package volume

import (
	"context"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/mounts"
)

// GiveToGroup gives the files of a mounted volume to a group, in a child process. With onMismatch, unless its top has
// the group already. Files that can't be given stay as they are, as with a kubelet: whoever reads the log is told.
func (h *Volumes) GiveToGroup(
	ctx context.Context, path string, group int64, onMismatch bool, walked port.Walked,
) error {
	a, err := h.children.ask(ctx, request{
		Op: opBind, Path: path, Mounted: true, Group: &group, OnMismatch: onMismatch, walked: walked,
	})
	if err == nil && a.Refused > 0 {
		h.warn("fsGroup not applied to some files of a volume; the pod starts anyway",
			"path", path, "fsGroup", group, "files", a.Refused, "firstError", a.Why)
	}
	return err
}

// grouping is about the group of the volume name of a plugin, mounted at dir of its pod.
type grouping struct {
	r                 *port.MountVolume
	plugin, name, dir string
	group             int64
	readOnly          bool
}

// settle gives the files of a volume to the group of its pod, unless it is read-only, or another pod has it. Other pods
// wait for release.
func (h *Volumes) settle(ctx context.Context, g *grouping) (release func(), err error) {
	release = func() {}
	if !g.readOnly {
		// One pod after another: two at once would leave some files to the one, and some to the other.
		if release, err = h.disks.held.take(ctx, "group/"+g.plugin+"/"+g.name); err != nil {
			return func() {}, err
		}
	}
	path := filepath.Join(h.pods.Real, g.dir)
	switch taken, err := h.inOtherPod(g.dir, g.plugin); {
	case err != nil:
		return release, err
	case taken:
		return release, h.wantGroup(ctx, path, g.group, g.r.Taken)
	case g.readOnly:
		return release, nil
	}
	c := g.r.Pod.Spec.SecurityContext.FSGroupChangePolicy
	return release, h.GiveToGroup(ctx, path, g.group, c != nil && *c == v1.FSGroupChangeOnRootMismatch, g.r.Walked)
}

// inOtherPod reports whether another pod has a local volume, be it by another name. Its files stay as that one has
// them, as with a kubelet.
func (h *Volumes) inOtherPod(dir, plugin string) (bool, error) {
	if plugin != localPlugin {
		return false, nil
	}
	all, err := h.mounts()
	if err != nil {
		return false, err
	}
	mine := mounts.Of(all, filepath.Join(h.pods.Real, dir))
	for _, m := range mounts.Below(all, h.pods.Real) {
		parts := strings.Split(strings.TrimPrefix(m.Point, h.pods.Real+"/"), "/")
		if len(parts) == 4 && parts[1] == volumesDir && parts[2] == plugin && m.Point != mine.Point &&
			m.Device == mine.Device && m.Root == mine.Root &&
			h.exists(filepath.Join(parts[0], pluginsDir, plugin, parts[3], readyFile)) {
			return true, nil
		}
	}
	return false, nil
}

// wantGroup changes nothing, and tells taken if the volume is of another group.
func (h *Volumes) wantGroup(ctx context.Context, path string, group int64, taken func(group int64)) error {
	a, err := h.children.ask(ctx, request{Op: opBind, Path: path, Mounted: true, Group: &group, Taken: true})
	if err == nil && a.Group != nil && taken != nil {
		taken(*a.Group)
	}
	return err
}
