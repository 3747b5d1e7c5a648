package podspec

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// Downward is a pod, with what its node knows about it.
type Downward struct {
	Pod *v1.Pod
	// PodIPs and HostIPs are nil until they are known.
	PodIPs, HostIPs []string
	// Allocatable is used for limits that are not set.
	Allocatable v1.ResourceList
}

// Field returns a field of the pod by its path in the downward API (core/v1 ObjectFieldSelector).
func (s *Downward) Field(path string) (string, error) {
	pod := s.Pod
	if of, key, ok := subscript(path); ok {
		switch of {
		case "metadata.labels":
			return pod.Labels[key], nil
		case "metadata.annotations":
			return pod.Annotations[key], nil
		}
		return "", fmt.Errorf("fieldPath %q does not take a key", path)
	}
	switch path {
	case "metadata.name":
		return pod.Name, nil
	case "metadata.namespace":
		return pod.Namespace, nil
	case "metadata.uid":
		return string(pod.UID), nil
	case "metadata.labels":
		return formatMap(pod.Labels), nil
	case "metadata.annotations":
		return formatMap(pod.Annotations), nil
	case "spec.nodeName", "spec.host": // the latter is its name before v1
		return pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName, nil
	case "status.hostIP", "status.hostIPs":
		return addresses(path, s.HostIPs)
	case "status.podIP", "status.podIPs":
		if len(s.PodIPs) == 0 && pod.Spec.HostNetwork {
			return addresses(path, s.HostIPs)
		}
		return addresses(path, s.PodIPs)
	}
	return "", fmt.Errorf("unsupported fieldPath: %s", path)
}

// addresses returns the first address for a singular path, and all of them with commas for a plural
// one. An unknown address is an error, because a container would not notice an empty one.
func addresses(path string, ips []string) (string, error) {
	switch {
	case len(ips) == 0:
		return "", errors.New(path + " is not known yet")
	case strings.HasSuffix(path, "s"):
		return strings.Join(ips, ","), nil
	default:
		return ips[0], nil
	}
}

// subscript splits metadata.labels['key'] into its path and key.
func subscript(path string) (of, key string, ok bool) {
	rest, ok := strings.CutSuffix(path, "']")
	if !ok {
		return path, "", false
	}
	of, key, ok = strings.Cut(rest, "['")
	return of, key, ok && of != ""
}

// formatMap writes lines of key="value", sorted by key, as in downward API volumes.
func formatMap(m map[string]string) string {
	var b []byte
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if len(b) > 0 {
			b = append(b, '\n')
		}
		b = append(b, k...)
		b = append(b, '=')
		b = strconv.AppendQuote(b, m[k])
	}
	return string(b)
}
