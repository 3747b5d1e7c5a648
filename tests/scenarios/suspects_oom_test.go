package scenarios

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestOOMThatShowsLate: the runtime says of a container first that it ended with an error, and a moment
// later that it was out of memory. The pod's status says so too, and the restart does not wait for it.
func TestOOMThatShowsLate(t *testing.T) {
	w, c := parallelCluster(t, 1)
	oom := func(name string, p v1.RestartPolicy) *spec {
		return aPod(name).restarts(p).script("app", "oom-after", "5s").script("app", "oom-late", "200ms")
	}
	c.create(oom("web", v1.RestartPolicyAlways), oom("job", v1.RestartPolicyNever))
	w.until(time.Minute, "both run", func() bool { return w.runs("web", "app", 0) && w.runs("job", "app", 0) })
	w.until(time.Minute, "web has ended", func() bool { return !w.runs("web", "app", 0) })
	if took := w.until(time.Minute, "web runs again", func() bool { return w.runs("web", "app", 1) }); took > 200*time.Millisecond {
		t.Errorf("it runs again after %v", took)
	}
	w.run(3 * time.Second)
	if s := c.get("web").Status.ContainerStatuses[0].LastTerminationState.Terminated; s == nil || s.Reason != "OOMKilled" {
		t.Errorf("web: %+v, want OOMKilled", s)
	}
	if p := c.get("job"); p.Status.Phase != v1.PodFailed || p.Status.ContainerStatuses[0].State.Terminated.Reason != "OOMKilled" {
		t.Errorf("job: %s, %+v, want OOMKilled", p.Status.Phase, p.Status.ContainerStatuses[0].State.Terminated)
	}
}

// TestKilledByHand: a container that somebody killed is looked at twice, and no more.
func TestKilledByHand(t *testing.T) {
	w, c := parallelCluster(t, 1)
	c.create(aPod("job").restarts(v1.RestartPolicyNever))
	w.until(time.Minute, "it runs", func() bool { return w.runs("job", "app", 0) })
	w.run(time.Minute)
	before := w.rt.Calls(simcri.ContainerStatus)
	w.end("job", "app", 137)
	if took := w.until(time.Minute, "it has failed", func() bool { return finished(c.get("job")) }); took > time.Second {
		t.Errorf("failed after %v", took)
	}
	w.run(10 * time.Minute)
	check.Count(t, w.rt.Calls(simcri.ContainerStatus)-before, 2, "it was inspected %d times")
	if s := c.get("job").Status.ContainerStatuses[0].State.Terminated; s == nil || s.Reason != "Error" || s.ExitCode != 137 {
		t.Errorf("%+v, want Error", s)
	}
}
