package isolation

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/tests/check"
)

const file = "system_u:object_r:container_file_t:s0"

func lev(text string) *v1.SELinuxOptions { return &v1.SELinuxOptions{Level: text} }

// base is a pod with one container that mounts a volume for one pod only, and another container that does not.
func base() (*SELinuxHost, *v1.Pod, *v1.PersistentVolume) {
	pod := &v1.Pod{Spec: v1.PodSpec{
		SecurityContext: &v1.PodSecurityContext{SELinuxOptions: lev("s0:c1,c2")},
		Containers: []v1.Container{
			{Name: "main", VolumeMounts: []v1.VolumeMount{{Name: "data"}}},
			{Name: "other", SecurityContext: &v1.SecurityContext{SELinuxOptions: lev("s0:c9")}},
		},
	}}
	return &SELinuxHost{File: file}, pod, &v1.PersistentVolume{Spec: v1.PersistentVolumeSpec{
		AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod},
	}}
}

func TestOf(t *testing.T) {
	recursive := v1.SELinuxChangePolicyRecursive
	mount := v1.SELinuxChangePolicyMountOption
	block := v1.PersistentVolumeBlock
	use := func(c *v1.Container) { c.VolumeMounts = []v1.VolumeMount{{Name: "data"}} }
	type change = func(*SELinuxHost, *v1.Pod, *v1.PersistentVolume)
	for name, c := range map[string]struct {
		change change
		want   string // a label, or what the error says
	}{
		"of the pod": {func(*SELinuxHost, *v1.Pod, *v1.PersistentVolume) {}, "system_u:object_r:container_file_t:s0:c1,c2"},
		"of the container": {func(_ *SELinuxHost, p *v1.Pod, _ *v1.PersistentVolume) {
			p.Spec.Containers[0].SecurityContext = &v1.SecurityContext{SELinuxOptions: lev("s0:c3")}
		}, "system_u:object_r:container_file_t:s0:c3"},
		"user; type and role are of processes": {func(_ *SELinuxHost, p *v1.Pod, _ *v1.PersistentVolume) {
			p.Spec.SecurityContext.SELinuxOptions = &v1.SELinuxOptions{User: "me_u", Role: "r", Type: "t", Level: "s0:c1"}
		}, "me_u:object_r:container_file_t:s0:c1"},
		"no options": {func(_ *SELinuxHost, p *v1.Pod, _ *v1.PersistentVolume) { p.Spec.SecurityContext = nil }, ""},
		"no level": {func(_ *SELinuxHost, p *v1.Pod, _ *v1.PersistentVolume) {
			p.Spec.SecurityContext.SELinuxOptions = &v1.SELinuxOptions{Type: "t"}
		}, ""},
		"two labels": {func(_ *SELinuxHost, p *v1.Pod, _ *v1.PersistentVolume) { use(&p.Spec.Containers[1]) },
			"multiple SELinux labels found: system_u:object_r:container_file_t:s0:c1,c2, system_u:object_r:container_file_t:s0:c9"},
		"two labels, Recursive": {func(_ *SELinuxHost, p *v1.Pod, _ *v1.PersistentVolume) {
			use(&p.Spec.Containers[1])
			p.Spec.SecurityContext.SELinuxChangePolicy = &recursive
		}, "multiple SELinux labels found"},
		"one without a level": {func(_ *SELinuxHost, p *v1.Pod, _ *v1.PersistentVolume) {
			use(&p.Spec.Containers[1])
			p.Spec.Containers[1].SecurityContext.SELinuxOptions = &v1.SELinuxOptions{Type: "t"}
		}, "seLinuxOptions without level"},
		"of an init container": {func(_ *SELinuxHost, p *v1.Pod, _ *v1.PersistentVolume) {
			p.Spec.InitContainers = []v1.Container{{SecurityContext: &v1.SecurityContext{SELinuxOptions: lev("s0:c7")}}}
			use(&p.Spec.InitContainers[0])
		}, "multiple SELinux labels found"},
		"the same, written otherwise": {func(_ *SELinuxHost, p *v1.Pod, _ *v1.PersistentVolume) {
			use(&p.Spec.Containers[1])
			p.Spec.Containers[1].SecurityContext.SELinuxOptions = lev("s0:c2,c1")
		}, "system_u:object_r:container_file_t:s0:c1,c2"},
		"Recursive": {func(_ *SELinuxHost, p *v1.Pod, _ *v1.PersistentVolume) {
			p.Spec.SecurityContext.SELinuxChangePolicy = &recursive
		}, ""},
		"MountOption": {func(_ *SELinuxHost, p *v1.Pod, _ *v1.PersistentVolume) {
			p.Spec.SecurityContext.SELinuxChangePolicy = &mount
		}, "system_u:object_r:container_file_t:s0:c1,c2"},
		"ReadWriteOnce": {func(_ *SELinuxHost, _ *v1.Pod, v *v1.PersistentVolume) { v.Spec.AccessModes[0] = v1.ReadWriteOnce }, ""},
		"two modes": {func(_ *SELinuxHost, _ *v1.Pod, v *v1.PersistentVolume) {
			v.Spec.AccessModes = append(v.Spec.AccessModes, v1.ReadWriteMany)
		}, ""},
		"a block device": {func(_ *SELinuxHost, _ *v1.Pod, v *v1.PersistentVolume) { v.Spec.VolumeMode = &block }, ""},
		"two labels, ReadWriteMany": {func(_ *SELinuxHost, p *v1.Pod, v *v1.PersistentVolume) {
			use(&p.Spec.Containers[1])
			v.Spec.AccessModes[0] = v1.ReadWriteMany
		}, ""},
		"all modes": {func(h *SELinuxHost, _ *v1.Pod, v *v1.PersistentVolume) {
			h.AllModes, v.Spec.AccessModes[0] = true, v1.ReadWriteMany
		}, "system_u:object_r:container_file_t:s0:c1,c2"},
		"a policy without a file label": {func(h *SELinuxHost, _ *v1.Pod, _ *v1.PersistentVolume) { h.File = "" }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			h, pod, pv := base()
			c.change(h, pod, pv)
			got, err := h.Of(pod, "data", pv)
			if err != nil {
				if got != "" || c.want == "" || !strings.Contains(err.Error(), c.want) {
					t.Fatalf("error %v, want %q", err, c.want)
				}
				return
			}
			check.Equal(t, got, c.want, "it")
		})
	}
	_, pod, pv := base()
	if got, err := (*SELinuxHost)(nil).Of(pod, "data", pv); got != "" || err != nil {
		t.Errorf("without SELinux: %q, %v", got, err)
	}
	h, pod, _ := base()
	if got, err := h.Of(pod, "data", nil); got != "" || err != nil {
		t.Errorf("a volume in the pod: %q, %v", got, err)
	}
}

func TestMounted(t *testing.T) {
	for options, want := range map[string]struct {
		label string
		own   bool
	}{
		`rw,seclabel,errors=continue`:                                       {own: true},
		`rw,context="system_u:object_r:container_file_t:s0:c1,c2",relatime`: {label: "system_u:object_r:container_file_t:s0:c1,c2"},
		`rw,context=system_u:object_r:nfs_t:s0`:                             {label: "system_u:object_r:nfs_t:s0"},
		`rw,fscontext="a:b:c:s0:c1,seclabel,c2",rootcontext=x`:              {},
		``: {},
	} {
		if label, own := SELinuxMounted(options); label != want.label || own != want.own {
			t.Errorf("%s: %q, %v", options, label, own)
		}
	}
}

func TestSame(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"", "", true},
		{"", file, false},
		{"u:r:t:s0:c1,c2", "u:r:t:s0:c2,c1", true},
		{"u:r:t:s0:c1,c2,c3", "u:r:t:s0:c1.c3", true},
		{"u:r:t:s0-s0:c1.c3", "u:r:t:s0-s0:c3,c2,c1", true},
		{"u:r:t:s0-s0", "u:r:t:s0", true},
		{"u:r:t:s0:c1", "u:r:t:s0:c2", false},
		{"u:r:t:s0:c1", "u:r:o:s0:c1", false},
		{"u:r:t:s0:c1", "u:r:t", false},
		{"u:r:t:s0:cx", "u:r:t:s0:cy", false},
		{"u:r:t:s0:c0.c999999999", "u:r:t:s0:c0.c1023", false},
	} {
		if SameSELinuxLabel(c.a, c.b) != c.want || SameSELinuxLabel(c.b, c.a) != c.want {
			t.Errorf("%q and %q: %v", c.a, c.b, !c.want)
		}
	}
	if got := SELinuxConflict("data", "u:r:t:s0:c1", "u:r:t:s0:c2"); !strings.HasPrefix(got, `conflicting SELinux labels of volume data: "u:r:t:s0:c1" and "u:r:t:s0:c2"`) {
		t.Error(got)
	}
}

func TestOptions(t *testing.T) {
	with := []string{"noatime"}
	if got := SELinuxOptions(with, ""); len(got) != 1 {
		t.Error(got)
	}
	if got := SELinuxOptions(with, "u:r:t:s0:c1,c2"); len(got) != 2 || got[1] != `context="u:r:t:s0:c1,c2"` {
		t.Error(got)
	}
}
