package node

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/podcgroup"
	"github.com/troupe-dev/troupe/actors/decide/usage"
	"github.com/troupe-dev/troupe/supervisor/host/cgroup"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/resourceuse"
	"github.com/troupe-dev/troupe/supervisor/serve/nodestats"
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

// TestLogsAtAScrape: a scrape of /metrics has what the logs of containers that run take.
func TestLogsAtAScrape(t *testing.T) {
	logs := t.TempDir()
	dir := filepath.Join(logs, "ns_web_u1", "app")
	must.Fatal(t, os.MkdirAll(dir, 0o700))
	must.Fatal(t, os.WriteFile(filepath.Join(dir, "0.log"), bytes.Repeat([]byte("x"), 5000), 0o600))
	running := v1.ContainerState{Running: &v1.ContainerStateRunning{}}
	web := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "u1"}, Status: v1.PodStatus{
		ContainerStatuses: []v1.ContainerStatus{{Name: "app", State: running}, {Name: "ended"}, {Name: "new", State: running}},
	}}
	u := usageSource{nodeDaemon: &nodeDaemon{Options: Options{Config: configOf(t, "volumeStatsAggPeriod: -1s\npodLogsDir: "+logs)}},
		find: func(context.Context) ([]*v1.Pod, error) { return []*v1.Pod{{}, web}, nil }}
	pods, used, err := u.claims(t.Context())
	must.Fatal(t, err)
	if len(pods) != 2 || len(used) != 2 || len(used[0].Containers) != 0 || len(used[1].Containers) != 2 {
		t.Fatalf("of %d pods %+v", len(pods), used)
	}
	p := used[1]
	if c := p.Containers; p.UID != "u1" || p.Namespace != "ns" || p.Name != "web" || c[0].Name != "app" || c[0].Logs == nil ||
		*c[0].Logs.Used < 5000 || c[1].Logs != nil {
		t.Errorf("got %+v", p)
	}
}

// TestWhoIsListed: a pod of which no container runs is in no summary, but it has a cgroup, and a network.
func TestWhoIsListed(t *testing.T) {
	crashing := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "crashing"}, Status: v1.PodStatus{Phase: v1.PodRunning}}
	web := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Status: v1.PodStatus{
		Phase:             v1.PodRunning,
		ContainerStatuses: []v1.ContainerStatus{{Name: "app", State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}},
	}}
	u := usageSource{
		nodeDaemon: &nodeDaemon{Options: Options{Config: configOf(t, "volumeStatsAggPeriod: -1s\npodLogsDir: "+t.TempDir())}},
		meter:      resourceuse.New(),
		find: func(context.Context) ([]*v1.Pod, error) {
			return []*v1.Pod{{Status: v1.PodStatus{Phase: v1.PodSucceeded}}, crashing, web}, nil
		},
	}
	for depth, want := range map[nodestats.Depth]string{
		nodestats.Basic: "[web]", nodestats.Short: "[web]", nodestats.Disks: "[web]", nodestats.Full: "[crashing web]",
	} {
		_, pods, err := u.read(t.Context(), depth)
		must.Fatal(t, err)
		var names []string
		for i := range pods {
			names = append(names, pods[i].Name)
		}
		must.Equal(t, fmt.Sprint(names), want, "depth %d: pods", depth)
	}
}

// TestParts: cgroups that the configuration names are shown under the kubelet's names, and the root under none.
func TestParts(t *testing.T) {
	own := must.Value(cgroup.Own())(t)
	of := func(lines string, cgroups *podcgroup.Settings, flags ...string) map[string]string {
		d := &nodeDaemon{Options: Options{Config: configOf(t, lines, flags...)}}
		if cgroups != nil {
			d.own = &podCgroups{settings: cgroups}
		}
		return (&usageSource{nodeDaemon: d}).parts()
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
