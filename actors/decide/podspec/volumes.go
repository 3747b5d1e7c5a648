package podspec

import (
	"iter"
	"slices"

	v1 "k8s.io/api/core/v1"
)

// Volumes are the volumes that the node brings up for a pod: those that a container mounts or has as a device, in the
// order of the spec. Nothing waits for the others, and nothing is made for them, as with a kubelet. They are the spec's
// own, not copies.
func Volumes(spec *v1.PodSpec) iter.Seq[*v1.Volume] {
	return func(yield func(*v1.Volume) bool) {
		uses := uses(spec, len(spec.Volumes))
		for i := range spec.Volumes {
			if v := &spec.Volumes[i]; uses(v.Name) && !yield(v) {
				return
			}
		}
	}
}

// few is for how many volumes a search costs less than a set.
const few = 32

// uses is UsesVolume, for so many volumes.
func uses(spec *v1.PodSpec, volumes int) func(name string) bool {
	if volumes <= few {
		return func(name string) bool { return UsesVolume(spec, name) }
	}
	used := map[string]bool{}
	for c := range All(spec) {
		for i := range c.VolumeMounts {
			used[c.VolumeMounts[i].Name] = true
		}
		for i := range c.VolumeDevices {
			used[c.VolumeDevices[i].Name] = true
		}
	}
	return func(name string) bool { return used[name] }
}

// VolumesOf is Volume, for who asks for many.
func VolumesOf(spec *v1.PodSpec) func(name string) *v1.Volume {
	if len(spec.Volumes) <= few {
		return func(name string) *v1.Volume { return Volume(spec, name) }
	}
	at := make(map[string]*v1.Volume, len(spec.Volumes))
	for i := range spec.Volumes {
		at[spec.Volumes[i].Name] = &spec.Volumes[i]
	}
	return func(name string) *v1.Volume { return at[name] }
}

// Mounts says whether a container mounts a volume, for who asks of many.
func Mounts(c *v1.Container) func(name string) bool {
	if len(c.VolumeMounts) <= few {
		return func(name string) bool {
			return slices.ContainsFunc(c.VolumeMounts, func(m v1.VolumeMount) bool { return m.Name == name })
		}
	}
	mounted := make(map[string]bool, len(c.VolumeMounts))
	for i := range c.VolumeMounts {
		mounted[c.VolumeMounts[i].Name] = true
	}
	return func(name string) bool { return mounted[name] }
}

// UsesVolume says whether a container mounts a volume or has it as a device. Ephemeral containers count, so a pod that
// runs may come to use one more.
func UsesVolume(spec *v1.PodSpec, name string) bool {
	for c := range All(spec) {
		for i := range c.VolumeMounts {
			if c.VolumeMounts[i].Name == name {
				return true
			}
		}
		for i := range c.VolumeDevices {
			if c.VolumeDevices[i].Name == name {
				return true
			}
		}
	}
	return false
}

// UsesMore says whether a pod uses a volume that it did not use with an older spec.
func UsesMore(old, spec *v1.PodSpec) bool {
	if len(old.EphemeralContainers) == len(spec.EphemeralContainers) {
		return false // the volumes of all others never change
	}
	used := uses(old, len(spec.Volumes))
	for v := range Volumes(spec) {
		if !used(v.Name) {
			return true
		}
	}
	return false
}
