package node

import (
	"bytes"
	"maps"
	"strconv"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/podcgroup"
	"github.com/troupe-dev/troupe/actors/decide/usage"
	"github.com/troupe-dev/troupe/supervisor/host/cgroup"
	must "github.com/troupe-dev/troupe/tests/check" // check is a function of this package
)

// TestPartialVolumes: people are told once of a volume whose statistics are too low, and again if it was counted meanwhile.
func TestPartialVolumes(t *testing.T) {
	var p partial
	var out bytes.Buffer
	log := zerolog.New(&out)
	look := func(partial ...bool) int {
		out.Reset()
		var pods []usage.Pod
		for i, is := range partial {
			pods = append(pods, usage.Pod{Name: "web", UID: types.UID(strconv.Itoa(i)), Volumes: []usage.Volume{{Name: "data", Partial: is}}})
		}
		p.tell(&log, pods)
		return strings.Count(out.String(), "lower bound")
	}
	for i, c := range []struct {
		partial []bool
		want    int
	}{{[]bool{false, false}, 0}, {[]bool{true, true}, 2}, {[]bool{true, true}, 0}, {[]bool{false, true}, 0}, {[]bool{true, true}, 1}} {
		if got := look(c.partial...); got != c.want {
			t.Errorf("look %d: told of %d, want %d", i, got, c.want)
		}
	}
}

// TestParts: cgroups that the configuration names are shown under the kubelet's names, and the root under none.
func TestParts(t *testing.T) {
	own := must.Value(cgroup.Own())(t)
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
