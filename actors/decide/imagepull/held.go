package imagepull

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// Held are the containers that do not start because an image can't be had: the one of that name, or those that mount
// the volume of that name. The first init container of them holds up the others.
func Held(pod *v1.Pod, name string) (out []string) {
	volume, is := OfVolume(name)
	if !is {
		return []string{name}
	}
	for c, kind := range podspec.Lasting(&pod.Spec) {
		if !slices.ContainsFunc(c.VolumeMounts, func(m v1.VolumeMount) bool { return m.Name == volume }) {
			continue
		}
		out = append(out, c.Name)
		if kind != podspec.Main {
			break
		}
	}
	return out
}
