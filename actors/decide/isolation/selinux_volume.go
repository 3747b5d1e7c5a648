package isolation

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// Of is the label that a volume of a pod has to be mounted with, if what mounts it can do so: kinds that can are those
// of iSCSI, Fibre Channel, and of CSI drivers that say so (CSIDriver.spec.seLinuxMount). Empty: it is mounted without
// one, and the runtime gives the pod's label to its files. An error is final, until the pod changes.
func (h *SELinuxHost) Of(pod *v1.Pod, volume string, pv *v1.PersistentVolume) (string, error) {
	if h == nil || !h.mounts(pv) {
		return "", nil
	}
	var labels []string
	for c := range podspec.All(&pod.Spec) {
		o := seLinuxOptions(pod, c)
		if o == nil || !slices.ContainsFunc(c.VolumeMounts, func(m v1.VolumeMount) bool { return m.Name == volume }) {
			continue
		}
		if l := h.fileLabel(o); !slices.ContainsFunc(labels, func(other string) bool { return SameSELinuxLabel(l, other) }) {
			labels = append(labels, l)
		}
	}
	switch {
	case len(labels) > 1:
		for i, l := range labels {
			if l == "" {
				labels[i] = "(one that the runtime chooses: seLinuxOptions without level)"
			}
		}
		return "", fmt.Errorf("volume %s: multiple SELinux labels found: %s: containers that mount it need the same "+
			"seLinuxOptions.level", volume, strings.Join(labels, ", "))
	case len(labels) == 0 || recursive(pod):
		return "", nil
	}
	return labels[0], nil
}

// mounts reports whether volumes with such access modes get labels: only those for one pod at a time, unless all do.
func (h *SELinuxHost) mounts(pv *v1.PersistentVolume) bool {
	if pv == nil || ptr.Deref(pv.Spec.VolumeMode, v1.PersistentVolumeFilesystem) == v1.PersistentVolumeBlock {
		return false
	}
	return h.AllModes || slices.Equal(pv.Spec.AccessModes, []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod})
}

// seLinuxOptions are those that the processes of a container get: its own, or the pod's.
func seLinuxOptions(pod *v1.Pod, c *v1.Container) *v1.SELinuxOptions {
	if s := c.SecurityContext; s != nil && s.SELinuxOptions != nil {
		return s.SELinuxOptions
	}
	if s := pod.Spec.SecurityContext; s != nil {
		return s.SELinuxOptions
	}
	return nil
}

// recursive: the pod wants its label on each file.
func recursive(pod *v1.Pod) bool {
	s := pod.Spec.SecurityContext
	return s != nil && s.SELinuxChangePolicy != nil && *s.SELinuxChangePolicy == v1.SELinuxChangePolicyRecursive
}
