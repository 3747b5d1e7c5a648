package scenarios

import (
	"runtime"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/apiclient/simapi"
	"github.com/troupe-dev/troupe/supervisor/sim"
	"github.com/troupe-dev/troupe/supervisor/sim/controlplane"
)

// busyCluster runs ten nodes with 200 pods for ten minutes: some crash, some are
// never ready for long, all are probed, pods are deleted and agents killed. It
// gives the hash over every delivered message and every effect.
func busyCluster(t *testing.T, seed uint64) uint64 {
	t.Helper()
	w, err := sim.New(sim.Config{Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := w.AddNodes(10, sim.NodeSpec{})
	if err != nil {
		t.Fatal(err)
	}
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
		if err := w.ControlPlane().Apply(workload); err != nil {
			t.Fatal(err)
		}
	}
	rng := w.Rand("test/chaos")
	for range 20 {
		w.Advance(30 * time.Second)
		all, err := simapi.Objects[*v1.Pod](w.API(), simapi.Select{})
		if err != nil {
			t.Fatal(err)
		}
		p := all[rng.IntN(len(all))]
		if err := w.API().Delete(port.APIDelete{Key: port.APIKey{Kind: port.PodKind, Namespace: p.Namespace, Name: p.Name}}); err != nil {
			t.Fatal(err)
		}
		nodes[rng.IntN(len(nodes))].RestartAgent()
	}
	if m := w.Metrics(); m.Restarts == 0 || m.PodsReady < 100 {
		t.Fatalf("seed %d: %+v", seed, m)
	}
	return w.TraceHash()
}

// TestSameSeedSameCluster runs each seed twice, on one, two and eight threads in
// turns. TROUPE_SEEDS says how many seeds.
func TestSameSeedSameCluster(t *testing.T) {
	t.Parallel()
	all := seeds(t, 1, 6)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	threads := [...]int{1, 2, 8}
	seen := map[uint64]uint64{}
	for _, seed := range all {
		runtime.GOMAXPROCS(threads[seed%3])
		first := busyCluster(t, seed)
		runtime.GOMAXPROCS(threads[(seed+1)%3])
		if second := busyCluster(t, seed); second != first {
			t.Errorf("seed %d: %016x on %d threads, %016x on %d", seed, first, threads[seed%3], second, threads[(seed+1)%3])
		}
		if other, same := seen[first]; same {
			t.Errorf("seeds %d and %d give the same run", other, seed)
		}
		seen[first] = seed
	}
	t.Logf("%d seeds, each twice", len(all))
}
