package run

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/devices"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/sim"
	"github.com/troupe-dev/troupe/supervisor/sim/machine"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestDevicesHaveOneOwner: a run fails when two containers of a node have one device.
func TestDevicesHaveOneOwner(t *testing.T) {
	w := check.Value(sim.New(sim.Config{}))(t)
	r := &run{world: w, begin: w.Now()}
	s := sim.NodeSpec{Name: "n00007", Devices: map[v1.ResourceName]machine.DevicePlugin{"example.com/gpu": {}}}
	r.holdDevices(&s)
	for _, pod := range []string{"a", "b"} {
		for _, kind := range []observed.EventKind{observed.ContainerCreatedEvent, observed.ContainerStartedEvent} {
			s.Transition(simcri.Transition{
				Kind: kind, ID: pod, Container: "app", Pod: observed.PodRef{Namespace: "default", Name: pod, UID: types.UID(pod)},
				Devices: &devices.Given{PreStart: []devices.PreStart{{Resource: "example.com/gpu", IDs: []string{"3"}}}},
			})
		}
	}
	if len(r.failures) != 1 || !strings.Contains(r.failures[0].Got, "example.com/gpu/3, which container a has") || r.failures[0].Where != "n00007" {
		t.Errorf("%+v", r.failures)
	}
	plain := sim.NodeSpec{Name: "n00008"}
	if r.holdDevices(&plain); plain.Transition != nil {
		t.Error("a node without devices is watched")
	}
}

// TestTopology: CPUs and devices are spread over the NUMA nodes.
func TestTopology(t *testing.T) {
	f := parse(t, strings.Replace(steps, "nodes: {count: 3}", `nodes: {count: 3, cpu: "6", numaNodes: 3, devices: {example.com/gpu: {count: 4}}}`, 1))
	s := nodeSpec("n", &f.Nodes)
	nodes := map[int]int{}
	for _, c := range s.Assign.Machine.CPUs {
		nodes[c.Node]++
	}
	if len(nodes) != 3 || nodes[0] != 2 || nodes[2] != 2 || len(s.Assign.Machine.Nodes) != 3 {
		t.Errorf("CPUs by NUMA node: %v", nodes)
	}
	near := ""
	for _, d := range s.Devices["example.com/gpu"].Devices {
		near += string(rune('0' + d.Nodes[0]))
	}
	check.Equal(t, near, "0012", "devices are near to")
	check.Fatal(t, s.Validate())
}
