package run

import (
	"strings"
	"testing"
	"time"

	storagev1 "k8s.io/api/storage/v1"

	"github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/apiclient/simapi"
	"github.com/troupe-dev/troupe/supervisor/sim"
	"github.com/troupe-dev/troupe/supervisor/sim/machine"
	"github.com/troupe-dev/troupe/tests/check"
)

const withVolumes = `name: x
nodes: {count: 2, csi: {disk.example.com: {latency: 20ms, boot: 3s, attach: 1s, detach: 1s, provision: 1s, limit: 5, zones: 2}}}
steps:
- create: {workload: db, kind: StatefulSet, replicas: 1, image: db:v1, gracePeriod: 1s, volumes: {data: {driver: disk.example.com, size: 1Gi}}}
- wait: {workload: db, ready: 1, attached: 1, bound: 1, resizing: 0, within: 1m}
`

// TestVolumesOfAScenario: what the file says reaches machines, workloads and the control plane.
func TestVolumesOfAScenario(t *testing.T) {
	f := parse(t, withVolumes)
	s := nodeSpec("n00001", &f.Nodes)
	drives(&s, &f.Nodes, 1)
	d := s.CSI["disk.example.com"]
	if d.NodeID != "n00001" || d.MaxVolumes != 5 || d.Latency != 20*time.Millisecond || d.Boot != 3*time.Second || d.Topology["topology.disk.example.com/zone"] != "z1" {
		t.Errorf("%+v", d)
	}
	w := workload(f.Steps[0].Create)
	if w.Stateful == nil || w.Stateful.Parallel || len(w.Stateful.Claims) != 1 || *w.Stateful.Claims[0].Spec.StorageClassName != "disk.example.com" ||
		w.Template.Spec.Containers[0].VolumeMounts[0].MountPath != "/data" {
		t.Errorf("%+v", w)
	}
}

// TestVolumesLeft: a run fails if something stays attached that no pod uses.
func TestVolumesLeft(t *testing.T) {
	for _, c := range []struct{ name, steps, want string }{
		{"nothing is left", "- delete: {workload: db, claims: true}\n", ""},
		{"it is used", "- advance: 1m\n", ""},
		{"attaching hangs", "- failAttach: {driver: disk.example.com, nodes: [n00000, n00001], hang: true}\n- scale: {workload: db, replicas: 2}\n- advance: 1m\n- delete: {workload: db}\n", "attached: pvc-"},
		{"its driver has gone", "- stopDriver: {driver: disk.example.com, nodes: [n00000, n00001]}\n- delete: {workload: db}\n", "mounted: pvc-"},
	} {
		out, err := runIt(t.Context(), t, Options{Seed: 1, Scenario: parse(t, withVolumes+c.steps), ScenarioName: "f.yaml"})
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(out.Summary.Failures, "\n")
		if c.want == "" && got != "" || !strings.Contains(got, c.want) || c.want != "" && !strings.Contains(got, "want no volume without a pod") {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}

// TestVolumesGoWrong: each thing that must not happen to a volume is a failure of the run.
func TestVolumesGoWrong(t *testing.T) {
	w := check.Value(sim.New(sim.Config{Seed: 1}))(t)
	f := parse(t, withVolumes)
	r := &run{ctx: t.Context(), world: w, options: &Options{Scenario: f}, begin: w.Now(), cp: w.ControlPlane(), pods: w.Pods(),
		draw: w.Rand("draw"), nodeReady: map[string]bool{}, nextBeat: beatEvery, published: map[csi.Key]map[string]bool{}}
	if err := r.happen(); err != nil || len(r.failures) > 0 {
		t.Fatal(err, r.failures)
	}
	all, err := simapi.Objects[*storagev1.VolumeAttachment](w.API(), simapi.Select{})
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	k := csi.Key{Driver: "disk.example.com", Handle: *all[0].Spec.Source.PersistentVolumeName}
	other := map[string]string{"n00000": "n00001", "n00001": "n00000"}[all[0].Spec.NodeName]
	want := func(text string) {
		t.Helper()
		if len(r.failures) != 1 || !strings.Contains(r.failures[0].Got, text) {
			t.Errorf("%+v; want %s", r.failures, text)
		}
		r.failures = nil
	}
	told := w.Node(other).Machine().CSI.Changed
	told(machine.CSIChange{Op: csi.StageVolume, Key: k, Worked: true})
	want("is staged, and not attached")
	told(machine.CSIChange{Op: csi.PublishVolume, Key: k, Worked: true})
	want("is published on " + all[0].Spec.NodeName)
	bare := *all[0]
	bare.Finalizers = nil
	check.Value(w.API().Update(&bare))(t)
	check.Fatal(t, w.API().Delete(port.APIDelete{Key: port.APIKeyOf(all[0])}))
	w.Advance(time.Millisecond)
	want("was detached, and is mounted")
}
