package scenarios

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/eviction"
	"github.com/troupe-dev/troupe/supervisor/sim/machine"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestSpentPod: what a pod that was evicted has left on the disk goes although nobody deletes it, and its status stays,
// also after a restart of the agent.
func TestSpentPod(t *testing.T) {
	t.Parallel()
	w, c := newClusterNode(t, 1, withPressure(machine.Capacity{Memory: 4 * gib, NodeFS: 1000 * gib}))
	names := c.crowd(3)
	c.create(aPod("hog"))
	w.until(time.Minute, "all run", func() bool { return c.allReady(append(names, "hog")...) })
	w.watch.restartsExpected = false
	c.uses("hog", machine.Use{Memory: machine.Growth{Bytes: 4 * gib}})
	w.until(time.Minute, "it is evicted", func() bool { return c.get("hog").Status.Phase == v1.PodFailed })
	want := c.get("hog").Status
	w.until(2*time.Minute, "nothing of it is left", func() bool { return len(w.rt.Truth().Runtime.Pods) == len(names) })
	for _, restart := range []bool{false, true} {
		if restart {
			w.restart()
		}
		w.run(5 * time.Minute)
		got := c.get("hog").Status
		if got.Phase != v1.PodFailed || got.Reason != eviction.Reason {
			t.Errorf("it is %s, %s", got.Phase, got.Reason)
		}
		check.Deep(t, got.ContainerStatuses, want.ContainerStatuses, "its containers are")
	}
	c.delete("hog", nil)
	w.until(time.Minute, "it is gone", func() bool { return c.get("hog") == nil })
	c.onlyEvicted("", names)
}
