package node

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	must "github.com/troupe-dev/troupe/tests/check" // check is a function of this package
)

// TestOverReserved: a node that has nothing left for pods does not start. It may give them nothing.
func TestOverReserved(t *testing.T) {
	m := machine{capacity: v1.ResourceList{
		v1.ResourceCPU: resource.MustParse("2"), v1.ResourceMemory: resource.MustParse("4Gi"), v1.ResourcePods: resource.MustParse("110"),
	}}
	for settings, want := range map[string]string{
		"systemReserved: {cpu: 1500m, memory: 1Gi}\nkubeReserved: {cpu: 500m}":                         "",
		"systemReserved: {cpu: 1500m}\nkubeReserved: {cpu: 501m}":                                      "cpu: 2001m are reserved and the machine has 2;",
		"systemReserved: {cpu: \"3\", memory: 4Gi}\nevictionHard: {memory.available: 1Mi}":             "cpu: 3 are reserved and the machine has 2; memory: 4097Mi are reserved and the machine has 4Gi:",
		"kubeReserved: {memory: 4Gi}\nevictionHard: {memory.available: \"0%\", nodefs.available: 1Gi}": "",
	} {
		err := m.overReserved(held(configOf(t, settings)))
		if want == "" {
			must.Error(t, err)
			continue
		}
		must.Says(t, err, "invalid Node Allocatable configuration: "+strings.TrimSuffix(want, ";"), "the error with %s", settings)
	}
}

// TestNodeEvents: what programs look for in events.
func TestNodeEvents(t *testing.T) {
	for _, tt := range []struct {
		v2    bool
		swap  string
		stays bool
		want  string
	}{
		{true, "", false, ""},
		{true, "/dev/sda2", true, ""},
		{true, "/dev/sda2", false, "PossibleMemoryBackedVolumesOnDisk"},
		{false, "/dev/sda2", false, "CgroupV1 PossibleMemoryBackedVolumesOnDisk"},
	} {
		var reasons []string
		for _, e := range (machine{cgroups: cgroupFacts{v2: tt.v2}}).nodeEvents(tt.swap, func() bool { return tt.stays }) {
			reasons = append(reasons, e.Reason)
		}
		must.Equal(t, strings.Join(reasons, " "), tt.want, "reasons with %+v", tt)
	}
}
