package volume

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/eviction"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/supervisor/host/child/filecount"
	"github.com/troupe-dev/troupe/supervisor/host/disk/agentdir"
	"github.com/troupe-dev/troupe/supervisor/host/volume/internal/diskuse"
	"github.com/troupe-dev/troupe/supervisor/host/volume/internal/openfiles"
)

// UseProcesses sets who tells the processes of a pod, by their numbers in /proc. Without it, files that were removed
// while a process has them open are not found.
func (h *Volumes) UseProcesses(of func(*v1.Pod) []int) { h.processes = of }

// EphemeralUse measures what pods take of the disk that the root directory is on: each volume on it, in the
// order of the spec, and the rest of the pod's directory. An emptyDir with a project of its own is asked of the
// file system, all else is counted. Volumes in memory, claims and host paths are left out. A directory that does not
// exist takes nothing.
//
// A directory with many files may be counted as of a while ago: the age of a pod's use says so. One that could not be
// counted to its end is Partial. If it could not be counted at all, an error is returned beside the rest. With soon,
// the call does not wait for directories that take long.
//
// Files of a pod with a limit that were removed while a process of it has them open are added, of writable layers too
// (UseProcesses).
func (h *Volumes) EphemeralUse(ctx context.Context, pods []*v1.Pod, soon bool) ([]eviction.Use, error) {
	began := time.Now()
	out := make([]eviction.Use, len(pods))
	var trees []diskuse.Tree
	projects := h.projectTable()
	byProject := map[string]filecount.Count{}
	for i, p := range pods {
		out[i].UID = p.UID
		for _, t := range h.treesOf(p) {
			if r, ok := h.byProject(p, t.Path, projects); ok {
				byProject[t.Path] = r.Count
			} else {
				trees = append(trees, t)
			}
		}
	}
	found, err := h.counts.Of(ctx, trees, !soon)
	for i, p := range pods {
		use := func(path string) eviction.DiskUse {
			c, is := byProject[path]
			if k, counted := found[path]; counted && !is {
				c = k.Count
				if !k.At.IsZero() {
					out[i].Age = max(out[i].Age, began.Sub(k.At))
				}
			}
			return eviction.DiskUse{Bytes: c.Bytes, Inodes: c.Entries, Partial: c.Partial}
		}
		var removed openfiles.Removed
		if eviction.Limited(p) && h.processes != nil {
			removed = openfiles.Of(h.processes(p), filepath.Join("/", string(p.UID), volumesDir, emptyDirName)+"/")
		}
		for v := range podspec.Volumes(&p.Spec) {
			if path := h.onDisk(p, v); path != "" {
				u := use(path)
				if _, is := byProject[path]; !is { // a project counts them
					u.Bytes += removed.Volumes[v.Name]
				}
				out[i].Volumes = append(out[i].Volumes, eviction.VolumeUse{Name: v.Name, DiskUse: u})
			}
		}
		out[i].Other = use(filepath.Join(h.pods.Real, string(p.UID)))
		out[i].Other.Bytes += removed.Layers
	}
	return out, err
}

func (h *Volumes) treesOf(p *v1.Pod) (out []diskuse.Tree) {
	for v := range podspec.Volumes(&p.Spec) {
		if path := h.onDisk(p, v); path != "" {
			out = append(out, diskuse.Tree{Tree: filecount.Tree{Path: path}, Pod: string(p.UID)})
		}
	}
	if agentdir.Element("pod", string(p.UID)) == nil {
		rest := filecount.Tree{Path: filepath.Join(h.pods.Real, string(p.UID)), Skip: []string{volumesDir, subPathsDir}}
		out = append(out, diskuse.Tree{Tree: rest, Pod: string(p.UID)})
	}
	return out
}

// onDisk is the directory of a volume of files that the agent made, empty for any other volume.
func (h *Volumes) onDisk(p *v1.Pod, v *v1.Volume) string {
	if agentdir.Element("pod", string(p.UID)) != nil || agentdir.Element("volume name", v.Name) != nil || inMemory(v) {
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

// countInChild is counts.Config.Ask.
func (h *Volumes) countInChild(ctx context.Context, r filecount.Request) ([]filecount.Count, error) {
	path := r.Trees[0].Path
	if len(r.Trees) > 1 {
		// A child that hangs keeps only the same request from being made again: which of these hangs is counted alone.
		path = fmt.Sprintf("%d directories of pods, request %d", len(r.Trees), h.asked.Add(1))
	}
	a, err := h.children.ask(ctx, request{Op: opTrees, Path: path, Request: r})
	got := a.Counts[:min(len(a.Counts), len(r.Trees))]
	if err == nil && len(a.Counts) != len(r.Trees) {
		err = fmt.Errorf("the child process gave %d of %d counts", len(a.Counts), len(r.Trees))
	}
	return got, err
}

// countedInChild is counts.Config.Counted.
func (h *Volumes) countedInChild(t filecount.Tree, c filecount.Count) {
	if len(t.Skip) == 0 {
		h.measured(SourceWalk, c.Took)
	}
}
