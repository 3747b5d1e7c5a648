package volumefiles

import (
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// TestPoints: each container is volume=path, with the volume "m" that is looked at.
func TestPoints(t *testing.T) {
	for _, c := range []struct{ name, containers, want string }{
		{"nothing below it", "m=/config other=/data other=/configs/x", ""},
		{"a directory", "m=/config other=/config/more", "more"},
		{"written before it, and deeper", "other=/config/a/b m=/config", "a/b"},
		{"several", "m=/config b=/config/z a=/config/a c=/config/a.d", "a a.d z"},
		{"only the first of two, one below the other", "m=/config c=/config/a/deep/c b=/config/a-b a=/config/a", "a a-b"},
		{"of two containers, which have it at other places", "m=/config a=/config/x | m=/etc/m a=/etc/m/x b=/etc/m/y", "x y"},
		{"below the volume of another container", "m=/config | a=/config/x", ""},
		{"it is mounted twice", "m=/one m=/two a=/one/x b=/two/y", "x y"},
		{"below itself", "m=/config m=/config/again", "again"},
		{"paths that are not clean, or relative", "m=/config/ a=config//x/ b=/config/./y", "x y"},
		{"names of the writer", "m=/config a=/config/..data b=/config/..data/x", ""},
		{"not out of it", "m=/config a=/config/../etc", ""},
	} {
		pod := &v1.Pod{}
		for i, list := range strings.Split(c.containers, " | ") {
			var mounts []v1.VolumeMount
			for m := range strings.FieldsSeq(list) {
				name, at, _ := strings.Cut(m, "=")
				mounts = append(mounts, v1.VolumeMount{Name: name, MountPath: at})
			}
			if i == 0 {
				pod.Spec.Containers = []v1.Container{{VolumeMounts: mounts}}
			} else {
				pod.Spec.EphemeralContainers = []v1.EphemeralContainer{{
					EphemeralContainerCommon: v1.EphemeralContainerCommon{VolumeMounts: mounts},
				}}
			}
		}
		if got := points(pod)["m"]; !slices.Equal(got, strings.Fields(c.want)) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
