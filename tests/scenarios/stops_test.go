package scenarios

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/cri/simcri"
)

// setImage gives container app another image, as a user does.
func (c *cluster) setImage(name, image string) {
	c.w.t.Helper()
	p := *c.get(name)
	p.Spec.Containers = append([]v1.Container(nil), p.Spec.Containers...)
	p.Spec.Containers[0].Image = image
	if _, err := c.api.Update(&p); err != nil {
		c.w.failf("%v", err)
	}
}

// quitter is a pod whose container ends with code 0, a moment after it is asked to.
func quitter(policy v1.RestartPolicy, pull v1.PullPolicy) *spec {
	s := aPod("job").restarts(policy).script("app", "term-exit-code", "0").script("app", "term-delay", "300ms")
	s.Spec.Containers[0].ImagePullPolicy = pull
	return s
}

// runsAgain: container app of pod job runs, restarted once, with the other image;
// and at no time was anybody told that the pod is over.
func (c *cluster) runsAgain() bool {
	p := c.get("job")
	if finished(p) {
		c.w.failf("the pod is %s", p.Status.Phase)
	}
	n, _ := c.w.rt.Find(p.UID, "app")
	return c.ready("job") && n.Attempt == 1 && c.restarts("job", "app") == 1 && p.Status.ContainerStatuses[0].Image == "registry.test/app:2"
}

// editImage makes a world in which the image of such a pod was just edited.
func editImage(t *testing.T, seed uint64, policy v1.RestartPolicy, pull v1.PullPolicy, options ...option) (*world, *cluster) {
	t.Helper()
	w, c := newClusterNode(t, seed, options...)
	w.fault = func(call simcri.Call) simcri.Fault {
		if call.Method == simcri.PullImage && call.Object == "registry.test/app:2" {
			return simcri.Fault{Latency: 5 * time.Second} // the status is written meanwhile
		}
		return simcri.Fault{}
	}
	c.create(quitter(policy, pull))
	w.until(time.Minute, "it is up", func() bool { return c.ready("job") })
	c.setImage("job", "registry.test/app:2")
	return w, c
}

// TestEditedImageRestarts: a container that is stopped for another image runs again
// with it, whatever its restart policy makes of how it ended.
func TestEditedImageRestarts(t *testing.T) {
	t.Parallel()
	for _, policy := range []v1.RestartPolicy{v1.RestartPolicyOnFailure, v1.RestartPolicyNever} {
		for _, pull := range []v1.PullPolicy{v1.PullAlways, v1.PullIfNotPresent} {
			for name, events := range map[string]simcri.EventPolicy{
				"events": {}, "late events": {Delay: simcri.Constant(700 * time.Millisecond)}, "no events": {Off: true},
			} {
				t.Run(string(policy)+"/"+string(pull)+"/"+name, func(t *testing.T) {
					w, c := editImage(t, 1, policy, pull, withEvents(events))
					w.until(time.Minute, "it runs again", c.runsAgain)
					w.clusterQuiet()
				})
			}
		}
	}
}

// TestEditedImageOverKills kills the agent, or makes the pod's actor panic, at each
// step of such a restart: it is never taken for the end of the pod.
func TestEditedImageOverKills(t *testing.T) {
	t.Parallel()
	again := func(w *world) bool { return w.cluster.runsAgain() }
	for _, policy := range []v1.RestartPolicy{v1.RestartPolicyOnFailure, v1.RestartPolicyNever} {
		atBoundaries(t, about(25), func(k int) *world {
			w, _ := editImage(t, 1, policy, v1.PullAlways, withLateEffects(float64(k%2)))
			return w
		}, again, func(k int, w *world) {
			w.killFor(time.Duration(k%3) * time.Second) // it may end while there is no agent
			w.until(2*time.Minute, "it runs again", w.cluster.runsAgain)
			w.clusterQuiet()
		})
	}
	for _, actor := range []string{"pod/job", "pods", "podset"} {
		for n := 0; ; n += stride(4) {
			crashed := false
			for _, handled := range []bool{false, true} {
				w, c := editImage(t, 1, v1.RestartPolicyOnFailure, v1.PullAlways)
				panics(w, actor, n, handled)
				w.until(3*time.Minute, "it runs again", c.runsAgain)
				crashed = crashed || w.crashes > 0
				w.kill()
			}
			if !crashed {
				t.Logf("%s: %d messages", actor, n)
				break
			}
		}
	}
}

// TestProbeAndResizeOverKills: the same of containers that are stopped because a
// probe failed, or for a resize.
func TestProbeAndResizeOverKills(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(w *world, c *cluster){
		"liveness": func(w *world, c *cluster) {
			p := execProbe("check")
			p.PeriodSeconds, p.FailureThreshold = 1, 1
			s := quitter(v1.RestartPolicyOnFailure, v1.PullIfNotPresent).liveness(p).script("app", "unhealthy-after", "20s")
			c.create(s)
			w.until(time.Minute, "it is up", func() bool { return c.ready("job") })
			w.run(19 * time.Second)
		},
		"resize": func(w *world, c *cluster) {
			s := sized("job", "500m", "128Mi").restarts(v1.RestartPolicyOnFailure).script("app", "term-exit-code", "0").script("app", "term-delay", "300ms")
			s.Spec.Containers[0].ResizePolicy = []v1.ContainerResizePolicy{{ResourceName: v1.ResourceMemory, RestartPolicy: v1.RestartContainer}}
			c.create(s)
			w.until(time.Minute, "it is up", func() bool { return c.ready("job") })
			c.resize("job", "500m", "256Mi")
		},
	} {
		t.Run(name, func(t *testing.T) {
			restarted := func(w *world) bool {
				c := w.cluster
				p := c.get("job")
				if finished(p) {
					w.failf("the pod is %s", p.Status.Phase)
				}
				n, _ := w.rt.Find(p.UID, "app")
				return n.Attempt >= 1 && c.ready("job") && c.restarts("job", "app") >= 1
			}
			atBoundaries(t, about(40), func(int) *world {
				w, c := newClusterNode(t, 1, allocatable("4", "8Gi"))
				begin(w, c)
				return w
			}, restarted, func(k int, w *world) {
				w.killFor(time.Duration(k%3) * time.Second)
				w.until(2*time.Minute, "it runs again", func() bool { return restarted(w) })
			})
		})
	}
}
