package cluster

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// TestOOMKills: a container that takes more memory than it may is killed, and a process inside another one, which goes
// on. The apiserver shows both, and other pods do not notice.
//
//tier:real
func TestOOMKills(t *testing.T) {
	t.Parallel()
	b := started(t, "oom-kills", func(s *setup) {
		s.agent.Settings = "evictionHard: {memory.available: 100Mi}\n"
	})
	undisturbed := b.bystanders(t, 3)
	limited := func(s *v1.PodSpec) {
		s.Containers[0].Resources.Limits = v1.ResourceList{v1.ResourceMemory: resource.MustParse("32Mi")}
	}
	b.create(t, b.pod("all", changes(work("hog memory 200"), limited)))
	// Its probe takes too much, again and again. The other container has no limit, and so the pod has none.
	b.create(t, b.pod("inside", changes(work("sleep"), limited, func(s *v1.PodSpec) {
		s.Containers[0].ReadinessProbe = &v1.Probe{PeriodSeconds: 1, TimeoutSeconds: 10, ProbeHandler: v1.ProbeHandler{
			Exec: &v1.ExecAction{Command: strings.Fields("/work hog memory 200")}}}
		s.Containers = append(s.Containers, v1.Container{Name: "other", Image: lab.WebImage})
	})))
	b.awaitPod(t, "all", "was killed for its memory", func(p *v1.Pod) error {
		for _, s := range p.Status.ContainerStatuses {
			if e := s.LastTerminationState.Terminated; e != nil && e.Reason == "OOMKilled" && e.ExitCode == 137 {
				return nil
			}
		}
		return fmt.Errorf("%+v", p.Status.ContainerStatuses)
	})
	of := func(pod, reason string) (found []v1.Event) {
		list := check.Value(b.admin.CoreV1().Events(b.name).List(t.Context(), metav1.ListOptions{
			FieldSelector: "involvedObject.name=" + pod + ",reason=" + reason,
		}))(t)
		return list.Items
	}
	var told []v1.Event
	b.await(t, "pod inside has an event", func() error {
		if told = of("inside", "OOMKilling"); len(told) == 0 {
			return errors.New("none")
		}
		return nil
	})
	t.Logf("%s: %s", told[0].InvolvedObject.FieldPath, told[0].Message)
	const why = "because the container reached its memory limit. The container keeps running."
	if m := told[0].Message; !strings.Contains(m, "work (pid ") || !strings.HasSuffix(m, why) || told[0].Type != v1.EventTypeWarning || told[0].InvolvedObject.FieldPath != "spec.containers{app}" {
		t.Errorf("%+v", told[0])
	}
	b.await(t, "it was killed again and again", func() error {
		p := b.get(t, "inside")
		if n := len(of("inside", "OOMKilling")); n != 1 || p.Status.ContainerStatuses[0].RestartCount != 0 {
			t.Fatalf("%d events, %d restarts, want 1 and 0", n, p.Status.ContainerStatuses[0].RestartCount)
		}
		for _, e := range of("inside", "Unhealthy") {
			if e.Count >= 5 {
				return nil
			}
		}
		return fmt.Errorf("%v", of("inside", "Unhealthy"))
	})
	check.Count(t, len(of("all", "OOMKilling")), 0, "%d events say that a container goes on, which ended")
	nodes, err := b.admin.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{
		FieldSelector: "involvedObject.name=" + b.name + ",reason=SystemOOM",
	})
	if err != nil || len(nodes.Items) > 0 {
		t.Errorf("%v: the machine did not run out of memory: %+v", err, nodes)
	}
	undisturbed()
}
