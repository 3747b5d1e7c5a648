package scenarios

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/apiclient/simapi"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestLostTask: a container whose shim died runs again beside the one that cannot be removed, which
// goes once the runtime has restarted.
func TestLostTask(t *testing.T) {
	w := parallelNode(t, 1)
	w.run(time.Second)
	w.add(aPod("p").restarts(v1.RestartPolicyAlways))
	w.allUp(time.Minute)
	w.watch.restartsExpected = true
	lost := w.newest("p", "app").ID
	check.Fatal(t, w.rt.LoseTask(lost))
	w.until(3*time.Minute, "it runs again", func() bool { return w.runs("p", "app", 1) })
	w.drop("p")
	w.until(time.Minute, "only what is stuck is left", func() bool {
		p := w.rt.Truth().Runtime.Pods
		return len(p) == 1 && len(p[0].Containers) == 1 && p[0].Containers[0].ID == lost && w.host.Pods() == 0
	})
	w.rt.Kill()
	w.run(time.Second)
	w.rt.RestartLoading(20 * time.Second)
	w.until(2*time.Minute, "all is gone", func() bool { return len(w.rt.Truth().Runtime.Pods) == 0 })
	w.quiet()
}

// TestVanished: what is removed behind the agent's back, without an event, is made again, with another
// number: that of the container that is gone is in the path of its log.
func TestVanished(t *testing.T) {
	t.Parallel()
	for name, id := range map[string]func(observed.RuntimePod) string{
		"container": func(p observed.RuntimePod) string { return p.Containers[0].ID },
		"sandbox":   func(p observed.RuntimePod) string { return p.Sandboxes[0].ID },
	} {
		t.Run(name, func(t *testing.T) {
			w := newNode(t, 1)
			w.run(time.Second)
			w.add(aPod("p").restarts(v1.RestartPolicyAlways))
			w.allUp(time.Minute)
			w.watch.restartsExpected = true
			was := w.newest("p", "app").ID
			check.Fatal(t, w.rt.Vanish(id(w.truthOf("p"))))
			w.until(10*time.Minute, "another runs", func() bool {
				p := w.rt.Truth().Runtime.Pods
				return len(p) == 1 && len(p[0].Containers) == 1 && p[0].Containers[0].ID != was &&
					p[0].Containers[0].State == observed.ContainerRunning && w.pod("p").Ready
			})
			check.AtLeast(t, w.newest("p", "app").Attempt, 1, "it has number")
			w.quiet()
		})
	}
}

// TestEndWithoutEvent: the end of a container whose event alone is lost is found by a list.
func TestEndWithoutEvent(t *testing.T) {
	t.Parallel()
	dropped := 0
	w := newNode(t, 1, func(s *setting) {
		s.sim.Hooks.Event = func(node string, e port.RuntimeEvent) simcri.EventFate {
			if node != nodeName || e.Kind != observed.ContainerStoppedEvent {
				return simcri.EventFate{}
			}
			dropped++
			return simcri.EventFate{Drop: true}
		}
	})
	w.run(time.Second)
	w.add(aPod("p").restarts(v1.RestartPolicyAlways))
	w.allUp(time.Minute)
	w.watch.restartsExpected = true
	w.end("p", "app", 1)
	w.until(10*time.Minute, "it runs again", func() bool { return w.runs("p", "app", 1) })
	check.Equal(t, dropped, 1, "%d events were lost", dropped)
}

// TestHalfLink: over a link of which one half works, pods run on, and all is shown a minute and a half
// after it was mended.
func TestHalfLink(t *testing.T) {
	t.Parallel()
	// A renewal without an answer takes effect once: the next has an old version, and conflicts.
	for link, renewals := range map[simapi.Link]int{simapi.NoAnswers: 1, simapi.NoWatches: 10} {
		t.Run(link.String(), func(t *testing.T) {
			w, c := newClusterNode(t, 1)
			c.create(aPod("web"))
			w.until(time.Minute, "it is Ready", func() bool { return c.ready("web") })
			c.api.SetLink(nodeName, link)
			c.create(aPod("new"))
			before := len(c.renewed)
			w.run(10 * time.Minute)
			if n := len(c.renewed) - before; n < renewals {
				t.Errorf("the lease was renewed %d times, want %d", n, renewals)
			}
			if _, there := w.sandboxOf("new"); there {
				t.Error("the agent knows a pod that no watch told of")
			}
			c.api.SetLink(nodeName, simapi.Up)
			mended := len(c.renewed)
			w.until(90*time.Second, "the new one is Ready, and the lease is renewed", func() bool {
				return c.ready("new") && c.ready("web") && len(c.renewed) > mended
			})
			w.clusterQuiet()
		})
	}
}
