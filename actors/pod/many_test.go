package pod_test

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/apipod"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podstatus"
	"github.com/troupe-dev/troupe/actors/decide/probe"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/tests/check"
)

// many is a pod with so many containers, each with a probe.
func many(n int) *v1.Pod {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("c%03d", i))
	}
	p := onePod(names...)
	for i := range p.Spec.Containers {
		p.Spec.Containers[i].ReadinessProbe = &v1.Probe{PeriodSeconds: 1, ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{}}}
	}
	return p
}

// TestManyContainers: what happens to one of many containers is told together with what happens to others, and soon;
// what others wait for is told at once, and nothing is left untold.
func TestManyContainers(t *testing.T) {
	const n, apart = 100, 25 * time.Millisecond
	type told struct {
		at     time.Time
		status *v1.PodStatus
	}
	var reports []told
	var watches []time.Time
	r := newRig(t, many(n), nil)
	r.report = func(m pod.Report) { reports = append(reports, told{r.Now(), m.Status}) }
	r.watch = func(m pod.ProbeContainers) { watches = append(watches, r.Now()) }
	for i := range n {
		r.until(time.Minute, "running", r.in(fmt.Sprintf("c%03d", i), observed.ContainerRunning, 0))
	}
	r.Advance(apart)
	check.Equal(t, len(r.probed.Containers), n, "containers to probe at the end")
	for i := range r.status.ContainerStatuses {
		if s := &r.status.ContainerStatuses[i]; s.State.Running == nil {
			t.Errorf("%s: %+v", s.Name, s.State)
		}
	}
	soon := 0
	for i := 1; i < len(reports); i++ {
		a, b := reports[i-1], reports[i]
		if b.at.Sub(a.at) < apart && !apipod.Urgent(a.status, b.status) && !podstatus.Started(a.status, b.status) {
			soon++
		}
	}
	check.Equal(t, soon, 0, "reports that did not wait for others")
	for i := 1; i < len(watches); i++ {
		if d := watches[i].Sub(watches[i-1]); d < apart {
			t.Errorf("probes were told of more containers after %v", d)
		}
	}
	// Readiness of the pod does not wait.
	for i, c := range r.probed.Containers {
		r.actor.Tell(pod.Probed{ID: c.ID, Health: probe.Health{Readiness: probe.Success}})
		r.Settle()
		if i == n-1 {
			check.Equal(t, podstatus.Ready(&r.status), true, "it is ready at once")
		}
	}
	// Nor does the end of one that is probed.
	before := len(watches)
	r.stop(time.Second)
	r.Settle()
	check.Equal(t, len(watches) > before, true, "probes are told at once that it ends")
}
