package scenarios

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/apiclient/simapi"
	"github.com/troupe-dev/troupe/supervisor/sim"
	"github.com/troupe-dev/troupe/supervisor/sim/controlplane"
	"github.com/troupe-dev/troupe/tests/check"
)

// busyCluster runs ten nodes with 200 pods for ten minutes: some crash, some are
// never ready for long, all are probed, pods are deleted and agents killed. It
// gives the hash over every delivered message and every effect.
func busyCluster(t *testing.T, seed uint64) uint64 {
	t.Helper()
	w := check.Value(sim.New(sim.Config{Seed: seed}))(t)
	nodes := check.Value(w.AddNodes(10, sim.NodeSpec{}))(t)
	w.Advance(5 * time.Second)
	for _, k := range []struct {
		name     string
		replicas int
		behavior map[string]string
	}{
		{"steady", 120, nil},
		{"crashing", 40, map[string]string{"sim.troupe.dev/run-for": "1s..90s", "sim.troupe.dev/exit-code": "1"}},
		{"flapping", 40, map[string]string{"sim.troupe.dev/ready-for": "20s..60s", "sim.troupe.dev/unready-for": "5s..30s"}},
	} {
		c := v1.Container{Name: "main", Image: k.name + ":v1", Ports: []v1.ContainerPort{{ContainerPort: 80}}}
		c.ReadinessProbe = &v1.Probe{ProbeHandler: v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Port: intstr.FromInt32(80)}}, PeriodSeconds: 10}
		workload := controlplane.Workload{Name: k.name, Replicas: k.replicas}
		workload.Template.Annotations = k.behavior
		workload.Template.Spec.Containers = []v1.Container{c}
		check.Fatal(t, w.ControlPlane().Apply(workload))
	}
	rng := w.Rand("test/chaos")
	for range 20 {
		w.Advance(30 * time.Second)
		all := check.Value(simapi.Objects[*v1.Pod](w.API(), simapi.Select{}))(t)
		p := all[rng.IntN(len(all))]
		check.Fatal(t,
			w.API().Delete(port.APIDelete{Key: port.APIKey{Kind: port.PodKind, Namespace: p.Namespace, Name: p.Name}}))
		nodes[rng.IntN(len(nodes))].RestartAgent()
	}
	if m := w.Metrics(); m.Restarts == 0 || m.PodsReady < 100 {
		t.Fatalf("seed %d: %+v", seed, m)
	}
	return w.TraceHash()
}

// busyLife is the hash of everything that happened in a busy life of a node alone, busyClusterLife that of one with an
// apiserver.
func busyLife(t *testing.T, seed uint64) uint64 {
	h := newHavoc(t, seed)
	for _, n := range names("q", 12) {
		h.add(h.anyPod(n))
	}
	h.trouble, h.panics = 0.05, 0.002
	h.live(15)
	h.run(20 * time.Second)
	h.kill()
	return h.sim.TraceHash()
}

func busyClusterLife(t *testing.T, seed uint64) uint64 {
	h := newClusterHavoc(t, seed)
	h.trouble, h.panics = 0.05, 0.002
	for _, n := range names("q", 8) {
		h.c.create(h.anyPod(n))
	}
	h.live(20)
	h.run(20 * time.Second)
	h.kill()
	return h.sim.TraceHash()
}

// TestSameSeedSameCluster, TestSameSeedSameRun and TestClusterSameSeedSameRun run the same life again: every message to
// every actor with all its contents, and every effect, is the same, at the same times, in the same order. TROUPE_SEEDS
// says how many seeds.
func TestSameSeedSameCluster(t *testing.T)    { sameOnThreads(t, 1, 6, busyCluster) }
func TestSameSeedSameRun(t *testing.T)        { sameOnThreads(t, 4000, 50, busyLife) }
func TestClusterSameSeedSameRun(t *testing.T) { sameOnThreads(t, 15000, 20, busyClusterLife) }

// againSeeds is set in a process that runs seeds for sameOnThreads: those that it runs.
const againSeeds = "TROUPE_AGAIN"

// sameOnThreads runs each of n seeds here, and again in another process that has one, two or eight threads: so many
// belong to a process, and other tests run in this one.
func sameOnThreads(t *testing.T, first, n uint64, hash func(*testing.T, uint64) uint64) {
	t.Helper()
	t.Parallel()
	if list := os.Getenv(againSeeds); list != "" {
		for s := range strings.SplitSeq(list, ",") {
			seed := check.Value(strconv.ParseUint(s, 10, 64))(t)
			fmt.Printf("\nhash of %d on %d threads: %x\n", seed, runtime.GOMAXPROCS(0), hash(t, seed))
		}
		return
	}
	all, threads := seeds(t, first, n), [...]int{1, 2, 8}
	lists := make([][]string, len(threads))
	sums := map[uint64]uint64{}
	want := map[string]bool{}
	for i, seed := range all {
		sum, on := hash(t, seed), i%len(threads)
		if other, is := sums[sum]; is {
			t.Errorf("seeds %d and %d give the same run", other, seed)
		}
		sums[sum] = seed
		lists[on] = append(lists[on], fmt.Sprint(seed))
		want[fmt.Sprintf("hash of %d on %d threads: %x", seed, threads[on], sum)] = true
	}
	got := map[string]bool{}
	for i, list := range lists {
		if len(list) == 0 {
			continue
		}
		c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout=30m")
		c.Env = append(os.Environ(), againSeeds+"="+strings.Join(list, ","), fmt.Sprint("GOMAXPROCS=", threads[i]))
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("on %d threads: %v\n%s", threads[i], err, out)
		}
		for line := range strings.Lines(string(out)) {
			if strings.HasPrefix(line, "hash of ") {
				got[strings.TrimSpace(line)] = true
			}
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("got\n  %s\nwant\n  %s", strings.Join(slices.Sorted(maps.Keys(got)), "\n  "),
			strings.Join(slices.Sorted(maps.Keys(want)), "\n  "))
	}
	t.Logf("%d seeds, each twice", len(all))
}
