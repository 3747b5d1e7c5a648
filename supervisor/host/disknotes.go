package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/actors/decide/netdisk"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/area"
	"github.com/troupe-dev/troupe/supervisor/host/hostcall"
	"github.com/troupe-dev/troupe/supervisor/host/mounts"
)

// noteDisk writes the note of a pod, unless it has one: with the sessions that are there before anything is begun.
func (h *Host) noteDisk(uid, plugin, name string, u *netdisk.Used) error {
	dir := filepath.Join(uid, pluginsDir, plugin, name)
	if u.ISCSI == nil || h.exists(filepath.Join(dir, diskNote)) {
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
	notes, _, err := h.otherNotes(filepath.Join(dir, diskNote)) // of one that can't be read, the directory tells
	if err != nil {
		return err
	}
	known, others := map[string]bool{}, []netdisk.Used(nil)
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
			if !e.IsDir() {
				continue
			}
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

// otherNotes are the notes of all pods, but the one at a path. unread is why the notes of a pod could not be read.
func (h *Host) otherNotes(path string) (out []noted, unread, err error) {
	pods, err := fs.ReadDir(h.pods.Root.FS(), ".")
	if err != nil {
		return nil, nil, err
	}
	for _, pod := range pods {
		if !pod.IsDir() {
			continue
		}
		notes, err := h.notesOf(pod.Name())
		unread = errors.Join(unread, err)
		for i := range notes {
			if notes[i].path != path {
				out = append(out, notes[i])
			}
		}
	}
	return out, unread, nil
}

// ofDisk reports whether a directory below plugins/kubernetes.io is of a disk.
func ofDisk(dir string) bool {
	kind, _, _ := strings.Cut(dir, "/")
	return kind == netdisk.ISCSIDir || kind == netdisk.FCDir
}
