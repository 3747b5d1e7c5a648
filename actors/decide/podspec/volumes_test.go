package podspec

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
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
	if got := of(&spec); got != "device both of-init" {
		t.Errorf("the pod uses %s", got)
	}
	debugged := *spec.DeepCopy()
	debugged.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{
		Name: "debug", VolumeMounts: mounts("of-ephemeral"),
	}}}
	if got := of(&debugged); got != "device both of-ephemeral of-init" {
		t.Errorf("with an ephemeral container, the pod uses %s", got)
	}
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
		if got := UsesMore(c.old, c.now); got != c.want {
			t.Errorf("%s: UsesMore is %v", c.name, got)
		}
	}
	for range Volumes(&spec) {
		break // a loop may end early
	}
}
