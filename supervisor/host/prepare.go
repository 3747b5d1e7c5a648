package host

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/port"
)

// Names below a pod's directory.
const (
	volumesDir    = "volumes"
	subPathsDir   = "volume-subpaths"
	pluginsDir    = "plugins"
	containersDir = "containers"
	emptyDirName  = "kubernetes.io~empty-dir"
)

// PreparePod implements port.Host.
func (h *Host) PreparePod(ctx context.Context, pod *v1.Pod, done func(error)) {
	run(ctx, "PreparePod", objectOf(pod), func(ctx context.Context) error { return h.prepare(ctx, pod) }, done)
}

func (h *Host) prepare(ctx context.Context, pod *v1.Pod) error {
	dir, err := podDir(string(pod.UID))
	if err != nil {
		return err
	}
	logs, err := logDir(port.PodDirs{UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name})
	if err != nil {
		return err
	}
	names, err := containerNames(pod)
	if err != nil {
		return err
	}
	for _, sub := range []string{volumesDir, pluginsDir} {
		if err := h.pods.root.MkdirAll(filepath.Join(dir, sub), podsMode); err != nil {
			return err
		}
	}
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := h.pods.root.MkdirAll(filepath.Join(dir, containersDir, name), podsMode); err != nil {
			return err
		}
		if err := h.logs.root.MkdirAll(filepath.Join(logs, name), logMode); err != nil {
			return fmt.Errorf("logs: %w", err)
		}
	}
	return nil
}

func containerNames(pod *v1.Pod) ([]string, error) {
	names := make([]string, 0, len(pod.Spec.InitContainers)+len(pod.Spec.Containers)+len(pod.Spec.EphemeralContainers))
	for c := range podspec.All(&pod.Spec) {
		if err := element("container name", c.Name); err != nil {
			return nil, err
		}
		names = append(names, c.Name)
	}
	return names, nil
}

// podDir is the pod's directory below that of all pods.
func podDir(uid string) (string, error) { return uid, element("pod UID", uid) }

// logDir is the pod's directory below that of all logs.
func logDir(ref port.PodDirs) (string, error) {
	name := ref.Namespace + "_" + ref.Name + "_" + string(ref.UID)
	for _, c := range [][2]string{{"namespace", ref.Namespace}, {"pod name", ref.Name}, {"pod UID", string(ref.UID)}} {
		if err := element(c[0], c[1]); err != nil {
			return "", err
		}
	}
	return name, nil
}

// element refuses what is no single element of a path.
func element(what, name string) error {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
		return fail(port.InvalidConfig, "%s %q cannot be the name of a directory", what, name)
	}
	return nil
}

func objectOf(pod *v1.Pod) string { return pod.Namespace + "/" + pod.Name }
