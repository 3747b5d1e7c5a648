package volume

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/usage"
	"github.com/troupe-dev/troupe/actors/decide/volumefiles"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/rescue"
	"github.com/troupe-dev/troupe/supervisor/host/child/filecount"
	"github.com/troupe-dev/troupe/supervisor/host/disk/agentdir"
	"github.com/troupe-dev/troupe/supervisor/host/volume/blockmap"
)

// pluginAt is the name of the plugin that a volume at path is of: its directory below that of the pod says so. A
// PersistentVolume that is a directory of the node is used where it is.
func pluginAt(path string) string {
	if above, _, is := strings.Cut(path, "/"+volumeDevicesDir+"/"); is {
		name := filepath.Base(above)
		if strings.Contains(name, "~") {
			return strings.Replace(name, "~", "/", 1)
		}
		return "kubernetes.io/" + name
	}
	_, below, is := strings.Cut(path, "/"+volumesDir+"/")
	if dir, _, _ := strings.Cut(below, "/"); is && strings.Contains(dir, "~") {
		return strings.Replace(dir, "~", "/", 1)
	}
	return "kubernetes.io/host-path"
}

const (
	// roomPatience is how long the file system of a claim may take to say how much
	// room it has, walkPatience all emptyDirs of some pods together.
	roomPatience = 2 * time.Second
	walkPatience = 5 * time.Second
	// roomBatch is how many emptyDirs one child measures.
	roomBatch = 100
	// WalkLimit is how many names in one emptyDir are counted for statistics. One with more is Partial.
	WalkLimit = 200_000
)

// driverUse is what the CSI driver of a volume says of it. Its Plugin may be known all the same if it has not.
func (h *Volumes) driverUse(p *v1.Pod, v *v1.Volume) (of usage.Volume, known bool) {
	if h.csi == nil {
		return of, false
	}
	if of, known = h.csi.Use(string(p.UID), v.Name); known {
		of.Namespace, of.Claim = p.Namespace, claimOf(p, v)
	}
	return of, known
}

// VolumeUse measures the mounted volumes of pods that have their own file system, are emptyDirs or hold files of the
// API, unless a CSI driver says how full they are; for each pod, in the order of its spec. These are the volumes of
// which a kubelet has metrics. With claimsOnly, only those of claims are measured. An emptyDir with a project of its
// own is not walked. A volume with files of the API is measured once for each of its contents, as only this agent
// writes there.
// Child processes measure file systems that may hang. Of one that hangs there is what was measured last, if anything
// was, one that is missing is left out, and an error is returned besides the rest.
func (h *Volumes) VolumeUse(ctx context.Context, pods []*v1.Pod, claimsOnly bool) ([][]usage.Volume, error) {
	out := make([][]usage.Volume, len(pods))
	var errs []error
	var walk []string
	var into []*usage.Volume
	var sized []string // the pod of each of into that is measured once
	var apart []system
	contents := h.last.Contents()
	projects := h.projectTable()
	for i, p := range pods {
		out[i] = make([]usage.Volume, 0, len(p.Spec.Volumes)) // never grown: into points at them
		for v := range podspec.Volumes(&p.Spec) {
			of, known := h.driverUse(p, v)
			if known {
				out[i] = append(out[i], of)
				continue
			}
			path := h.place(p, v)
			if path == "" || claimsOnly && claimOf(p, v) == "" {
				continue
			}
			out[i] = append(out[i],
				usage.Volume{Name: v.Name, Namespace: p.Namespace, Claim: claimOf(p, v), Local: onNode(v)})
			last := &out[i][len(out[i])-1]
			last.Plugin = cmp.Or(of.Plugin, pluginAt(path))
			if volumefiles.Holds(v) {
				if d, is := h.last.Size(string(p.UID), v.Name); is {
					last.Disk = d
					continue
				}
				walk, into, sized = append(walk, path), append(into, last), append(sized, string(p.UID))
				continue
			}
			if last.Local {
				if r, ok := h.byProject(p, path, projects); ok {
					last.Disk = r.disk()
					continue
				}
				walk, into, sized = append(walk, path), append(into, last), append(sized, "")
				continue
			}
			apart = append(apart, system{path: path, uid: string(p.UID), of: last})
		}
	}
	errs = append(errs, h.systems(ctx, apart))
	for from := 0; from < len(walk); from += roomBatch {
		to := min(from+roomBatch, len(walk))
		found, err := h.rooms(ctx, walkPatience, roomsRequest(walk[from:to]...))
		errs = append(errs, err)
		for i := range found {
			v := into[from+i]
			v.Disk, v.Partial = found[i].disk(), found[i].Partial
			if sized[from+i] != "" && found[i].Blocks > 0 {
				h.last.SetSize(sized[from+i], v.Name, v.Disk, contents)
			}
			if found[i].Walked {
				h.measured(SourceWalk, found[i].Took)
			}
		}
	}
	unknown := map[*usage.Volume]bool{}
	for i := range apart {
		unknown[apart[i].of] = !apart[i].settle(h)
	}
	for i, all := range out {
		out[i] = all[:0]
		for j := range all {
			if !unknown[&all[j]] {
				out[i] = append(out[i], all[j])
			}
		}
	}
	return out, errors.Join(errs...)
}

// system is a volume with a file system of its own, which may be that of a server.
type system struct {
	path, uid string
	of        *usage.Volume
	room      room
	err       error
	took      time.Duration
}

// systems measures such volumes, all at once: each waits for its turn and has its own patience, so servers that do not
// answer do not add up, and those of one pod come after the first ones of others.
func (h *Volumes) systems(ctx context.Context, all []system) error {
	answered := make(chan struct{}, len(all))
	for i := range all {
		s := &all[i]
		rescue.Ask(ctx, func() (room, error) {
			r := roomsRequest(s.path)
			r.pod = s.uid
			back, err := h.children.reserve(ctx, &r)
			if err != nil {
				return room{}, err
			}
			defer back()
			began := time.Now()
			defer func() { s.took = time.Since(began) }()
			found, err := h.rooms(ctx, roomPatience, r)
			if err != nil {
				return room{}, err
			}
			return found[0], nil
		}, port.Panicked("Measure", s.path), func(r room, err error) {
			s.room, s.err = r, err
			answered <- struct{}{}
		})
	}
	var errs []error
	for range all {
		<-answered
	}
	for i := range all {
		errs = append(errs, all[i].err)
	}
	return errors.Join(errs...)
}

// settle fills in what is told of a volume: what was measured last, if it can't be measured now. It reports whether
// there is anything to tell.
func (s *system) settle(h *Volumes) (known bool) {
	if s.took > 0 {
		h.measured(SourceStatfs, s.took)
	}
	if s.err != nil {
		s.of.Disk, known = h.last.Size(s.uid, s.of.Name)
		return known
	}
	if s.room.Blocks == 0 {
		return false
	}
	s.of.Disk = s.room.disk()
	h.last.SetUse(s.uid, s.of.Name, s.of.Disk)
	return true
}

func inMemory(v *v1.Volume) bool {
	return v.EmptyDir != nil && v.EmptyDir.Medium != v1.StorageMediumDefault
}

// onNode: a volume takes room on the disk of the node, and counts for the pod's ephemeral storage.
func onNode(v *v1.Volume) bool {
	return v.EmptyDir != nil && !inMemory(v) || v.ConfigMap != nil
}

// place is where a volume is on this machine, empty for one that is not looked into.
func (h *Volumes) place(p *v1.Pod, v *v1.Volume) string {
	uid, plugin := string(p.UID), emptyDirName
	switch {
	case v.EmptyDir != nil:
	case volumefiles.Holds(v):
		plugin = filesPlugin(v)
	default:
		return h.last.Place(uid, v.Name)
	}
	if agentdir.Element("pod", uid) != nil || agentdir.Element("volume name", v.Name) != nil {
		return ""
	}
	return filepath.Join(h.pods.Real, uid, volumesDir, plugin, v.Name)
}

// claimOf is the claim of a volume; that of a generic ephemeral volume has a name
// made of the pod's (KEP-1698).
func claimOf(p *v1.Pod, v *v1.Volume) string {
	switch {
	case v.PersistentVolumeClaim != nil:
		return v.PersistentVolumeClaim.ClaimName
	case v.Ephemeral != nil:
		return p.Name + "-" + v.Name
	default:
		return ""
	}
}

func roomsRequest(paths ...string) request {
	return request{Op: opRoom, Path: strings.Join(paths, " "), Paths: paths}
}

// rooms asks a child.
func (h *Volumes) rooms(ctx context.Context, patience time.Duration, r request) ([]room, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	a, err := h.children.ask(ctx, r)
	if err == nil && len(a.Rooms) != len(r.Paths) {
		err = errors.New("a child process returned the wrong number of results")
	}
	return a.Rooms, err
}

// room is the room at a path. Blocks is 0 if it is not there.
type room struct {
	Block     uint64 `json:",omitempty"`
	Blocks    uint64 `json:",omitempty"`
	Free      uint64 `json:",omitempty"`
	Available uint64 `json:",omitempty"`
	Files     uint64 `json:",omitempty"`
	FilesFree uint64 `json:",omitempty"`
	// Device: it is one, of which only the size is known.
	Device bool `json:",omitempty"`
	// Count is the usage below a path without its own file system, counted by a walk or by the file system.
	filecount.Count
}

// rooms is what a child does.
func rooms(paths []string) []room {
	out := make([]room, len(paths))
	for i, path := range paths {
		if size, is := blockmap.Size(path); is {
			out[i] = room{Block: 1, Blocks: size, Device: true}
			continue
		}
		var s unix.Statfs_t
		if unix.Statfs(path, &s) != nil {
			continue
		}
		out[i] = roomOf(&s)
		if kind := filepath.Base(filepath.Dir(path)); (kind == emptyDirName || kind == configMapName) &&
			s.Type != unix.TMPFS_MAGIC && s.Type != unix.HUGETLBFS_MAGIC {
			began := time.Now()
			out[i].Count = filecount.Walk{Most: WalkLimit}.Of(path)
			out[i].Took = time.Since(began)
		}
	}
	return out
}

func roomOf(s *unix.Statfs_t) room {
	return room{
		Block: uint64(s.Bsize), Blocks: s.Blocks, Free: s.Bfree, Available: s.Bavail, Files: s.Files, FilesFree: s.Ffree,
	}
}

func (r room) disk() usage.Disk {
	if r.Device {
		return usage.Disk{At: time.Now(), Capacity: &r.Blocks}
	}
	d := usage.Disk{
		At: time.Now(), Capacity: new(r.Blocks * r.Block), Available: new(r.Available * r.Block),
		Used:   new((r.Blocks - r.Free) * r.Block),
		Inodes: new(r.Files), InodesFree: new(r.FilesFree), InodesUsed: new(r.Files - min(r.FilesFree, r.Files)),
	}
	if r.Walked {
		d.Used, d.InodesUsed = &r.Bytes, &r.Entries
	}
	return d
}
