package scenarios

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
)

// TestManyContainersHoldUpNobody: a pod starts its containers as soon as there is a slot, and it may have thousands of
// them. A younger pod does not wait for them.
func TestManyContainersHoldUpNobody(t *testing.T) {
	w := parallelNode(t, 1)
	crowd := emptyPod("crowd")
	const n = 200
	for i := range n {
		crowd.main(fmt.Sprintf("c%03d", i))
	}
	runs := func(pod, container string) bool { return w.newest(pod, container).State == observed.ContainerRunning }
	w.add(crowd)
	w.until(time.Minute, "its first container runs", func() bool { return runs("crowd", "c000") })
	w.add(many("plain", 5, aPod)...)
	w.until(time.Minute, "the younger ones run", func() bool {
		for _, name := range names("plain", 5) {
			if !runs(name, "app") {
				return false
			}
		}
		return true
	})
	running := 0
	for i := range n {
		if runs("crowd", fmt.Sprintf("c%03d", i)) {
			running++
		}
	}
	if running > n/2 {
		t.Errorf("%d of %d containers of the other pod were started first", running, n)
	}
	w.allUp(5 * time.Minute)
	w.quiet()
}

// TestMorePodsThanPlaces: a node has more pods than a mailbox has places, most of which have ended. What the apiserver
// has of them all is told at once, so that none of it is lost and asked for again.
func TestMorePodsThanPlaces(t *testing.T) {
	t.Parallel()
	w, c := newClusterNode(t, 1, withMailboxes(40))
	w.kill()
	for _, name := range names("ended", 100) {
		c.create(aPod(name))
		c.changeStatus(name, func(s *v1.PodStatus) { s.Phase, s.Reason = v1.PodFailed, "Evicted" })
	}
	w.start()
	c.create(aPod("fresh"))
	w.until(time.Minute, "a new pod is Ready", func() bool { return c.ready("fresh") })
	w.run(time.Minute)
	before := c.calls["Get Pod"]
	w.run(time.Minute)
	if n := c.calls["Get Pod"] - before; n > 10 {
		t.Errorf("pods were read %d times in a minute in which nothing happened", n)
	}
}
