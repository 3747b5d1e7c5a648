package podplan_test

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podplan"
	"github.com/troupe-dev/troupe/actors/decide/volumeplan"
	"github.com/troupe-dev/troupe/actors/smallmap"
)

// steady is a pod with one container that runs and has nothing to do: what
// nearly every plan of a node is made for.
func steady() podplan.Input {
	grace := int64(30)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	spec := v1.Container{Name: "a", Image: "img:1", ImagePullPolicy: v1.PullIfNotPresent}
	return podplan.Input{
		Now: now,
		Pod: &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "u1"},
			Spec:       v1.PodSpec{RestartPolicy: v1.RestartPolicyAlways, TerminationGracePeriodSeconds: &grace, Containers: []v1.Container{spec}},
		},
		Facts: podplan.Facts{
			Known: true,
			View: observed.Pod{
				Sandboxes: []observed.Sandbox{{ID: "s0", State: observed.SandboxReady, Detailed: true, IPs: []string{"10.0.0.1"}, CreatedAt: now.Add(-time.Hour)}},
				Containers: []observed.Container{{ID: "a0", SandboxID: "s0", Name: "a", State: observed.ContainerRunning, Detailed: true,
					Image: "img:1", ImageRef: "sha256:1", SpecHash: podplan.SpecHash(&spec), CreatedAt: now.Add(-time.Hour), StartedAt: now.Add(-time.Hour)}},
			},
			Volumes: volumeplan.Volumes{State: volumeplan.Up},
			Images:  smallmap.Map[string, imagepull.Status]{{Key: "a", Value: imagepull.Status{State: imagepull.Ready, Image: "img:1", Ref: "sha256:1"}}},
		},
		CrashPolicy: backoff.Policy{Base: 10 * time.Second, Max: 5 * time.Minute, Reset: 10 * time.Minute},
		RetryPolicy: backoff.Policy{Base: time.Second, Max: time.Minute},
	}
}

func BenchmarkPlanSteady(b *testing.B) {
	in := steady()
	b.ReportAllocs()
	for b.Loop() {
		if out := podplan.Plan(in); len(out.Actions) > 0 {
			b.Fatal("a steady pod has something to do")
		}
	}
}

// TestSteadyPlanAllocatesNothing: with 150,000 simulated pods each of these
// would be garbage 150,000 times.
func TestSteadyPlanAllocatesNothing(t *testing.T) {
	in := steady()
	if n := testing.AllocsPerRun(100, func() { podplan.Plan(in) }); n > 1 {
		t.Errorf("a plan that finds nothing to do allocates %v times", n)
	}
}
