package volume

import (
	"context"
	"path/filepath"
	"strconv"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/disk/agentdir"
	"github.com/troupe-dev/troupe/supervisor/host/internal/hostcall"
	"github.com/troupe-dev/troupe/supervisor/host/volume/internal/subpath"
)

// MountSubPaths implements port.Host. It works in a child process: a volume may
// be of a file system that does not answer.
func (h *Volumes) MountSubPaths(ctx context.Context, r port.MountSubPaths, done func(paths []string, err error)) {
	hostcall.Get(ctx, "MountSubPaths", hostcall.Pod(r.Pod)+"/"+r.Container, func(ctx context.Context) ([]string, error) {
		return h.mountSubPaths(ctx, &r)
	}, done)
}

func (h *Volumes) mountSubPaths(ctx context.Context, r *port.MountSubPaths) ([]string, error) {
	uid, err := agentdir.PodDir(string(r.Pod.UID))
	if err != nil {
		return nil, err
	}
	if err := agentdir.Element("container name", r.Container); err != nil {
		return nil, err
	}
	ask := request{Op: opSubPaths, Path: filepath.Join(h.pods.Real, uid, subPathsDir)}
	paths := make([]string, 0, len(r.Parts))
	for i := range r.Parts {
		p := &r.Parts[i]
		if err := agentdir.Element("volume name", p.Volume); err != nil {
			return nil, err
		}
		dir := filepath.Join(uid, subPathsDir, p.Volume, r.Container)
		if err := h.pods.Root.MkdirAll(dir, agentdir.Mode); err != nil {
			return nil, err
		}
		name := strconv.Itoa(p.Index)
		ask.Parts = append(ask.Parts, subpath.Part{
			Volume: p.Root, Sub: p.SubPath, Target: filepath.Join(h.pods.Real, dir, name),
		})
		paths = append(paths, filepath.Join(h.pods.Path, dir, name))
	}
	// Two containers with a hanging part of a volume need separate requests.
	ask.Path = filepath.Join(ask.Path, r.Container)
	defer h.binding.begin(uid)()
	return paths, h.children.call(ctx, ask)
}
