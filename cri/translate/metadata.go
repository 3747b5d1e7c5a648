package translate

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"strconv"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/cri/labels"
)

// PodLogDirectory is the directory of a pod's container logs, below root.
func PodLogDirectory(root string, pod *v1.Pod) string {
	return filepath.Join(root, pod.Namespace+"_"+pod.Name+"_"+string(pod.UID))
}

// ContainerLogPath is a container's log file, relative to the pod's directory.
func ContainerLogPath(container string, attempt uint32) string {
	return filepath.Join(container, strconv.FormatUint(uint64(attempt), 10)+".log")
}

// SandboxLabels are the pod's labels and the three that identify it.
func SandboxLabels(pod *v1.Pod) map[string]string {
	out := make(map[string]string, len(pod.Labels)+3)
	maps.Copy(out, pod.Labels)
	namePod(out, pod)
	return out
}

func namePod(m map[string]string, pod *v1.Pod) {
	m[labels.PodName] = pod.Name
	m[labels.PodNamespace] = pod.Namespace
	m[labels.PodUID] = string(pod.UID)
}

func containerLabels(pod *v1.Pod, container string) map[string]string {
	out := make(map[string]string, 4)
	namePod(out, pod)
	out[labels.ContainerName] = container
	return out
}

// containerAnnotations have the fields that are needed to stop the container and judge its end
// after its pod is gone.
func containerAnnotations(r *port.CreateContainer) (map[string]string, error) {
	pod, c := r.Pod, r.Container
	out := map[string]string{
		labels.KubeletHash:              podspec.KubeletHash(c),
		labels.RestartCount:             strconv.FormatUint(uint64(r.Attempt), 10),
		labels.TerminationMessagePath:   c.TerminationMessagePath,
		labels.TerminationMessagePolicy: string(c.TerminationMessagePolicy),
		labels.Type:                     containerType(pod, c.Name),
	}
	if r.SpecHash != "" {
		out[labels.SpecHash] = r.SpecHash
	}
	if d := r.Devices; d != nil {
		for name, value := range d.Annotations { // order-free: a map again
			if !labels.Own(name) {
				out[name] = value
			}
		}
	}
	if s := pod.Spec.TerminationGracePeriodSeconds; s != nil {
		out[labels.TerminationGracePeriod] = strconv.FormatInt(*s, 10)
	}
	if s := pod.DeletionGracePeriodSeconds; s != nil {
		out[labels.DeletionGracePeriod] = strconv.FormatInt(*s, 10)
	}
	if c.Lifecycle != nil && c.Lifecycle.PreStop != nil {
		raw, err := json.Marshal(c.Lifecycle.PreStop)
		if err != nil {
			return nil, fmt.Errorf("lifecycle.preStop: %w", err)
		}
		out[labels.PreStopHandler] = string(raw)
	}
	if len(c.Ports) > 0 {
		raw, err := json.Marshal(c.Ports)
		if err != nil {
			return nil, fmt.Errorf("ports: %w", err)
		}
		out[labels.Ports] = string(raw)
	}
	return out, nil
}

func containerType(pod *v1.Pod, name string) string {
	switch _, kind := podspec.Find(&pod.Spec, name); kind {
	case podspec.Init, podspec.Sidecar:
		return labels.TypeInit
	case podspec.Ephemeral:
		return labels.TypeEphemeral
	case podspec.Main:
	}
	return labels.TypeContainer
}
