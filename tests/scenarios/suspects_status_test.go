package scenarios

import (
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/apiclient/simapi"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestStatusWritesThatHang: the apiserver answers no write of the status of many pods, as behind a
// dead webhook. The readiness of others is shown in time all the same, whether the apiserver is heard
// of them seldom or often.
func TestStatusWritesThatHang(t *testing.T) {
	t.Parallel()
	for _, well := range []int{1, 8} {
		w, c := newClusterNode(t, 1)
		probe := httpProbe("/")
		probe.PeriodSeconds, probe.FailureThreshold = 1, 1
		shown := names("well", well)
		for _, name := range shown {
			c.create(aPod(name).readiness(probe).script("app", "ready-for", "60s").script("app", "unready-for", "60s"))
			w.until(time.Minute, "it is Ready", func() bool { return c.ready(name) })
			w.run(5 * time.Second)
		}
		c.fault = func(call simapi.Call) (f simapi.Fault) {
			f.Hang = call.Verb == simapi.Patch && call.Key.Kind == port.PodKind && strings.HasPrefix(call.Key.Name, "hang")
			return f
		}
		hang := names("hang", 90)
		for _, name := range hang {
			c.create(aPod(name))
		}
		since, changes, worst := map[string]time.Time{}, 0, time.Duration(0)
		const tick = 100 * time.Millisecond
		for range 10 * time.Minute / tick {
			w.run(tick)
			for _, p := range w.view().Pods {
				if !strings.HasPrefix(p.Name, "well") || p.Ready == c.ready(p.Name) {
					delete(since, p.Name)
					continue
				}
				if since[p.Name].IsZero() {
					since[p.Name] = w.v.Now()
					changes++
				}
				worst = max(worst, w.v.Now().Sub(since[p.Name]))
			}
		}
		t.Logf("%d pods: %d changes were seen to be shown late, by %v at most", well, changes, worst)
		if worst > 20*time.Second || changes > 20 {
			t.Errorf("the readiness of %d pods was shown late %d times, by %v at most", well, changes, worst)
		}
		c.fault = nil
		w.until(3*time.Minute, "all are Ready", func() bool { return c.allReady(hang...) })
	}
}

// TestStatusRejected: the apiserver rejects each status of a pod as invalid. The pod runs, and when it is deleted it
// goes, within a minute of its end; its events have what the apiserver says.
func TestStatusRejected(t *testing.T) {
	t.Parallel()
	for name, rejects := range map[string]bool{"from the start": true, "since it is deleted": false} {
		t.Run(name, func(t *testing.T) {
			w, c := newClusterNode(t, 1)
			c.fault = func(call simapi.Call) simapi.Fault {
				return simapi.Fault{Fail: rejects && call.Status && call.Key.Name == "web", Kind: port.Invalid, Detail: "status.web: Invalid value"}
			}
			c.create(aPod("web"), aPod("other"))
			w.until(time.Minute, "they run", func() bool {
				return c.ready("other") && c.ready("web") != rejects && len(w.rt.Truth().Runtime.Pods) == 2
			})
			rejects = true
			c.delete("web", nil)
			w.until(2*time.Minute, "it is gone", func() bool { return c.get("web") == nil })
			w.until(time.Minute, "nothing of it is left", func() bool { return w.host.Pods() == 1 })
			said := ""
			for _, e := range w.events {
				if e.Reason == "StatusRejected" {
					said += e.Message + "\n"
				}
			}
			check.Has(t, said, "The apiserver rejected the status of the pod: ", "events")
			check.Has(t, said, "The pod is deleted without its last status, which the apiserver rejected: ", "events")
			check.Equal(t, strings.Count(said, "invalid: status.web: Invalid value\n"), strings.Count(said, "\n"), "what it says")
			check.Equal(t, c.ready("other"), true, "another pod is Ready")
		})
	}
}
