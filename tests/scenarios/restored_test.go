package scenarios

import (
	"strconv"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/decide/nodeobject"
	"github.com/troupe-dev/troupe/apiclient/simapi"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/tests/check"
)

// writes raises the apiserver's version by n.
func (c *cluster) writes(n int) {
	c.w.t.Helper()
	m := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "counter"}}
	if _, err := c.api.Create(m); err != nil {
		c.w.failf("%v", err)
	}
	for i := range n - 1 {
		next := *m
		next.Data = map[string]string{"n": strconv.Itoa(i)}
		if _, err := c.api.Update(&next); err != nil {
			c.w.failf("%v", err)
		}
	}
}

// slowlyReady is a pod that becomes ready two minutes after its start.
func slowlyReady(name string) *spec {
	return aPod(name).readiness(execProbe("check")).script("app", "ready-after", "2m")
}

// restorable makes a node with a static pod and one of the API that are Ready, and a backup in which
// neither they nor the node are.
func restorable(t *testing.T) (*world, *cluster, *simapi.Backup) {
	t.Helper()
	w, c := newClusterNode(t, 1)
	w.add(slowlyReady("static"))
	c.create(slowlyReady("web"))
	runs := func(name string) bool { p := c.get(name); return p != nil && p.Status.Phase == v1.PodRunning }
	w.until(time.Minute, "they run", func() bool { return runs("web") && runs("static-"+nodeName) })
	w.rt.Kill()
	ready := func() bool { return nodeobject.Ready(&c.node().Status) }
	w.until(time.Minute, "the node is not Ready", func() bool { return !ready() })
	backup := c.api.Checkpoint()
	w.rt.Restart()
	w.until(5*time.Minute, "all is Ready", func() bool { return ready() && c.ready("web") && c.ready("static-"+nodeName) })
	return w, c, backup
}

// TestRestoredApiserver: after the apiserver was restored from a backup, it shows within a minute what
// is so, although its versions are lower than those that the agent knows. Pods that the backup does
// not have are stopped.
func TestRestoredApiserver(t *testing.T) {
	t.Parallel()
	for name, restart := range map[string]bool{"at once": false, "after an outage": true} {
		t.Run(name, func(t *testing.T) {
			w, c, backup := restorable(t)
			c.create(aPod("new"))
			w.until(time.Minute, "the new pod is Ready", func() bool { return c.ready("new") })
			c.writes(10_000)
			w.run(time.Minute)
			kept := w.newest("static", "app").ID + w.newest("web", "app").ID
			if restart {
				c.api.SetDown(true)
				w.run(5 * time.Minute)
			}
			c.api.Restore(backup)
			c.api.SetDown(false)
			if nodeobject.Ready(&c.node().Status) || c.ready("web") || c.ready("static-"+nodeName) {
				t.Fatal("the backup has them Ready")
			}
			took := w.until(2*time.Minute, "all is Ready again", func() bool {
				return nodeobject.Ready(&c.node().Status) && c.ready("web") && c.ready("static-"+nodeName)
			})
			check.AtMost(t, took, time.Minute, "it took")
			w.until(time.Minute, "the lease is renewed", func() bool {
				return w.v.Now().Sub(c.renewed[len(c.renewed)-1]) <= 10*time.Second
			})
			w.until(time.Minute, "the pod that the backup does not have is gone", func() bool {
				_, there := w.sandboxOf("new")
				return !there
			})
			check.Equal(t, w.newest("static", "app").ID+w.newest("web", "app").ID, kept, "containers were restarted")
			w.clusterQuiet()
		})
	}
}

// TestStopAnsweredLate: a container that the agent stops is not taken for one that completed if the
// runtime tells of its end before it answers the call.
func TestStopAnsweredLate(t *testing.T) {
	t.Parallel()
	for _, policy := range []v1.RestartPolicy{v1.RestartPolicyOnFailure, v1.RestartPolicyNever} {
		for _, late := range []time.Duration{50 * time.Millisecond, 3 * time.Second} {
			t.Run(string(policy)+"/"+late.String(), func(t *testing.T) {
				w, c := editImage(t, 1, policy, v1.PullIfNotPresent)
				others, stops := w.fault, 0
				w.fault = func(call simcri.Call) simcri.Fault {
					if call.Method == simcri.StopContainer {
						stops++
						return simcri.Fault{AnswerLate: late}
					}
					return others(call)
				}
				w.until(time.Minute, "it runs again", c.runsAgain)
				if stops == 0 {
					t.Error("nothing was stopped")
				}
				w.clusterQuiet()
			})
		}
	}
}
