package host

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/port"
)

// UnmountPod implements port.Host.
func (h *Host) UnmountPod(ctx context.Context, uid types.UID, done func(error)) {
	run(ctx, "UnmountPod", string(uid), func(ctx context.Context) error { return h.unmountPod(ctx, string(uid)) }, done)
}

func (h *Host) unmountPod(ctx context.Context, uid string) error {
	dir, err := podDir(uid)
	if err != nil {
		return err
	}
	if !h.exists(dir) {
		return nil
	}
	all, err := h.mounts()
	if err != nil {
		return err
	}
	mine, foreign := split(mountsBelow(all, filepath.Join(h.pods.real, dir)), filepath.Join(h.pods.real, dir, volumesDir))
	if err := stillMounted(foreign); err != nil {
		return err
	}
	// The newest first: it may be mounted over an older one.
	for _, m := range slices.Backward(mine) {
		if err := h.children.call(ctx, request{Op: opUnmount, Path: m.Point}); err != nil {
			return err
		}
	}
	if len(mine) > 0 {
		if all, err = h.mounts(); err != nil {
			return err
		}
		if err := stillMounted(mountsBelow(all, filepath.Join(h.pods.real, dir))); err != nil {
			return err
		}
	}
	// The markers last: while one is there, so is its volume.
	for _, sub := range []string{volumesDir, pluginsDir} {
		if err := h.pods.remove(ctx, dir, sub); err != nil {
			return err
		}
	}
	return nil
}

// split parts the mounts that are volumes of ours, tmpfs at <volumes>/<type>/<name>,
// from those that are not.
func split(mounts []mount, volumes string) (mine, foreign []mount) {
	for _, m := range mounts {
		rest, ok := strings.CutPrefix(m.Point, volumes+"/")
		if ok && strings.Count(rest, "/") == 1 && m.Type == "tmpfs" {
			mine = append(mine, m)
		} else {
			foreign = append(foreign, m)
		}
	}
	return mine, foreign
}

// stillMounted names what keeps a directory from being removed.
func stillMounted(mounts []mount) error {
	const most = 3
	if len(mounts) == 0 {
		return nil
	}
	var names []string
	for _, m := range mounts[:min(most, len(mounts))] {
		names = append(names, m.String())
	}
	if len(mounts) > most {
		names = append(names, "and more")
	}
	return fail(port.StateConflict, "still mounted, nothing was removed: %s: unmount it", strings.Join(names, ", "))
}

// RemovePod implements port.Host.
func (h *Host) RemovePod(ctx context.Context, ref port.PodDirs, done func(error)) {
	object := string(ref.UID)
	if ref.Name != "" {
		object = ref.Namespace + "/" + ref.Name
	}
	run(ctx, "RemovePod", object, func(ctx context.Context) error { return h.removePod(ctx, ref) }, done)
}

func (h *Host) removePod(ctx context.Context, ref port.PodDirs) error {
	dir, err := podDir(string(ref.UID))
	if err != nil {
		return err
	}
	logs := ""
	if ref.Name != "" { // of an orphan's directory only the UID is known
		if logs, err = logDir(ref); err != nil {
			return err
		}
	}
	all, err := h.mounts()
	if err != nil {
		return err
	}
	mounted := mountsBelow(all, filepath.Join(h.pods.real, dir))
	if logs != "" {
		mounted = append(mounted, mountsBelow(all, filepath.Join(h.logs.real, logs))...)
	}
	if err := stillMounted(mounted); err != nil {
		return err
	}
	if err := h.pods.remove(ctx, ".", dir); err != nil {
		return err
	}
	if logs == "" {
		return nil
	}
	return h.logs.remove(ctx, ".", logs)
}

// remove takes away name in dir, both below the area.
func (a area) remove(ctx context.Context, dir, name string) error {
	parent, err := a.root.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer parent.Close() //nolint:errcheck // nothing was written
	return removeTree(ctx, parent, name)
}

// PodDirs implements port.Host.
func (h *Host) PodDirs(ctx context.Context, done func([]types.UID, error)) {
	call(ctx, "PodDirs", h.pods.path, func(context.Context) ([]types.UID, error) {
		dir, err := h.pods.root.Open(".")
		if err != nil {
			return nil, err
		}
		defer dir.Close() //nolint:errcheck // nothing was written
		entries, err := dir.ReadDir(-1)
		if err != nil {
			return nil, err
		}
		var out []types.UID
		for _, e := range entries {
			if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
				out = append(out, types.UID(e.Name()))
			}
		}
		slices.Sort(out)
		return out, nil
	}, done)
}
