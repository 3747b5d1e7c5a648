package volume

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"

	"github.com/troupe-dev/troupe/actors/decide/blockdevice"
	"github.com/troupe-dev/troupe/actors/decide/isolation"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/disk/agentdir"
	"github.com/troupe-dev/troupe/supervisor/host/disk/durable"
	"github.com/troupe-dev/troupe/supervisor/host/internal/hostcall"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/mounts"
	"github.com/troupe-dev/troupe/supervisor/host/volume/blockmap"
	"github.com/troupe-dev/troupe/supervisor/host/volume/internal/blockmount"
	"github.com/troupe-dev/troupe/supervisor/host/volume/internal/netdisks"
	"github.com/troupe-dev/troupe/supervisor/host/volume/internal/unmount"
)

// Files of a disk that pods use.
//
//	plugins/kubernetes.io/iscsi/iface-<interface>/<portal>-<iqn>-lun-<n>    mounted once for all pods
//	                                                    …/iscsi.json       below the mount, as a kubelet has it
//	pods/<uid>/plugins/kubernetes.io~iscsi/<volume>/disk                   the pod's note
//	pods/<uid>/volumes/kubernetes.io~iscsi/<volume>                        bound from the mount above
//	plugins/kubernetes.io/iscsi/volumeDevices/iface-…/…                    of a device (mapped.go), with iscsi.json in it
//
// A note is written before anything is begun for its pod, and removed when all is undone: whatever an agent that was
// killed may have left is found by it. A disk is detached with its last note. A kubelet writes none: for its pods they
// are made of the mount table.
const (
	iscsiPlugin = "kubernetes.io~iscsi"
	fcPlugin    = "kubernetes.io~fc"
	diskNote    = "disk"
	iscsiNote   = "iscsi.json"
)

// diskPlugins are the directories of disks in the directory of a pod.
var diskPlugins = [...]string{iscsiPlugin, fcPlugin}

// disks is what a Host knows of them. What there is, is on disk and in the mount table.
type disks struct {
	root    string
	machine netdisks.Machine
	// held are the targets that something is being done with, and what else is locked by a name.
	held places
	// mu guards at, which is root, open once it is needed.
	mu sync.Mutex
	at *agentdir.Dir
}

// open opens the directory of plugins.
func (d *disks) open() (*agentdir.Dir, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.at != nil {
		return d.at, nil
	}
	var err error
	d.at, err = agentdir.Open(d.root, agentdir.Mode)
	return d.at, err
}

func (d *disks) close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.at == nil {
		return nil
	}
	return d.at.Root.Close()
}

// target waits for the turn of a request, and then until nothing else is being done with its target: a pod that waits
// for its turn holds up no other pod that uses the target. What is mounted already needs no turn; what is to be mapped
// always asks a child, which must not wait for a turn then.
func (h *Volumes) target(ctx context.Context, r *request) (release func(), err error) {
	back := func() {}
	m, err := h.globalAt(r.Path)
	if err == nil && (m == nil || r.Disk.Map != nil) {
		back, err = h.children.reserve(ctx, r)
	}
	if err != nil {
		return nil, err
	}
	free, err := h.disks.held.take(ctx, r.Disk.Target())
	if err != nil {
		back()
		return nil, err
	}
	return func() { free(); back() }, nil
}

// diskRequest is what a child does with a disk.
type diskRequest struct {
	blockdevice.Used
	Machine netdisks.Machine `json:"machine"`
	CHAP    blockdevice.CHAP `json:"chap"`
	// Want is how it is mounted, or Map where it is mapped (volumeMode Block).
	Want *blockdevice.MountWant `json:"want,omitempty"`
	Map  *blockmap.Map          `json:"map,omitempty"`
	// Release: it is unmounted and detached. Others are the other ones in use.
	Release bool               `json:"release,omitempty"`
	Others  []blockdevice.Used `json:"others,omitempty"`
}

// perform does it. left are devices that were not detached, because something else uses them.
func (r *diskRequest) perform(point string) (left []string, err error) {
	ctx, machine := context.Background(), r.Machine // the child is killed at the deadline
	if r.Release {
		if err := unmount.Whole(point, unmount.Within); err != nil {
			return nil, err
		}
		if r.FC != nil {
			return machine.DetachFC(ctx, r.FC, r.Others)
		}
		return machine.DetachISCSI(ctx, &r.Used, r.Others)
	}
	var device string
	if r.FC != nil {
		device, err = machine.AttachFC(ctx, r.FC)
	} else {
		device, err = machine.AttachISCSI(ctx, r.ISCSI, r.CHAP)
	}
	if err != nil {
		return nil, err
	}
	if r.Map != nil {
		return nil, r.Map.Set(device)
	}
	want := *r.Want
	want.Device = device
	return nil, blockmount.Mount(&want, point)
}

// iscsi mounts a LUN of an iSCSI target. name is that of the volume or of its PersistentVolume.
func (h *Volumes) iscsi(ctx context.Context, r *port.MountVolume, name string) (string, error) {
	s := blockdevice.ISCSIOf(r.Pod.Namespace, r.Volume, r.Persistent)
	d, err := blockdevice.NewISCSI(name, s)
	if err != nil {
		return "", hostcall.Failf(port.InvalidConfig, "volume %q: %v", r.Volume.Name, err)
	}
	want := blockdevice.MountWant{Type: s.FSType, ReadOnly: s.ReadOnly || r.ReadOnly}
	return h.mountDisk(ctx, r, iscsiPlugin, name, diskRequest{Used: blockdevice.Used{ISCSI: d}, CHAP: r.CHAP, Want: &want})
}

// fc mounts a disk of Fibre Channel, as iscsi does.
func (h *Volumes) fc(ctx context.Context, r *port.MountVolume, name string) (string, error) {
	s := blockdevice.FCOf(r.Volume, r.Persistent)
	d, err := blockdevice.NewFC(s)
	if err != nil {
		return "", hostcall.Failf(port.InvalidConfig, "volume %q: %v", r.Volume.Name, err)
	}
	want := blockdevice.MountWant{Type: s.FSType, ReadOnly: s.ReadOnly || r.ReadOnly}
	return h.mountDisk(ctx, r, fcPlugin, name, diskRequest{Used: blockdevice.Used{FC: d}, Want: &want})
}

// mountDisk mounts a disk for all pods, unless it is, and binds it into one.
func (h *Volumes) mountDisk(
	ctx context.Context, r *port.MountVolume, plugin, name string, ask diskRequest,
) (string, error) {
	ask.Machine = h.disks.machine
	if podspec.IsDevice(r.Persistent) {
		return h.mapDisk(ctx, r, plugin, name, ask)
	}
	if r.Persistent != nil {
		ask.Want.Options = mountOptions(r.Persistent)
	}
	ask.Want.Options = isolation.SELinuxOptions(ask.Want.Options, r.Label)
	return h.bindOnce(ctx, r, plugin, name, func(ctx context.Context, bind *request) error {
		if ask.Want.ReadOnly {
			bind.Options = []string{"ro"}
		}
		a, err := h.disks.open()
		if err != nil {
			return err
		}
		mount := request{Op: opDisk, Path: filepath.Join(a.Real, ask.Dir()), Disk: &ask, pod: string(r.Pod.UID)}
		release, err := h.target(ctx, &mount)
		if err != nil {
			return err
		}
		defer release()
		note := filepath.Join(string(r.Pod.UID), pluginsDir, plugin, name, diskNote)
		if err := h.otherLabel(ctx, &ask, note, r, bind.Mounted); err != nil {
			return err
		}
		if err := h.noteDisk(string(r.Pod.UID), plugin, name, &ask.Used); err != nil {
			return err
		}
		bind.Source = mount.Path
		return h.mountShared(ctx, a, mount)
	})
}

// mountShared mounts a disk where all pods get it from.
func (h *Volumes) mountShared(ctx context.Context, a *agentdir.Dir, mount request) error {
	if m, err := h.globalAt(mount.Path); m != nil || err != nil {
		return err
	}
	if err := noteShared(a, &mount.Disk.Used); err != nil {
		return err
	}
	return h.children.call(ctx, mount)
}

// noteShared makes the directory of a disk, with the file that a kubelet has there.
func noteShared(a *agentdir.Dir, u *blockdevice.Used) error {
	if err := a.Root.MkdirAll(u.Dir(), agentdir.Mode); err != nil || u.ISCSI == nil {
		return err
	}
	raw, err := json.Marshal(u.ISCSI)
	if err != nil {
		return err
	}
	return durable.Write(a.Root, filepath.Join(u.Dir(), iscsiNote), raw, readyFileMode, durable.Whole)
}

func (h *Volumes) globalAt(point string) (*mounts.Mount, error) {
	all, err := h.mounts()
	if err != nil {
		return nil, err
	}
	return mounts.At(all, point), nil
}

// withoutDisks fails while a pod has notes.
func (h *Volumes) withoutDisks(pod string) error {
	notes, err := h.notesOf(pod)
	if err != nil || len(notes) == 0 {
		return err
	}
	return hostcall.Failf(port.StateConflict, "nothing was removed: the pod still has %s", &notes[0])
}

// releaseDisks detaches the disks of a pod that nothing else uses, and removes the notes. Nothing of the pod is mounted
// any more. What fails for one disk does not hold up the others.
func (h *Volumes) releaseDisks(ctx context.Context, pod string) error {
	notes, failed := h.notesOf(pod)
	for i := range notes {
		err := h.releaseDisk(ctx, &notes[i])
		if err == nil {
			if err = h.pods.Root.Remove(notes[i].path); errors.Is(err, fs.ErrNotExist) {
				err = nil
			}
		}
		failed = errors.Join(failed, err)
	}
	return failed
}

func (h *Volumes) releaseDisk(ctx context.Context, n *noted) error {
	a, err := h.disks.open()
	if err != nil {
		return err
	}
	release, err := h.disks.held.take(ctx, n.Target())
	if err != nil {
		return err
	}
	defer release()
	others, used, err := h.otherDisks(a, n)
	if used || err != nil {
		return err
	}
	point, dir := filepath.Join(a.Real, n.Dir()), n.Dir()
	m, err := h.globalAt(point)
	if err != nil {
		return err
	}
	if n.Partial && n.ISCSI != nil { // of a kubelet: the file that says all of it is under the mount
		if m != nil {
			if err := h.children.call(ctx, request{Op: opUnmount, Path: point, Alone: true}); err != nil {
				return err
			}
		}
		if raw, err := a.Root.ReadFile(filepath.Join(dir, iscsiNote)); err == nil {
			// If it can't be read, what the name of the directory says has to do.
			var all blockdevice.ISCSI
			if json.Unmarshal(raw, &all) == nil && len(all.Portals) > 0 && all.Dir() == n.ISCSI.Dir() {
				n.ISCSI = &all
			}
		}
	}
	ask := diskRequest{Used: n.Used, Machine: h.disks.machine, Release: true, Others: others}
	done, err := h.children.ask(ctx, request{Op: opDisk, Path: point, Disk: &ask})
	if err != nil {
		return err
	}
	if len(done.Left) > 0 {
		h.warn("disk of an ended pod stays attached, because something else uses its devices",
			"disk", n.String(), "devices", done.Left)
	}
	note := filepath.Join(dir, iscsiNote)
	for _, path := range []string{durable.Temporary(note), note, dir} {
		if err := a.Root.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if n.ISCSI != nil {
		a.Root.Remove(filepath.Dir(dir)) //nolint:errcheck // other LUNs may be there
	}
	return nil
}

// otherDisks are the disks that are in use besides a pod's. used: its own is, by another volume.
func (h *Volumes) otherDisks(a *agentdir.Dir, n *noted) (others []blockdevice.Used, used bool, err error) {
	all, err := h.mounts()
	if err != nil {
		return nil, false, err
	}
	global, err := h.globalAt(filepath.Join(a.Real, n.Dir()))
	if err != nil {
		return nil, false, err
	}
	// Without a note that can be read: of a kubelet, or of a pod whose note is damaged.
	if n.Block && len(mounts.Below(all, filepath.Join(a.Real, n.Dir()))) > 0 {
		return nil, true, nil
	}
	for _, m := range mounts.Below(all, h.pods.Real) {
		if global != nil && m.Source == global.Source && strings.Contains(m.Point, "/"+volumesDir+"/kubernetes.io~") {
			return nil, true, nil
		}
	}
	notes, err := h.otherNotes(n.path)
	if err != nil {
		return nil, false, err
	}
	known := map[string]bool{n.Dir(): true}
	for i := range notes {
		if notes[i].Dir() == n.Dir() {
			return nil, true, nil
		}
		known[notes[i].Dir()] = true
		others = append(others, notes[i].Used)
	}
	more, err := otherDirs(a, known)
	return append(others, more...), false, err
}

// otherDirs are the disks that have a directory, besides those that are known.
func otherDirs(a *agentdir.Dir, known map[string]bool) (out []blockdevice.Used, err error) {
	const devices = "/" + volumeDevicesDir + "/"
	for _, pattern := range []string{
		blockdevice.ISCSIDir + "/iface-*/*", blockdevice.ISCSIDir + devices + "iface-*/*", blockdevice.FCDir + "/*",
		blockdevice.FCDir + devices + "*",
	} {
		dirs, err := dirsOf(a.Root.FS(), pattern)
		if err != nil {
			return nil, err
		}
		for _, dir := range dirs {
			u, err := blockdevice.OfDir(dir)
			if err == nil && !known[dir] && filepath.Base(dir) != filepath.Base(devices) {
				out = append(out, u)
			}
		}
	}
	return out, nil
}
