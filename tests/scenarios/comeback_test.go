package scenarios

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/supervisor/sim/machine"
	"github.com/troupe-dev/troupe/tests/check"
)

// leaver is a static pod that takes so long to end.
func leaver(policy v1.RestartPolicy, takes string) *spec {
	return emptyPod("web").init("setup").main("app").volume("data").restarts(policy).grace(60).
		script("app", "term-delay", takes).script("app", "term-exit-code", "0")
}

// home is where the manifest of a pod is: a file or what the URL says.
type home struct {
	name      string
	takes     string // for a pod to end, longer than it takes to be noticed
	put, take func(w *world, s *spec)
}

var homes = []home{
	{"file", "2s", func(w *world, s *spec) { w.add(s) }, func(w *world, s *spec) { w.drop(s.Name) }},
	{"url", "25s", func(w *world, s *spec) {
		w.watch.want(s)
		w.manifests.Body = s.yaml()
	}, func(w *world, s *spec) {
		w.watch.unwant(s.Name)
		w.manifests.Body = `{"apiVersion": "v1", "kind": "PodList", "items": []}`
	}},
}

// again says whether pod web runs in another life than that of the container before,
// with a restart count that is higher by one.
func (w *world) again(before string) bool {
	p := w.pod("web")
	for _, c := range p.Containers {
		if c.Kind == "main" {
			return p.Phase == "Running" && p.Ready && c.Restarts == 1 && c.ID != "" && c.ID != before && w.newest("web", "app").Attempt == 1
		}
	}
	return false
}

func (w *world) mainID(name string) string {
	for _, c := range w.pod(name).Containers {
		if c.Kind == "main" {
			return c.ID
		}
	}
	return ""
}

// TestManifestMovedAwayAndBack: the pod ends, and then runs again under the same
// UID, whenever its manifest comes back.
func TestManifestMovedAwayAndBack(t *testing.T) {
	t.Parallel()
	for _, h := range homes {
		for _, policy := range []v1.RestartPolicy{v1.RestartPolicyAlways, v1.RestartPolicyOnFailure, v1.RestartPolicyNever} {
			t.Run(h.name+"/"+string(policy), func(t *testing.T) {
				w := newNode(t, 1, withAPI(), withURL())
				w.run(time.Second)
				s := leaver(policy, h.takes)
				h.put(w, s)
				w.until(time.Minute, "it is up", func() bool { return w.pod("web").Ready && w.cluster.ready("web-"+nodeName) })
				uid, id, mirror := w.truthOf("web").Ref.UID, w.mainID("web"), w.cluster.get("web-"+nodeName).UID
				h.take(w, s)
				w.until(time.Minute, "it is being stopped", func() bool { return w.pod("web").Life == "Terminating" })
				h.put(w, s)
				took := w.until(time.Minute, "it runs again", func() bool { return w.again(id) })
				check.AtLeast(t, took, time.Second, "it ran again after %v: it did not end", took)
				if got := w.truthOf("web").Ref.UID; got != uid {
					t.Errorf("its UID is %s, it was %s", got, uid)
				}
				w.until(time.Minute, "its mirror is another, and Ready", func() bool {
					p := w.cluster.get("web-" + nodeName)
					return p != nil && p.UID != mirror && w.cluster.ready(p.Name) && w.cluster.restarts(p.Name, "app") == 1
				})
				w.run(5 * time.Minute)
				check.Count(t, w.newest("web", "app").Attempt, 1, "it was restarted %d times")
				w.clusterQuiet()
				h.take(w, s)
				w.until(2*time.Minute, "nothing is left", func() bool { return w.cluster.nothingLeft() && len(w.view().Pods) == 0 })
				w.until(time.Second, "nothing of it is remembered", func() bool {
					return strings.HasSuffix(string(w.checkpoints.Get("stops")), `"content":{"pods":{}}}`)
				})
			})
		}
	}
}

// TestManifestBackAtAnyMoment lets the manifest come back at each step from the
// first signal to the last directory, with and without a kill of the agent there.
func TestManifestBackAtAnyMoment(t *testing.T) {
	t.Parallel()
	for _, policy := range []v1.RestartPolicy{v1.RestartPolicyAlways, v1.RestartPolicyNever} {
		for _, how := range []string{"it lives on", "killed before", "killed after", "podset panics after"} {
			t.Run(string(policy)+"/"+how, func(t *testing.T) {
				id := ""
				atBoundaries(t, about(20), func(int) *world {
					w := newNode(t, 1)
					w.add(leaver(policy, "2s"))
					w.allUp(10 * time.Second)
					w.quiet()
					id = w.mainID("web")
					w.drop("web")
					return w
				}, done, func(k int, w *world) {
					if how == "killed before" {
						w.kill()
					}
					w.add(leaver(policy, "2s"))
					switch how {
					case "killed before":
						w.start()
					case "killed after":
						w.run(time.Duration(k%4) * 300 * time.Millisecond)
						w.restart()
					case "podset panics after":
						panics(w, "podset", k%7, k%2 == 0)
					}
					w.backOrNeverGone(id)
				})
			})
		}
	}
}

// backOrNeverGone runs until all is as it was, of which a part may have gone.
func (w *world) backOrNeverGone(id string) {
	w.t.Helper()
	w.v.Settle()
	w.allUp(2 * time.Minute)
	w.until(time.Minute, "it is shown", func() bool { p := w.pod("web"); return p.Ready && p.Phase == "Running" })
	w.quiet()
	if w.mainID("web") == id {
		w.run(10 * time.Second) // nothing was begun: it runs on
		if w.mainID("web") != id {
			w.failf("it was stopped after it had come back")
		}
	}
}

// TestDirectoriesOfAPodThatComesBack: directories are left of a pod that nobody
// knows, and can't be removed; its manifest comes back. It is not harmed by their
// removal.
func TestDirectoriesOfAPodThatComesBack(t *testing.T) {
	w := parallelNode(t, 1)
	w.add(aPod("web").volume("data"))
	w.allUp(10 * time.Second)
	uid := w.truthOf("web").Ref.UID
	w.drop("web")
	w.allUp(time.Minute)
	w.host.Put(uid, "data")
	stuck := true
	w.host.Fault = func(c machine.Call) (f machine.Fault) {
		if stuck && c.Verb == "UnmountPod" && c.Pod == string(uid) {
			f.Err = fmt.Errorf("target is busy")
		}
		return f
	}
	w.run(70 * time.Second) // a sweep of gc
	w.add(aPod("web").volume("data"))
	w.run(30 * time.Second)
	stuck = false
	w.allUp(10 * time.Minute)
	w.watch.restartsExpected = false
	w.quiet()
	w.run(10 * time.Minute)
	w.quiet()
}

// TestTwoManifestsMoved: two manifests are moved away together, the agent is killed
// at each step of that and finds them back. Both pods end, or were never stopped.
func TestTwoManifestsMoved(t *testing.T) {
	t.Parallel()
	for k := 0; k < 40; k += stride(3) {
		w := newNode(t, 1)
		for _, name := range []string{"web", "other"} {
			w.add(aPod(name).script("app", "ignore-term", "true").grace(5))
		}
		w.allUp(10 * time.Second)
		w.drop("web", "other")
		w.steps(k)
		asked := map[string]int{"web": w.count("web", "Killing"), "other": w.count("other", "Killing")}
		w.kill()
		w.add(aPod("web").script("app", "ignore-term", "true").grace(5), aPod("other").script("app", "ignore-term", "true").grace(5))
		w.start()
		w.v.Settle()
		w.run(time.Minute)
		w.allUp(time.Minute)
		for name, n := range asked {
			if n > 0 && w.newest(name, "app").Attempt == 0 {
				w.failf("step %d: %s had its stop signal, and was never stopped", k, name)
			}
		}
		w.quiet()
		w.kill()
	}
}

// TestStopThatWasEndedByAnother: an agent was killed while it stopped a static pod;
// another agent, a kubelet, ended that and began the pod again. It is not stopped.
func TestStopThatWasEndedByAnother(t *testing.T) {
	w := parallelNode(t, 1)
	w.add(aPod("web").script("app", "term-delay", "4s"))
	w.allUp(10 * time.Second)
	w.drop("web")
	w.until(10*time.Second, "it is being stopped", func() bool { return w.count("web", "Killing") > 0 })
	w.run(time.Second)
	w.kill()
	old := w.checkpoints.Get("stops")
	w.checkpoints.Lose("stops")
	w.start()
	w.allUp(time.Minute)
	w.add(aPod("web").script("app", "term-delay", "4s"))
	w.allUp(time.Minute)
	id := w.newest("web", "app").ID
	w.kill()
	w.checkpoints.Put("stops", old)
	w.start()
	w.run(time.Minute)
	w.quiet()
	check.Equal(t, w.newest("web", "app").ID, id, "it was stopped, though its manifest was there all the time")
}

// TestNotWantedBeforeItIsBack: a pod that comes back is rejected, and is not wanted
// any more before it could begin. When it comes again it runs.
func TestNotWantedBeforeItIsBack(t *testing.T) {
	w := parallelNode(t, 1)
	port := []v1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
	s, thief := leaver(v1.RestartPolicyNever, "2s"), aPod("thief")
	s.Spec.Containers[0].Ports, thief.Spec.Containers[0].Ports = port, port
	w.add(s)
	w.allUp(10 * time.Second)
	w.drop("web")
	w.until(time.Minute, "what is left of it is to be removed", func() bool { return w.pod("web").Life == "Terminated" })
	w.add(thief)
	w.until(time.Minute, "the thief runs", func() bool { return w.runs("thief", "app", 0) })
	w.add(s)
	w.until(time.Minute, "it is rejected", func() bool { return w.pod("web").Life == "Rejected" })
	w.drop("web")
	w.until(time.Minute, "it is gone", func() bool { return w.pod("web").UID == "" })
	w.drop("thief")
	w.allUp(time.Minute)
	w.add(s)
	w.allUp(time.Minute)
	w.quiet()
}

// TestStopThatCannotBeWritten: the disk does not answer. Pods are stopped all the
// same, and one after the first waits for nothing.
func TestStopThatCannotBeWritten(t *testing.T) {
	w := parallelNode(t, 1)
	w.add(aPod("web"), aPod("other"))
	w.allUp(10 * time.Second)
	w.checkpoints.Fault = func(c machine.Call) machine.Fault {
		return machine.Fault{Hang: c.Verb == "SaveCheckpoint" && c.Name == "stops"}
	}
	w.drop("web")
	w.allUp(20 * time.Second)
	w.until(time.Minute, "the write was given up", func() bool { return w.idle("SaveCheckpoint") })
	w.drop("other")
	check.AtMost(t, w.allUp(20*time.Second), 3*time.Second, "the second pod was gone after")
	w.checkpoints.Fault = nil
	w.run(time.Minute)
	w.quiet()
}

// idle says whether no call of a kind is under way.
func (w *world) idle(kind string) bool {
	for _, a := range w.system.Snapshot("") {
		for _, e := range a.Effects {
			if e.Kind == kind && e.Phase != kernel.EffectExpired {
				return false
			}
		}
	}
	return true
}
