package podstatus

import (
	"path"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/troupe-dev/troupe/actors/decide/observed"
)

// volumeMounts are the mounts of a container. n is its newest incarnation, nil for none. The parts
// that never change are taken from old.
func volumeMounts(ct *v1.Container, n *observed.Container, old *v1.ContainerStatus) []v1.VolumeMountStatus {
	list, known := old.VolumeMounts, len(old.VolumeMounts) == len(ct.VolumeMounts)
	if !known {
		list = make([]v1.VolumeMountStatus, len(ct.VolumeMounts))
	}
	owned := !known
	var really map[string]bool
	if n != nil && len(n.RecursiveReadOnly) > 0 {
		really = make(map[string]bool, len(n.RecursiveReadOnly))
		for _, at := range n.RecursiveReadOnly {
			really[path.Clean(at)] = true
		}
	}
	for i := range ct.VolumeMounts {
		m := &ct.VolumeMounts[i]
		var before *v1.RecursiveReadOnlyMode
		if known {
			before = old.VolumeMounts[i].RecursiveReadOnly
		}
		mode := recursiveReadOnly(m, n, really, before)
		if known && equalPointer(before, mode) {
			continue
		}
		if !owned {
			list, owned = slices.Clone(list), true
		}
		list[i].Name, list[i].MountPath, list[i].ReadOnly, list[i].RecursiveReadOnly = m.Name, m.MountPath, m.ReadOnly, mode
	}
	return list
}

// recursiveReadOnly says whether everything below a mount is read-only too (API
// VolumeMountStatus.recursiveReadOnly): by the actual mount, which really has by its place, or as shown before until
// the container was inspected. It is nil for a mount that is not read-only.
func recursiveReadOnly(
	m *v1.VolumeMount, n *observed.Container, really map[string]bool, before *v1.RecursiveReadOnlyMode,
) *v1.RecursiveReadOnlyMode {
	switch {
	case !m.ReadOnly:
		return nil
	case m.RecursiveReadOnly == nil || *m.RecursiveReadOnly == v1.RecursiveReadOnlyDisabled:
		return ptr.To(v1.RecursiveReadOnlyDisabled)
	case n != nil && *m.RecursiveReadOnly == v1.RecursiveReadOnlyEnabled:
		return ptr.To(v1.RecursiveReadOnlyEnabled) // the runtime would have failed otherwise
	case n == nil || !n.Detailed || n.State == observed.ContainerCreated:
		if before != nil {
			return before
		}
	case really[path.Join("/", m.MountPath)]: // a relative one begins at the root
		return ptr.To(v1.RecursiveReadOnlyEnabled)
	}
	return ptr.To(v1.RecursiveReadOnlyDisabled)
}
