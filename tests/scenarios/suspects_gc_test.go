package scenarios

import (
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/cri/simcri"
)

// TestSweepKeepsTheNewestNumber: a sweep removes what was stuck of a pod that has ended. The agent
// is killed while an older container cannot be removed, and the pod comes back. The number of its
// next container is a new one.
func TestSweepKeepsTheNewestNumber(t *testing.T) {
	t.Parallel()
	w := newNode(t, 1)
	stuck := true
	w.fault = func(c simcri.Call) (f simcri.Fault) {
		if c.Method != simcri.RemoveContainer && c.Method != simcri.RemovePodSandbox {
			return f
		}
		if f.Kind = port.Stuck; !stuck {
			f.Kind = port.Other
		}
		f.Fail = stuck || c.Method == simcri.RemoveContainer && c.Attempt == 0
		return f
	}
	w.add(aPod("web"))
	w.allUp(time.Minute)
	w.end("web", "app", 1)
	w.until(time.Minute, "it was restarted", func() bool { return w.runs("web", "app", 1) })
	w.drop("web")
	w.until(time.Minute, "the pod has ended", func() bool { return w.pod("web").UID == "" })

	stuck = false
	w.run(time.Hour) // many sweeps
	w.restart()
	w.add(aPod("web"))
	w.until(time.Minute, "it runs with a number that was never used", func() bool { return w.runs("web", "app", 2) })
	w.fault = nil
	w.drop("web")
	w.allUp(5 * time.Minute)
	w.quiet()
}
