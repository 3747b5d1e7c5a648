package podspec

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/tests/check"
)

func TestVolumes(t *testing.T) {
	mounts := func(names ...string) (out []v1.VolumeMount) {
		for _, n := range names {
			out = append(out, v1.VolumeMount{Name: n, MountPath: "/" + n})
		}
		return out
	}
	spec := v1.PodSpec{
		InitContainers: []v1.Container{{Name: "init", VolumeMounts: mounts("of-init", "both")}},
		Containers: []v1.Container{
			{Name: "main", VolumeMounts: mounts("both", "not-there")},
			{Name: "disk", VolumeDevices: []v1.VolumeDevice{{Name: "device", DevicePath: "/dev/x"}}},
		},
	}
	for _, name := range []string{"device", "unused", "both", "of-ephemeral", "of-init"} {
		spec.Volumes = append(spec.Volumes, v1.Volume{Name: name})
	}
	of := func(s *v1.PodSpec) string {
		var names []string
		for v := range Volumes(s) {
			if v != Volume(s, v.Name) {
				t.Errorf("%s is a copy", v.Name)
			}
			names = append(names, v.Name)
		}
		return strings.Join(names, " ")
	}
	check.Equal(t, of(&spec), "device both of-init", "the pod uses")
	debugged := *spec.DeepCopy()
	debugged.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{
		Name: "debug", VolumeMounts: mounts("of-ephemeral"),
	}}}
	check.Equal(t, of(&debugged), "device both of-ephemeral of-init", "with an ephemeral container, the pod uses")
	plain := *spec.DeepCopy()
	plain.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{
		Name: "debug", VolumeMounts: mounts("both"),
	}}}
	for _, c := range []struct {
		name     string
		old, now *v1.PodSpec
		want     bool
	}{
		{"the same", &spec, &spec, false},
		{"a container with a volume of its own", &spec, &debugged, true},
		{"a container without", &spec, &plain, false},
		{"again", &debugged, &debugged, false},
	} {
		check.Equal(t, UsesMore(c.old, c.now), c.want, "%s: UsesMore", c.name)
	}
	for range Volumes(&spec) {
		break // a loop may end early
	}
}
