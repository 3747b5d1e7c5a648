package volumefiles

import (
	"path"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// points are the directories of a volume at which a container mounts other volumes, sorted: below /config, on which it
// has this one, it has another one on /config/more. A runtime can't make them, because the volume is read-only. What is
// below another point is in the volume that is mounted there. Names of the writer, which begin with two dots, are not
// given away.
func points(pod *v1.Pod, volume string) []string {
	var out []string
	for c := range podspec.All(&pod.Spec) {
		for i := range c.VolumeMounts {
			if m := &c.VolumeMounts[i]; m.Name == volume {
				out = append(out, below(c, path.Join("/", m.MountPath))...)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// below are the first mounts of a container below a path, relative to it.
func below(c *v1.Container, dir string) []string {
	var found []string
	for i := range c.VolumeMounts {
		at, is := strings.CutPrefix(path.Join("/", c.VolumeMounts[i].MountPath), dir+"/")
		if is && !strings.HasPrefix(at, "..") {
			found = append(found, at)
		}
	}
	return slices.DeleteFunc(slices.Clone(found), func(at string) bool {
		return slices.ContainsFunc(found, func(other string) bool { return strings.HasPrefix(at, other+"/") })
	})
}
