package scenarios

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/eviction"
	"github.com/troupe-dev/troupe/actors/decide/podstatus"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/apiclient/simapi"
	"github.com/troupe-dev/troupe/supervisor/sim/machine"
)

// TestEvictedWhileDeleted: a pod that is being deleted, and does not end, takes all memory. It is evicted as others
// are: its grace period is shortened, and its last status says that it has failed, and why. It makes no difference
// that the agent is killed meanwhile, also if the next one finds enough memory.
func TestEvictedWhileDeleted(t *testing.T) {
	t.Parallel()
	const (
		never = time.Duration(-1)
		noted = 100 * time.Millisecond // after that the checkpoint has the eviction
	)
	for _, killAfter := range []time.Duration{
		never, 0, 2 * time.Millisecond, 10 * time.Millisecond, noted, 900 * time.Millisecond, 1005 * time.Millisecond,
		1100 * time.Millisecond,
	} {
		t.Run(fmt.Sprintf("agent is killed after %v", killAfter), func(t *testing.T) {
			w, c := newClusterNode(t, 1, withPressure(machine.Capacity{Memory: 4 * gib, NodeFS: 1000 * gib}))
			w.keepEvents = true
			names := c.crowd(3)
			c.create(aPod("hog").grace(600).script("app", "ignore-term", "true"))
			w.until(time.Minute, "all run", func() bool { return c.allReady(append(names, "hog")...) })
			w.watch.restartsExpected = false
			var last *v1.Pod
			c.see(port.PodKind, func(e simapi.Event) {
				if p := e.Object.(*v1.Pod); p.Name == "hog" {
					last = p
				}
			})
			c.delete("hog", nil)
			w.run(time.Minute)
			c.uses("hog", machine.Use{Memory: machine.Growth{Bytes: 4 * gib}})
			w.until(time.Minute, "it is evicted", func() bool { return w.count("hog", eviction.Reason) > 0 })
			evicted := w.v.Now()
			if killAfter != never {
				w.run(killAfter)
				if killAfter >= noted {
					c.uses("hog", machine.Use{})
				}
				w.restart()
			}
			w.until(time.Minute, "it is gone", func() bool { return c.get("hog") == nil })
			if took := w.v.Now().Sub(evicted); took > 15*time.Second {
				t.Errorf("it is gone %v after its eviction", took)
			}
			d := podstatus.FindCondition(last.Status.Conditions, v1.DisruptionTarget)
			if last.Status.Phase != v1.PodFailed || last.Status.Reason != eviction.Reason || last.Status.Message == "" ||
				d == nil || d.Status != v1.ConditionTrue || d.Reason != v1.PodReasonTerminationByKubelet || d.Message != last.Status.Message {
				t.Errorf("its last status is %s, reason %q, message %q, DisruptionTarget %+v", last.Status.Phase, last.Status.Reason,
					last.Status.Message, d)
			}
			c.onlyEvicted("", names)
			w.until(time.Minute, "nothing of it is left", func() bool { return len(w.rt.Truth().Runtime.Pods) == len(names) })
		})
	}
}
