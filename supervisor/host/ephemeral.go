package host

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/eviction"
	"github.com/troupe-dev/troupe/supervisor/host/area"
	"github.com/troupe-dev/troupe/supervisor/host/meter"
)

const (
	// treeLimit is how many files below one directory are counted, treeBudget how long a child counts, and
	// treePatience how long it may take altogether. What is counted up to there is a lower bound.
	treeLimit    = 1_000_000
	treeBudget   = 15 * time.Second
	treePatience = 20 * time.Second
	// treeShare is the most of its time that the agent spends on counting one directory: one that took a
	// second is not counted again for nine.
	treeShare = 10
	// treeBatch is how many directories one child counts: its start costs as much as a thousand files. If it fails,
	// it is not known by which, and then fewer are counted at once.
	treeBatch = 1000
)

// tree is a directory to measure.
type tree struct {
	Path string `json:"path"`
	// Own: a pod's directory, which is measured without its volumes.
	Own bool `json:"own,omitempty"`
}

// counted is what is below a directory, as of a time.
type counted struct {
	room
	at time.Time
}

// EphemeralUse measures what pods take of the disk that the root directory is on: each volume on it, in the
// order of the spec, and the rest of the pod's directory. An emptyDir with a project of its own is asked of the
// file system, all else is walked. Volumes in memory, claims and host paths are left
// out. A directory that does not exist, or that is not measured in time, takes nothing; for the latter an
// error is returned beside the rest. One with many files may be counted as of some seconds ago.
func (h *Host) EphemeralUse(ctx context.Context, pods []*v1.Pod) ([]eviction.Use, error) {
	out := make([]eviction.Use, len(pods))
	var trees []tree
	projects := h.projectTable()
	known := map[string]counted{}
	for i, p := range pods {
		out[i].UID = p.UID
		for _, t := range h.treesOf(p) {
			if r, ok := h.byProject(p, t.Path, projects); ok {
				known[t.Path] = counted{room: r}
			} else {
				trees = append(trees, t)
			}
		}
	}
	found, err := h.count(ctx, trees)
	maps.Copy(found, known)
	for i, p := range pods {
		for j := range p.Spec.Volumes {
			v := &p.Spec.Volumes[j]
			if path := h.onDisk(p, v); path != "" {
				out[i].Volumes = append(out[i].Volumes, eviction.VolumeUse{Name: v.Name, DiskUse: found[path].use()})
			}
		}
		out[i].Other = found[filepath.Join(h.pods.Real, string(p.UID))].use()
	}
	return out, err
}

func (h *Host) treesOf(p *v1.Pod) (out []tree) {
	for i := range p.Spec.Volumes {
		if path := h.onDisk(p, &p.Spec.Volumes[i]); path != "" {
			out = append(out, tree{Path: path})
		}
	}
	if area.Element("pod", string(p.UID)) == nil {
		out = append(out, tree{Path: filepath.Join(h.pods.Real, string(p.UID)), Own: true})
	}
	return out
}

// onDisk is the directory of a volume of files that the agent made, empty for any other volume.
func (h *Host) onDisk(p *v1.Pod, v *v1.Volume) string {
	if area.Element("pod", string(p.UID)) != nil || area.Element("volume name", v.Name) != nil || inMemory(v) {
		return ""
	}
	plugin := ""
	switch {
	case v.EmptyDir != nil, volumeType(&v.VolumeSource) == "":
		plugin = emptyDirName
	case v.ConfigMap != nil, v.Secret != nil, v.DownwardAPI != nil, v.Projected != nil:
		plugin = filesPlugin(v)
	default:
		return ""
	}
	return filepath.Join(h.pods.Real, string(p.UID), volumesDir, plugin, v.Name)
}

func (c counted) use() eviction.DiskUse { return eviction.DiskUse{Bytes: c.Bytes, Inodes: c.Entries} }

// count measures directories in child processes. One that made a child fail is measured by a child of its
// own from then on, so that it does not keep the others from being measured.
func (h *Host) count(ctx context.Context, trees []tree) (map[string]counted, error) {
	now := time.Now()
	out := make(map[string]counted, len(trees))
	var together, alone []tree
	h.treesMu.Lock()
	for path, c := range h.counted {
		if now.Sub(c.at) > treeShare*c.Took {
			delete(h.counted, path)
		}
	}
	for _, t := range trees {
		if c, fresh := h.counted[t.Path]; fresh {
			out[t.Path] = c
		} else if h.apart[t.Path] {
			alone = append(alone, t)
		} else {
			together = append(together, t)
		}
	}
	h.treesMu.Unlock()
	var errs []error
	for batch := range slices.Chunk(together, treeBatch) {
		if h.countAll(ctx, batch, out) == nil {
			continue
		}
		for few := range slices.Chunk(batch, roomBatch) {
			if len(few) == len(batch) || h.countAll(ctx, few, out) != nil {
				alone = append(alone, few...)
			}
		}
	}
	for _, t := range alone {
		err := h.countAll(ctx, []tree{t}, out)
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
		h.treesMu.Lock()
		if err != nil {
			h.apart[t.Path] = true
		} else {
			delete(h.apart, t.Path)
		}
		h.treesMu.Unlock()
	}
	return out, errors.Join(errs...)
}

func (h *Host) countAll(ctx context.Context, trees []tree, into map[string]counted) error {
	ctx, cancel := context.WithTimeout(ctx, treePatience)
	defer cancel()
	a, err := h.children.ask(ctx, request{Op: opTrees, Path: trees[0].Path, Source: h.pods.Real, Trees: trees})
	if err == nil && len(a.Rooms) != len(trees) {
		err = errors.New("a child process returned the wrong number of results")
	}
	if err != nil {
		return err
	}
	h.treesMu.Lock()
	defer h.treesMu.Unlock()
	now := time.Now()
	for i, t := range trees {
		c := counted{a.Rooms[i], now}
		into[t.Path], h.counted[t.Path] = c, c
		if !t.Own && c.Walked {
			h.measured(SourceWalk, c.Took)
		}
	}
	return nil
}

// countTrees is what a child does. What is not on the file system of home takes nothing of it.
func countTrees(home string, trees []tree) []room {
	out := make([]room, len(trees))
	var top unix.Stat_t
	if unix.Lstat(home, &top) != nil {
		return out
	}
	end := time.Now().Add(treeBudget)
	for i, t := range trees {
		began := time.Now()
		var skip []string
		if t.Own {
			skip = []string{filepath.Join(t.Path, volumesDir), filepath.Join(t.Path, subPathsDir)}
		}
		out[i].walk(t.Path, walking{device: &top.Dev, skip: skip, limit: treeLimit, end: end})
		out[i].Took = time.Since(began)
	}
	return out
}

// walking bounds a walk.
type walking struct {
	// device is the only one of which something counts; nil for that of the top.
	device *uint64
	// skip are directories that don't count.
	skip  []string
	limit uint64
	// end is when the walk is given up; zero for never.
	end time.Time
}

// walk counts what is below path. It follows no link, and stays on its file system. A file with several
// names counts once.
func (r *room) walk(path string, w walking) {
	var top unix.Stat_t
	if unix.Lstat(path, &top) != nil || w.device != nil && top.Dev != *w.device {
		return
	}
	r.Walked = true
	seen := map[uint64]bool{}                                                // with several names
	filepath.WalkDir(path, func(at string, _ fs.DirEntry, err error) error { //nolint:errcheck // what can be counted is
		if r.Entries >= w.limit || r.Entries%1024 == 0 && !w.end.IsZero() && time.Now().After(w.end) {
			return fs.SkipAll
		}
		for _, s := range w.skip {
			if at == s {
				return fs.SkipDir
			}
		}
		var s unix.Stat_t
		if err != nil || unix.Lstat(at, &s) != nil {
			return nil //nolint:nilerr // it has just been removed
		}
		directory := s.Mode&unix.S_IFMT == unix.S_IFDIR
		switch {
		case s.Dev != top.Dev && directory:
			return fs.SkipDir
		case s.Dev != top.Dev || !directory && s.Nlink > 1 && seen[s.Ino]: // a file may be a mount point too
			return nil
		case !directory && s.Nlink > 1:
			seen[s.Ino] = true
		}
		r.Bytes += uint64(s.Blocks) * meter.Sector
		r.Entries++
		return nil
	})
}
