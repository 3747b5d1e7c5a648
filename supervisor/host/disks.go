package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/troupe-dev/troupe/actors/decide/blockfs"
	"github.com/troupe-dev/troupe/actors/decide/netdisk"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/area"
	"github.com/troupe-dev/troupe/supervisor/host/blockmount"
	"github.com/troupe-dev/troupe/supervisor/host/hostcall"
	"github.com/troupe-dev/troupe/supervisor/host/mounts"
	"github.com/troupe-dev/troupe/supervisor/host/netdisks"
)

// Files of a disk that pods use.
//
//	plugins/kubernetes.io/iscsi/iface-<interface>/<portal>-<iqn>-lun-<n>    mounted once for all pods
//	                                                    …/iscsi.json       below the mount, as a kubelet has it
//	pods/<uid>/plugins/kubernetes.io~iscsi/<volume>/disk                   the pod's note
//	pods/<uid>/volumes/kubernetes.io~iscsi/<volume>                        bound from the mount above
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
	// mu guards the rest. at is root, open once it is needed. held has the targets that something is being done with.
	mu   sync.Mutex
	at   *area.Area
	held map[string]*hold
}

// hold is a lock that a caller can give up waiting for.
type hold struct {
	free    chan struct{}
	waiting int
}

// open opens the directory of plugins.
func (d *disks) open() (*area.Area, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.at != nil {
		return d.at, nil
	}
	var err error
	d.at, err = area.Open(d.root, area.Mode)
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

// hold waits until nothing is being done with a target, or ctx ends.
func (d *disks) hold(ctx context.Context, target string) (release func(), err error) {
	d.mu.Lock()
	if d.held == nil {
		d.held = map[string]*hold{}
	}
	h := d.held[target]
	if h == nil {
		h = &hold{free: make(chan struct{}, 1)}
		d.held[target] = h
	}
	h.waiting++
	d.mu.Unlock()
	leave := func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if h.waiting--; h.waiting == 0 {
			delete(d.held, target)
		}
	}
	select {
	case h.free <- struct{}{}:
		return func() { <-h.free; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}

// diskRequest is what a child does with a disk.
type diskRequest struct {
	netdisk.Used
	Machine netdisks.Machine `json:"machine"`
	CHAP    netdisk.CHAP     `json:"chap"`
	Want    *blockfs.Want    `json:"want,omitempty"`
	// Release: it is unmounted and detached. Others are the other ones in use.
	Release bool           `json:"release,omitempty"`
	Others  []netdisk.Used `json:"others,omitempty"`
}

func (r *diskRequest) perform(point string) error {
	ctx, machine := context.Background(), r.Machine // the child is killed at the deadline
	if r.Release {
		if err := unmount(point, 0); err != nil {
			return err
		}
		if r.FC != nil {
			return machine.DetachFC(ctx, r.FC, r.Others)
		}
		return machine.DetachISCSI(ctx, r.ISCSI, r.Others)
	}
	var device string
	var err error
	if r.FC != nil {
		device, err = machine.AttachFC(ctx, r.FC)
	} else {
		device, err = machine.AttachISCSI(ctx, r.ISCSI, r.CHAP)
	}
	if err != nil {
		return err
	}
	want := *r.Want
	want.Device = device
	return blockmount.Mount(&want, point)
}

// iscsi mounts a LUN of an iSCSI target. name is that of the volume or of its PersistentVolume.
func (h *Host) iscsi(ctx context.Context, r *port.MountVolume, name string) (string, error) {
	s := netdisk.ISCSIOf(r.Pod.Namespace, r.Volume, r.Persistent)
	d, err := netdisk.NewISCSI(name, s)
	if err != nil {
		return "", hostcall.Failf(port.InvalidConfig, "volume %q: %v", r.Volume.Name, err)
	}
	want := blockfs.Want{Type: s.FSType, ReadOnly: s.ReadOnly || r.ReadOnly}
	return h.mountDisk(ctx, r, iscsiPlugin, name, diskRequest{Used: netdisk.Used{ISCSI: d}, CHAP: r.CHAP, Want: &want})
}

// fc mounts a disk of Fibre Channel, as iscsi does.
func (h *Host) fc(ctx context.Context, r *port.MountVolume, name string) (string, error) {
	s := netdisk.FCOf(r.Volume, r.Persistent)
	d, err := netdisk.NewFC(s)
	if err != nil {
		return "", hostcall.Failf(port.InvalidConfig, "volume %q: %v", r.Volume.Name, err)
	}
	want := blockfs.Want{Type: s.FSType, ReadOnly: s.ReadOnly || r.ReadOnly}
	return h.mountDisk(ctx, r, fcPlugin, name, diskRequest{Used: netdisk.Used{FC: d}, Want: &want})
}

// mountDisk mounts a disk for all pods, unless it is, and binds it into one.
func (h *Host) mountDisk(
	ctx context.Context, r *port.MountVolume, plugin, name string, ask diskRequest,
) (string, error) {
	ask.Machine = h.disks.machine
	if r.Persistent != nil {
		ask.Want.Options = r.Persistent.Spec.MountOptions
	}
	return h.bindOnce(ctx, r, plugin, name, func(bind *request) error {
		if ask.Want.ReadOnly {
			bind.Options = []string{"ro"}
		}
		if err := h.writeNote(string(r.Pod.UID), plugin, name, &ask.Used); err != nil {
			return err
		}
		release, err := h.disks.hold(ctx, ask.Target())
		if err != nil {
			return err
		}
		defer release()
		bind.Source, err = h.mountShared(ctx, ask)
		return err
	})
}

// mountShared mounts a disk where all pods get it from.
func (h *Host) mountShared(ctx context.Context, ask diskRequest) (string, error) {
	a, err := h.disks.open()
	if err != nil {
		return "", err
	}
	point := filepath.Join(a.Real, ask.Dir())
	if m, err := h.globalAt(point); m != nil || err != nil {
		return point, err
	}
	if err := a.Root.MkdirAll(ask.Dir(), area.Mode); err != nil {
		return "", err
	}
	if ask.ISCSI != nil {
		raw, err := json.Marshal(ask.ISCSI)
		if err != nil {
			return "", err
		}
		if err := a.Root.WriteFile(filepath.Join(ask.Dir(), iscsiNote), raw, readyFileMode); err != nil {
			return "", err
		}
	}
	return point, h.children.call(ctx, request{Op: opDisk, Path: point, Disk: &ask})
}

func (h *Host) globalAt(point string) (*mounts.Mount, error) {
	all, err := h.mounts()
	if err != nil {
		return nil, err
	}
	for i := range all {
		if all[i].Point == point {
			return &all[i], nil
		}
	}
	return nil, nil //nolint:nilnil // nothing is mounted
}

func (h *Host) writeNote(uid, plugin, name string, u *netdisk.Used) error {
	dir := filepath.Join(uid, pluginsDir, plugin, name)
	if h.exists(filepath.Join(dir, diskNote)) {
		return nil
	}
	raw, err := json.Marshal(u)
	if err != nil {
		return err
	}
	if err := h.pods.Root.MkdirAll(dir, area.Mode); err != nil {
		return err
	}
	// Complete or not there: half a note would say nothing about the disk.
	fresh := filepath.Join(dir, "."+diskNote)
	if err := h.pods.Root.WriteFile(fresh, raw, readyFileMode); err != nil {
		return err
	}
	return h.pods.Root.Rename(fresh, filepath.Join(dir, diskNote))
}

// noted is a note of a pod, with its path below the directory of pods.
type noted struct {
	netdisk.Used
	path string
}

// notesOf are the notes of a pod.
func (h *Host) notesOf(pod string) (out []noted, err error) {
	for _, plugin := range diskPlugins {
		dir := filepath.Join(pod, pluginsDir, plugin)
		entries, err := fs.ReadDir(h.pods.Root.FS(), dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, e := range entries {
			n := noted{path: filepath.Join(dir, e.Name(), diskNote)}
			raw, err := h.pods.Root.ReadFile(n.path)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err == nil {
				err = json.Unmarshal(raw, &n.Used)
			}
			if err == nil && !n.Valid() {
				err = errors.New("it names no disk")
			}
			if err != nil {
				return nil, fmt.Errorf("read %s: %w", filepath.Join(h.pods.Path, n.path), err)
			}
			out = append(out, n)
		}
	}
	return out, nil
}

// noteDisks makes notes for disks that a kubelet has mounted for a pod. mine are the mounts of the pod.
func (h *Host) noteDisks(pod string, mine, all []mounts.Mount) error {
	for _, m := range mine {
		plugin, name := filepath.Base(filepath.Dir(m.Point)), filepath.Base(m.Point)
		if !slices.Contains(diskPlugins[:], plugin) || h.exists(filepath.Join(pod, pluginsDir, plugin, name, diskNote)) {
			continue
		}
		a, err := h.disks.open()
		if err != nil {
			return err
		}
		for _, global := range mounts.Below(all, a.Real) {
			if global.Source != m.Source || !ofDisk(strings.TrimPrefix(global.Point, a.Real+"/")) {
				continue
			}
			u, err := netdisk.OfDir(strings.TrimPrefix(global.Point, a.Real+"/"))
			if err != nil {
				return hostcall.Failf(port.StateConflict, "nothing was unmounted: %s: %v", global.Point, err)
			}
			if err := h.writeNote(pod, plugin, name, &u); err != nil {
				return err
			}
			break
		}
	}
	return nil
}

// withoutDisks fails while a pod has notes.
func (h *Host) withoutDisks(pod string) error {
	notes, err := h.notesOf(pod)
	if err != nil || len(notes) == 0 {
		return err
	}
	return hostcall.Failf(port.StateConflict, "nothing was removed: the pod still has %s", &notes[0])
}

// releaseDisks detaches the disks of a pod that nothing else uses, and removes the notes. Nothing of the pod is mounted
// any more.
func (h *Host) releaseDisks(ctx context.Context, pod string) error {
	notes, err := h.notesOf(pod)
	if err != nil {
		return err
	}
	for i := range notes {
		if err := h.releaseDisk(ctx, &notes[i]); err != nil {
			return err
		}
		if err := h.pods.Root.Remove(notes[i].path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (h *Host) releaseDisk(ctx context.Context, n *noted) error {
	a, err := h.disks.open()
	if err != nil {
		return err
	}
	release, err := h.disks.hold(ctx, n.Target())
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
			if err := h.children.call(ctx, request{Op: opUnmount, Path: point}); err != nil {
				return err
			}
		}
		if raw, err := a.Root.ReadFile(filepath.Join(dir, iscsiNote)); err == nil {
			// If it can't be read, what the name of the directory says has to do.
			var all netdisk.ISCSI
			if json.Unmarshal(raw, &all) == nil && len(all.Portals) > 0 && all.Dir() == dir {
				n.ISCSI = &all
			}
		}
	}
	ask := diskRequest{Used: n.Used, Machine: h.disks.machine, Release: true, Others: others}
	if err := h.children.call(ctx, request{Op: opDisk, Path: point, Disk: &ask}); err != nil {
		return err
	}
	for _, path := range []string{filepath.Join(dir, iscsiNote), dir} {
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
func (h *Host) otherDisks(a *area.Area, n *noted) (others []netdisk.Used, used bool, err error) {
	all, err := h.mounts()
	if err != nil {
		return nil, false, err
	}
	global, err := h.globalAt(filepath.Join(a.Real, n.Dir()))
	if err != nil {
		return nil, false, err
	}
	for _, m := range mounts.Below(all, h.pods.Real) {
		if global != nil && m.Source == global.Source && strings.Contains(m.Point, "/"+volumesDir+"/kubernetes.io~") {
			return nil, true, nil // of a kubelet, without a note
		}
	}
	pods, err := fs.ReadDir(h.pods.Root.FS(), ".")
	if err != nil {
		return nil, false, err
	}
	known := map[string]bool{n.Dir(): true}
	for _, pod := range pods {
		notes, err := h.notesOf(pod.Name())
		if err != nil {
			return nil, false, err
		}
		for i := range notes {
			if notes[i].path == n.path {
				continue
			}
			if notes[i].Dir() == n.Dir() {
				return nil, true, nil
			}
			known[notes[i].Dir()] = true
			others = append(others, notes[i].Used)
		}
	}
	more, err := otherDirs(a, known)
	return append(others, more...), false, err
}

// ofDisk reports whether a directory below plugins/kubernetes.io is of a disk.
func ofDisk(dir string) bool {
	kind, _, _ := strings.Cut(dir, "/")
	return kind == netdisk.ISCSIDir || kind == netdisk.FCDir
}

// otherDirs are the disks that have a directory, besides those that are known.
func otherDirs(a *area.Area, known map[string]bool) (out []netdisk.Used, err error) {
	const devices = "/volumeDevices/" // of a kubelet: volumeMode Block
	for _, pattern := range []string{
		netdisk.ISCSIDir + "/iface-*/*", netdisk.ISCSIDir + devices + "iface-*/*", netdisk.FCDir + "/*",
		netdisk.FCDir + devices + "*",
	} {
		dirs, err := fs.Glob(a.Root.FS(), pattern)
		if err != nil {
			return nil, err
		}
		for _, dir := range dirs {
			u, err := netdisk.OfDir(strings.Replace(dir, devices, "/", 1))
			if err == nil && !known[dir] && filepath.Base(dir) != filepath.Base(devices) {
				out = append(out, u)
			}
		}
	}
	return out, nil
}
