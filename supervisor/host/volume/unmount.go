package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/disk/agentdir"
	"github.com/troupe-dev/troupe/supervisor/host/internal/hostcall"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/mounts"
	"github.com/troupe-dev/troupe/supervisor/host/volume/internal/unmount"
)

// UnmountPod implements port.Host.
func (h *Volumes) UnmountPod(ctx context.Context, uid types.UID, done func(error)) {
	hostcall.Do(ctx, "UnmountPod", string(uid), func(ctx context.Context) error {
		h.last.Forget(string(uid)) // also after a failure: a volume that is half unmounted must not be read
		return h.unmountPod(ctx, string(uid))
	}, done)
}

func (h *Volumes) unmountPod(ctx context.Context, uid string) error {
	dir, err := agentdir.PodDir(uid)
	if err != nil {
		return err
	}
	if gone, err := h.withoutVolumes(dir); gone || err != nil {
		return err
	}
	if err := h.withoutCSI(dir); err != nil {
		return err
	}
	all, err := h.mounts()
	if err != nil {
		return err
	}
	mine, within, err := h.ours(dir, mounts.Below(all, filepath.Join(h.pods.Real, dir)))
	if err != nil {
		return err
	}
	if err := errors.Join(h.noteDisks(dir, mine, all), h.noteMaps(dir)); err != nil {
		return err
	}
	if err := h.unmountAll(ctx, mine, within); err != nil {
		return err
	}
	if len(mine)+len(within) > 0 {
		if all, err = h.mounts(); err != nil {
			return err
		}
		if err := stillMounted(mounts.Below(all, filepath.Join(h.pods.Real, dir))); err != nil {
			return err
		}
	}
	if err := h.unmapDevices(ctx, dir); err != nil {
		return err
	}
	if err := errors.Join(h.releaseDisks(ctx, dir), h.releaseLocal(ctx, dir), h.releaseMaps(dir)); err != nil {
		return err
	}
	h.takeProjects(filepath.Join(dir, volumesDir))
	return h.removeVolumes(ctx, dir)
}

// ours are the mounts of a pod's volumes, and those that it has left within its emptyDirs. What is within the others
// goes with them. All else is an error.
func (h *Volumes) ours(dir string, all []mounts.Mount) (mine, within []mounts.Mount, err error) {
	mine, foreign := split(all, filepath.Join(h.pods.Real, dir))
	within, foreign = h.inOwnVolumes(dir, foreign)
	foreign = slices.DeleteFunc(foreign, func(f mounts.Mount) bool {
		return slices.ContainsFunc(mine, func(m mounts.Mount) bool { return strings.HasPrefix(f.Point, m.Point+"/") })
	})
	return mine, within, stillMounted(foreign)
}

func (h *Volumes) unmountAll(ctx context.Context, mine, within []mounts.Mount) error {
	for _, m := range within {
		if err := h.unmountWithin(ctx, m); err != nil {
			return err
		}
	}
	// The newest first: it may be mounted over an older one, or be a part of one.
	for _, m := range slices.Backward(mine) {
		if err := h.unmountOne(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// ofVolumes are the directories below a pod's in which its volumes are.
var ofVolumes = [...]string{subPathsDir, volumesDir, volumeDevicesDir, pluginsDir}

// withoutVolumes removes the directories of a pod's volumes if they are empty, and reports
// whether they are gone. Then the mount table need not be read: with a hundred pods, that is most
// of the cost of a pod's end here.
func (h *Volumes) withoutVolumes(dir string) (bool, error) {
	parent, err := h.pods.Root.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer parent.Close() //nolint:errcheck // nothing was written
	for _, sub := range ofVolumes {
		// It fails for one that is mounted, and the caller reports that.
		if err := unix.Unlinkat(int(parent.Fd()), sub, unix.AT_REMOVEDIR); err != nil && !errors.Is(err, unix.ENOENT) {
			return false, nil //nolint:nilerr // there is something to take down
		}
	}
	return true, nil
}

// unmountPatience is how long a server may take for an unmount before it is forced.
const unmountPatience = 20 * time.Second

// unmountOne removes one mount. One of a file system with a server may hang, and so may a disk of a network.
func (h *Volumes) unmountOne(ctx context.Context, m mounts.Mount) error {
	if m.Local() && !slices.Contains(diskPlugins[:], filepath.Base(filepath.Dir(m.Point))) {
		if err := unmount.At("", m.Point, 0); hostcall.KindOf(err) != port.StateConflict {
			return err
		}
	}
	alone, err := h.aloneHas(m)
	if err != nil {
		return err
	}
	return h.unmountInChild(ctx, request{Path: m.Point, Whole: !alone, Alone: alone})
}

// aloneHas says of a volume whether it is a disk that the agent has mounted, and no other pod has it. What is mounted
// within is seen where the agent has it as well, and by who looks at the directories of all pods: it must be gone there
// too before the disk can be detached.
func (h *Volumes) aloneHas(m mounts.Mount) (bool, error) {
	if plugin := filepath.Base(filepath.Dir(m.Point)); plugin != localPlugin && !slices.Contains(diskPlugins[:], plugin) {
		return false, nil
	}
	all, err := h.mounts()
	if err != nil {
		return false, err
	}
	pod, _, _ := strings.Cut(strings.TrimPrefix(m.Point, h.pods.Real+"/"), "/")
	shared, ofAgent := false, false
	for _, o := range all {
		if o.Device != m.Device {
			continue
		}
		rest, ofPod := strings.CutPrefix(o.Point, h.pods.Real+"/")
		shared = shared || ofPod && !strings.HasPrefix(rest, pod+"/")
		ofAgent = ofAgent || strings.HasPrefix(o.Point, h.disks.root+"/")
	}
	return ofAgent && !shared, nil
}

func (h *Volumes) unmountInChild(ctx context.Context, r request) error {
	patient, cancel := context.WithTimeout(ctx, unmountPatience)
	defer cancel()
	r.Op = opUnmount
	err := h.children.call(patient, r)
	if patient.Err() == nil && hostcall.KindOf(err) != port.Unavailable || ctx.Err() != nil {
		return err
	}
	r.Op = opForce
	return h.children.call(ctx, r)
}

// split parts the mounts that are where volumes of ours are mounted, which is
// volumes/<type>/<name> and volume-subpaths/<volume>/<container>/<number> below
// the pod's directory, from those that are not.
func split(mounts []mounts.Mount, pod string) (mine, foreign []mounts.Mount) {
	for _, m := range mounts {
		parts := strings.Split(strings.TrimPrefix(m.Point, pod+"/"), "/")
		if len(parts) == 3 && parts[0] == volumesDir || len(parts) == 4 && parts[0] == subPathsDir {
			mine = append(mine, m)
		} else {
			foreign = append(foreign, m)
		}
	}
	return mine, foreign
}

// stillMounted names what keeps a directory from being removed.
func stillMounted(mounts []mounts.Mount) error {
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
	return hostcall.Failf(port.StateConflict, "still mounted, nothing was removed: %s: unmount it",
		strings.Join(names, ", "))
}

// RemovePod implements port.Host.
func (h *Volumes) RemovePod(ctx context.Context, ref port.PodDirs, done func(error)) {
	object := string(ref.UID)
	if ref.Name != "" {
		object = ref.Namespace + "/" + ref.Name
	}
	hostcall.Do(ctx, "RemovePod", object, func(ctx context.Context) error { return h.removePod(ctx, ref) }, done)
}

func (h *Volumes) removePod(ctx context.Context, ref port.PodDirs) error {
	dir, err := agentdir.PodDir(string(ref.UID))
	if err != nil {
		return err
	}
	if err := h.withoutCSI(dir); err != nil {
		return err
	}
	if err := errors.Join(h.withoutDisks(dir), h.withoutDevices(dir)); err != nil {
		return err
	}
	logDirs, err := h.logs.Dir()
	if err != nil {
		return fmt.Errorf("open the pod logs directory: %w", err)
	}
	logs, err := logsOf(logDirs, ref)
	if err != nil {
		return err
	}
	all, err := h.mounts()
	if err != nil {
		return err
	}
	mounted := mounts.Below(all, filepath.Join(h.pods.Real, dir))
	for _, name := range logs {
		mounted = append(mounted, mounts.Below(all, filepath.Join(logDirs.Real, name))...)
	}
	if err := stillMounted(mounted); err != nil {
		return err
	}
	for _, name := range logs {
		if err := logDirs.Remove(ctx, ".", name); err != nil {
			return err
		}
	}
	if err := h.removeVolumes(ctx, dir); err != nil {
		return err
	}
	// Last: by this directory the remains of a pod are found.
	return h.pods.Remove(ctx, ".", dir)
}

// logsOf are the names of a pod's log directories: one, or, of an orphan of
// which only the UID is known, those that there are.
func logsOf(logDirs *agentdir.Dir, ref port.PodDirs) ([]string, error) {
	if ref.Name != "" {
		name, err := agentdir.LogDir(ref)
		return []string{name}, err
	}
	return logDirs.Names(".", func(e fs.DirEntry) bool {
		// Neither a namespace nor a pod's name has an underscore.
		parts := strings.SplitN(e.Name(), "_", 3)
		return e.IsDir() && len(parts) == 3 && parts[2] == string(ref.UID)
	})
}

// PodDirs implements port.Host.
func (h *Volumes) PodDirs(ctx context.Context, done func([]types.UID, error)) {
	hostcall.Get(ctx, "PodDirs", h.pods.Path, func(context.Context) ([]types.UID, error) {
		names, err := h.pods.Names(".", func(e fs.DirEntry) bool { return e.IsDir() && !strings.HasPrefix(e.Name(), ".") })
		var out []types.UID
		for _, name := range names {
			out = append(out, types.UID(name))
		}
		return out, err
	}, done)
}
