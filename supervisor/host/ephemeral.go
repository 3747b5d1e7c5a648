package host

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/eviction"
	"github.com/troupe-dev/troupe/supervisor/host/area"
	"github.com/troupe-dev/troupe/supervisor/host/tally"
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

// counted is what is below a directory, as of a time.
type counted struct {
	tally.Count
	at time.Time
}

// EphemeralUse measures what pods take of the disk that the root directory is on: each volume on it, in the
// order of the spec, and the rest of the pod's directory. An emptyDir with a project of its own is asked of the
// file system, all else is walked. Volumes in memory, claims and host paths are left
// out. A directory that does not exist, or that is not measured in time, takes nothing; for the latter an
// error is returned beside the rest. One with many files may be counted as of some seconds ago.
func (h *Host) EphemeralUse(ctx context.Context, pods []*v1.Pod) ([]eviction.Use, error) {
	out := make([]eviction.Use, len(pods))
	var trees []tally.Tree
	projects := h.projectTable()
	known := map[string]counted{}
	for i, p := range pods {
		out[i].UID = p.UID
		for _, t := range h.treesOf(p) {
			if r, ok := h.byProject(p, t.Path, projects); ok {
				known[t.Path] = counted{Count: r.Count}
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

func (h *Host) treesOf(p *v1.Pod) (out []tally.Tree) {
	for i := range p.Spec.Volumes {
		if path := h.onDisk(p, &p.Spec.Volumes[i]); path != "" {
			out = append(out, tally.Tree{Path: path})
		}
	}
	if area.Element("pod", string(p.UID)) == nil {
		dir := filepath.Join(h.pods.Real, string(p.UID))
		out = append(out, tally.Tree{Path: dir, Skip: []string{volumesDir, subPathsDir}})
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
func (h *Host) count(ctx context.Context, trees []tally.Tree) (map[string]counted, error) {
	now := time.Now()
	out := make(map[string]counted, len(trees))
	var together, alone []tally.Tree
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
		err := h.countAll(ctx, []tally.Tree{t}, out)
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

func (h *Host) countAll(ctx context.Context, trees []tally.Tree, into map[string]counted) error {
	ctx, cancel := context.WithTimeout(ctx, treePatience)
	defer cancel()
	a, err := h.children.ask(ctx, request{Op: opTrees, Path: trees[0].Path, Request: tally.Request{
		Home: h.pods.Real, Trees: trees, Most: treeLimit, Budget: treeBudget,
	}})
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
		c := counted{a.Rooms[i].Count, now}
		into[t.Path], h.counted[t.Path] = c, c
		if len(t.Skip) == 0 && c.Walked {
			h.measured(SourceWalk, c.Took)
		}
	}
	return nil
}
