package scenarios

import (
	"fmt"
	"testing"
	"time"

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
