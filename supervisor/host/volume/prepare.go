package volume

import (
	"context"
	"fmt"
	"path/filepath"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/disk/agentdir"
	"github.com/troupe-dev/troupe/supervisor/host/internal/hostcall"
)

// Names below a pod's directory.
const (
	volumesDir    = "volumes"
	subPathsDir   = "volume-subpaths"
	pluginsDir    = "plugins"
	emptyDirName  = "kubernetes.io~empty-dir"
	configMapName = "kubernetes.io~configmap"
)

// PreparePod implements port.Host.
func (h *Volumes) PreparePod(ctx context.Context, pod *v1.Pod, done func(error)) {
	hostcall.Do(ctx, "PreparePod", hostcall.Pod(pod), func(ctx context.Context) error { return h.prepare(ctx, pod) }, done)
}

func (h *Volumes) prepare(ctx context.Context, pod *v1.Pod) error {
	dir, err := agentdir.PodDir(string(pod.UID))
	if err != nil {
		return err
	}
	logs, err := agentdir.LogDir(port.PodDirs{UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name})
	if err != nil {
		return err
	}
	names, err := containerNames(pod)
	if err != nil {
		return err
	}
	for _, sub := range []string{volumesDir, pluginsDir} {
		if err := h.pods.Root.MkdirAll(filepath.Join(dir, sub), agentdir.Mode); err != nil {
			return err
		}
	}
	logDirs, err := h.logs.Dir()
	if err != nil {
		return fmt.Errorf("open the pod logs directory: %w", err)
	}
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := h.pods.Root.MkdirAll(filepath.Join(dir, agentdir.ContainersDir, name), agentdir.Mode); err != nil {
			return err
		}
		if err := logDirs.Root.MkdirAll(filepath.Join(logs, name), logMode); err != nil {
			return fmt.Errorf("create the container log directory: %w", err)
		}
	}
	return nil
}

func containerNames(pod *v1.Pod) ([]string, error) {
	names := make([]string, 0, len(pod.Spec.InitContainers)+len(pod.Spec.Containers)+len(pod.Spec.EphemeralContainers))
	for c := range podspec.All(&pod.Spec) {
		if err := agentdir.Element("container name", c.Name); err != nil {
			return nil, err
		}
		names = append(names, c.Name)
	}
	return names, nil
}
