package cluster

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestPreemption: a critical pod on a full node takes the place of one pod, the Burstable one, and of no other.
//
//tier:served
func TestPreemption(t *testing.T) {
	t.Parallel()
	b := started(t, "preemption", onServed)
	b.awaitNode(t, "is ready for pods", usable)
	cpus := b.node(t).Status.Allocatable.Cpu().MilliValue()
	list := func(milli int64) v1.ResourceList {
		return v1.ResourceList{
			v1.ResourceCPU: *resource.NewMilliQuantity(milli, resource.DecimalSI), v1.ResourceMemory: resource.MustParse("16Mi"),
		}
	}
	change := func(r v1.ResourceRequirements) func(*v1.PodSpec) {
		return func(s *v1.PodSpec) { s.NodeName, s.Containers[0].Resources = b.name, r }
	}
	quarter, more := list(cpus/4), list(cpus/4+100)
	b.create(t, b.pod("guaranteed", change(v1.ResourceRequirements{Requests: quarter, Limits: quarter})))
	b.create(t, b.pod("burstable", change(v1.ResourceRequirements{Requests: more})))
	b.create(t, b.pod("besteffort", change(v1.ResourceRequirements{})))
	before := map[string]*v1.Pod{}
	for _, name := range []string{"guaranteed", "burstable", "besteffort"} {
		before[name] = b.awaitPod(t, name, "is ready", ready)
	}
	b.create(t, b.bound("refused", v1.ResourceCPU, fmt.Sprint(cpus/2, "m")))
	b.awaitRefused(t, "refused", "OutOfcpu")

	critical := b.pod("critical", change(v1.ResourceRequirements{Requests: list(cpus / 2)}))
	critical.Spec.PriorityClassName = "system-node-critical"
	b.create(t, critical)
	b.awaitPod(t, "critical", "is ready", ready)
	victim := b.awaitPod(t, "burstable", "is preempted", phase(v1.PodSucceeded)) // its container ended with 0 when it was stopped
	if victim.Status.Reason != "Preempting" || victim.Status.Message != "Preempted in order to admit critical pod" {
		t.Errorf("the victim's status is %s: %s", victim.Status.Reason, victim.Status.Message)
	}
	disrupted := false
	for _, c := range victim.Status.Conditions {
		disrupted = disrupted || c.Type == v1.DisruptionTarget && c.Status == v1.ConditionTrue && c.Reason == v1.PodReasonTerminationByKubelet
	}
	if !disrupted {
		t.Errorf("the victim's conditions are %+v", victim.Status.Conditions)
	}
	b.awaitEvent(t, "burstable", "Preempting", "Preempted in order to admit critical pod")
	for _, name := range []string{"guaranteed", "besteffort"} {
		was, is := before[name].Status.ContainerStatuses[0], b.awaitPod(t, name, "is ready", ready).Status.ContainerStatuses[0]
		if is.ContainerID != was.ContainerID || is.RestartCount != 0 {
			t.Errorf("%s was %+v and is %+v", name, was, is)
		}
	}
}
