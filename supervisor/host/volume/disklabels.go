package volume

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/troupe-dev/troupe/actors/decide/isolation"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/internal/hostcall"
)

// otherLabel has nothing mounted of a disk with another SELinux label than a pod needs: context= is an option of its
// file system, and so the same for all pods. A PersistentVolume that has this option itself has it for all pods, and
// on a host without SELinux mount(8) leaves it out. It fails while other pods have the disk. A pod that waits for
// them has no note, or they would leave the disk mounted to it, as would pods that wait for one another.
func (h *Volumes) otherLabel(
	ctx context.Context, ask *diskRequest, note string, r *port.MountVolume, bound bool,
) error {
	if own, _ := isolation.SELinuxMounted(strings.Join(ask.Want.Options, ",")); r.Label == "" && own != "" {
		return nil
	}
	a, err := h.disks.open()
	if err != nil {
		return err
	}
	point := filepath.Join(a.Real, ask.Dir())
	m, err := h.globalAt(point)
	if m == nil || err != nil {
		return err
	}
	has, _ := isolation.SELinuxMounted(m.Options)
	why := isolation.SELinuxConflict(r.Volume.Name, has, r.Label)
	if why == "" || bound {
		return nil
	}
	if err := h.pods.Root.Remove(note); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	_, used, err := h.otherDisks(a, &noted{Used: ask.Used, path: note})
	switch {
	case err != nil:
		return err
	case used:
		return hostcall.Failf(port.StateConflict, "%s", why)
	}
	return h.children.call(ctx, request{Op: opUnmount, Path: point})
}
