package node

import (
	"maps"
	"testing"

	"github.com/troupe-dev/troupe/actors/decide/podcgroup"
	"github.com/troupe-dev/troupe/supervisor/host/cgroup"
)

// TestParts: cgroups that the configuration names are shown under the kubelet's names, and the root under none.
func TestParts(t *testing.T) {
	own, err := cgroup.Own()
	if err != nil {
		t.Fatal(err)
	}
	of := func(lines string, cgroups *podcgroup.Settings, flags ...string) map[string]string {
		u := usageSource{config: configOf(t, lines, flags...), cgroups: cgroups}
		return u.parts()
	}
	want := map[string]string{"kubelet": own}
	if own == "/" {
		want = map[string]string{}
	}
	if got := of("", nil); !maps.Equal(got, want) {
		t.Errorf("without settings: %v, want %v", got, want)
	}
	want = map[string]string{"kubelet": "/agent", "misc": "/system", "runtime": "/runtime", "pods": "/kubepods"}
	if got := of("kubeletCgroups: agent\ncgroupRoot: /\nsystemCgroups: /system\n",
		&podcgroup.Settings{Driver: podcgroup.Cgroupfs}, "--runtime-cgroups=/runtime/"); !maps.Equal(got, want) {
		t.Errorf("with all: %v, want %v", got, want)
	}
}
