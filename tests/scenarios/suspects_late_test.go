package scenarios

import (
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/cri/simcri"
)

// TestSandboxAfterTheEnd: the runtime makes a pod's sandbox after the pod has failed at its deadline.
// The pod is still there for people to look at, and the sandbox is taken down.
func TestSandboxAfterTheEnd(t *testing.T) {
	w, c := parallelCluster(t, 1, withLateEffects(1))
	slow, fails := true, 0
	w.fault = func(call simcri.Call) (f simcri.Fault) {
		switch {
		case call.Method == simcri.RunPodSandbox && slow:
			slow, f.Latency = false, 6*time.Minute
		case call.Method == simcri.RunPodSandbox:
			f.Hang = true
		case call.Method == simcri.StopPodSandbox && fails < 2:
			fails++
			f.Fail = true
		}
		return f
	}
	job := aPod("job")
	deadline := int64(60)
	job.Spec.ActiveDeadlineSeconds = &deadline
	c.create(job)
	w.until(10*time.Minute, "it has failed", func() bool { p := c.get("job"); return p != nil && finished(p) })
	w.until(10*time.Minute, "its sandbox is there", func() bool { return len(w.truthOf("job").Sandboxes) > 0 })
	w.run(2 * time.Minute) // a list of the runtime
	if fails < 2 {
		t.Fatal("nobody stops the sandbox")
	}
	for _, s := range w.truthOf("job").Sandboxes {
		if s.State == observed.SandboxReady {
			w.failf("sandbox %d is still there", s.Attempt)
		}
	}
	w.fault = nil
	c.delete("job", nil)
	w.until(time.Minute, "nothing is left", c.nothingLeft)
	w.clusterQuiet()
}
