package assignments_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/troupe-dev/troupe/actors/assignments"
	"github.com/troupe-dev/troupe/actors/decide/admit"
	"github.com/troupe-dev/troupe/actors/decide/cpus"
	decide "github.com/troupe-dev/troupe/actors/decide/devices"
	"github.com/troupe-dev/troupe/actors/decide/topology"
)

// counts says what is counted.
type counts struct{ r *rig }

// counted counts, on a machine where pods get whole cores of one NUMA node.
func counted(r *rig) {
	r.quiet, r.counts = true, counts{r}
	r.rules.Options.FullPCPUsOnly = true
	r.rules.Topology, r.rules.TopologyOptions = kubelet.SingleNumaNodeTopologyManagerPolicy, topology.Options{MaxNodes: 8}
	r.rules.Scope = kubelet.PodTopologyManagerScope
}

// Alignments implements assignments.Counts.
func (c counts) Alignments(counted, refused []cpus.Alignment) {
	c.r.Say("counts: of %v, refused for %v", counted, refused)
}

// Decided implements assignments.Counts.
func (c counts) Decided(d assignments.Decision) {
	text := fmt.Sprintf("counts: %d of CPUs %v", d.CPUs, d.Alignments)
	if d.Rejected != nil {
		text = fmt.Sprintf("counts: %d of CPUs %s %v", d.CPUs, d.Rejected.Reason, d.Misaligned)
	}
	c.r.Say("%s", text)
}

// Shared implements assignments.Counts.
func (c counts) Shared(shared int, own map[int]int) {
	c.r.Say("counts: shared %d, own %v", shared, own)
}

// Allocated implements assignments.Counts.
func (c counts) Allocated(resource v1.ResourceName, _ time.Duration) {
	c.r.Say("counts: %s allocated", resource)
}

// TestCounts: what is counted of pods that get CPUs, that do not, and that have them already.
func TestCounts(t *testing.T) {
	r := newRig(t, counted)
	r.want("there is none yet", "counts: of [{container physical_cpu} {container uncore_cache} {container numa_node} {pod numa_node}], "+
		"refused for [{container physical_cpu} {container numa_node} {pod numa_node}]")
	r.disk()
	r.want("the file was read", "counts: shared 3, own map[0:0]", "file: 0 pods, shared 0-3", "counts: shared 3, own map[0:0]")
	r.tells(asks("a", "2"))
	r.disk()
	all := "counts: 1 of CPUs map[{container physical_cpu}:1 {container uncore_cache}:1 {pod numa_node}:1]"
	r.want("it has two", all, "file: 1 pods, shared 0,3", "counts: shared 1, own map[0:2]", "pods: a c 1-2; shared 0,3")
	r.tells(asks("a", "2"))
	r.want("it has them already", "counts: 1 of CPUs map[{container physical_cpu}:1 {pod numa_node}:1]",
		"counts: shared 1, own map[0:2]", "pods: a c 1-2; shared 0,3")
	r.tells(asks("b", "2"))
	r.want("too many", "counts: 1 of CPUs TopologyAffinityError {pod numa_node}", "counts: shared 1, own map[0:2]",
		"pods: b TopologyAffinityError; shared 0,3")
	r.tells(assignments.Release{UID: "a"})
	r.disk()
	r.want("they are free", "file: 0 pods, shared 0-3", "counts: shared 3, own map[0:0]")
}

// TestCountsOfRefused: a pod that the node has too little for counts as one that has asked.
func TestCountsOfRefused(t *testing.T) {
	r := newRig(t, counted)
	r.disk()
	r.Forget()
	whole, shares := asks("a", "2"), asks("b", "500m")
	short := func(name v1.ResourceName) *admit.Rejection {
		return &admit.Rejection{Reason: "OutOf" + string(name), Short: v1.ResourceList{name: resource.MustParse("1")}}
	}
	r.tells(assignments.Refused{Pod: whole.Pod, Why: short(v1.ResourceCPU)})
	r.want("too few CPUs", "counts: 1 of CPUs OutOfcpu {container physical_cpu}")
	r.tells(assignments.Refused{Pod: whole.Pod, Why: short(v1.ResourceMemory)}, assignments.Refused{Pod: shares.Pod, Why: short(v1.ResourceCPU)})
	r.want("too little of what it does not ask for alone", "counts: 1 of CPUs OutOfmemory { }", "counts: 0 of CPUs OutOfcpu { }")
}

// TestCountsOfDevices: a pod is counted once, when it is clear whether it gets all that it asks for.
func TestCountsOfDevices(t *testing.T) {
	r := newRig(t, plugged, counted)
	r.disk()
	r.offers(decide.Options{}, "a", "b")
	r.Forget()
	r.tells(wants("one", "1"))
	r.want("its plugin is told", "plugin: allocate [a]")
	r.plugin.err = errors.New("no")
	r.plugin.answers.Release(0)
	r.Advance(time.Millisecond)
	r.want("it is refused, and nothing is aligned; its device is free", "counts: 0 of CPUs UnexpectedAdmissionError { }",
		"counts: shared 3, own map[0:0]", "counts: shared 3, own map[0:0]", "pods: one UnexpectedAdmissionError; shared 0-3")
	r.plugin.err = nil
	r.tells(wants("two", "1"))
	r.plugin.answers.Release(0)
	r.Advance(time.Millisecond)
	r.disk()
	r.want("it has its device", "plugin: allocate [a]", "counts: example.com/gpu allocated",
		"counts: 0 of CPUs map[{pod numa_node}:1]", "counts: shared 3, own map[0:0]", "pods: two c devices; shared 0-3")
}
