package volume

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/actors/decide/blockdevice"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/disk/agentdir"
	"github.com/troupe-dev/troupe/supervisor/host/disk/durable"
	"github.com/troupe-dev/troupe/supervisor/host/internal/hostcall"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/mounts"
)

// noteDisk writes the note of a pod, unless it has one: with the sessions that are there before anything is begun.
func (h *Volumes) noteDisk(uid, plugin, name string, u *blockdevice.Used) error {
	dir := filepath.Join(uid, pluginsDir, plugin, name)
	if u.ISCSI == nil || h.hasNote(dir) {
		return h.writeNote(uid, plugin, name, u)
	}
	a, err := h.disks.open()
	if err != nil {
		return err
	}
	sessions, err := h.disks.machine.Sessions()
	if err != nil {
		return err
	}
	notes, err := h.otherNotes(filepath.Join(dir, diskNote))
	if err != nil {
		return err
	}
	known, others := map[string]bool{}, []blockdevice.Used(nil)
	for i := range notes {
		known[notes[i].Dir()] = true
		others = append(others, notes[i].Used)
	}
	more, err := otherDirs(a, known)
	if err != nil {
		return err
	}
	u.Found = u.ISCSI.FoundOf(sessions, append(others, more...))
	return h.writeNote(uid, plugin, name, u)
}

func (h *Volumes) writeNote(uid, plugin, name string, u *blockdevice.Used) error {
	dir := filepath.Join(uid, pluginsDir, plugin, name)
	if h.hasNote(dir) {
		return nil
	}
	raw, err := json.Marshal(u)
	if err != nil {
		return err
	}
	if err := h.pods.Root.MkdirAll(dir, agentdir.Mode); err != nil {
		return err
	}
	// The disk is attached after that.
	return durable.Write(h.pods.Root, filepath.Join(dir, diskNote), raw, readyFileMode, durable.Kept)
}

// noted is a note of a pod, with its path below the directory of pods.
type noted struct {
	blockdevice.Used
	path string
}

// hasNote says whether there is a note in a directory. One that can't be read is written again: then it says no less.
func (h *Volumes) hasNote(dir string) bool {
	_, err := h.readNote(filepath.Join(dir, diskNote))
	return err == nil
}

// readNote reads a note. An empty one is none: it was lost before its disk was attached, or with the power of the
// machine.
func (h *Volumes) readNote(path string) (n noted, err error) {
	raw, err := h.pods.Root.ReadFile(path)
	if err == nil && durable.Lost(raw) {
		err = fs.ErrNotExist
	}
	if err == nil {
		err = json.Unmarshal(raw, &n.Used)
	}
	if err == nil && !n.Valid() {
		err = errors.New("it names no disk")
	}
	if err != nil {
		return n, fmt.Errorf("read %s: %w", filepath.Join(h.pods.Path, path), err)
	}
	n.path = path
	return n, nil
}

// notesOf are the notes of a pod. unread is why some of them could not be read.
func (h *Volumes) notesOf(pod string) (out []noted, unread error) {
	for _, plugin := range diskPlugins {
		dir := filepath.Join(pod, pluginsDir, plugin)
		entries, err := fs.ReadDir(h.pods.Root.FS(), dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			unread = errors.Join(unread, err)
		}
		for _, e := range entries {
			if !e.IsDir() {
				continue
			}
			switch n, err := h.readNote(filepath.Join(dir, e.Name(), diskNote)); {
			case err == nil:
				out = append(out, n)
			case !errors.Is(err, fs.ErrNotExist):
				unread = errors.Join(unread, err)
			}
		}
	}
	return out, unread
}

// noteDisks makes notes for disks that a kubelet has mounted for a pod, or whose notes can't be read. mine are the
// mounts of the pod.
func (h *Volumes) noteDisks(pod string, mine, all []mounts.Mount) error {
	for _, m := range mine {
		plugin, name := filepath.Base(filepath.Dir(m.Point)), filepath.Base(m.Point)
		if !slices.Contains(diskPlugins[:], plugin) || h.hasNote(filepath.Join(pod, pluginsDir, plugin, name)) {
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
			u, err := blockdevice.OfDir(strings.TrimPrefix(global.Point, a.Real+"/"))
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

// otherNotes are the notes of all pods, but the one at a path. Those that can't be read are left out: what their pods
// use is seen in the mount table, and which disks there are by their directories.
func (h *Volumes) otherNotes(path string) (out []noted, err error) {
	pods, err := fs.ReadDir(h.pods.Root.FS(), ".")
	if err != nil {
		return nil, err
	}
	for _, pod := range pods {
		if !pod.IsDir() {
			continue
		}
		notes, _ := h.notesOf(pod.Name())
		for i := range notes {
			if notes[i].path != path {
				out = append(out, notes[i])
			}
		}
	}
	return out, nil
}

// ofDisk reports whether a directory below plugins/kubernetes.io is of a disk.
func ofDisk(dir string) bool {
	kind, _, _ := strings.Cut(dir, "/")
	return kind == blockdevice.ISCSIDir || kind == blockdevice.FCDir
}
