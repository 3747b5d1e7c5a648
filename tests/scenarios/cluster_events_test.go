package scenarios

import (
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/apiclient/simapi"
)

// TestClusterEventsInTime: of a pod that starts beside many others, on an apiserver that takes
// long to answer, kubectl describe shows what happens to it within two seconds of the
// happening; and it is shown Ready as soon as if nobody wrote events.
func TestClusterEventsInTime(t *testing.T) {
	t.Parallel()
	const bound, answer = 2 * time.Second, 100 * time.Millisecond
	for _, n := range []int{1, 13, 30, 100} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			w, c := newClusterNode(t, 1)
			w.keepEvents = true
			c.fault = func(simapi.Call) simapi.Fault { return simapi.Fault{Latency: answer} }
			seen, ready := map[[2]string]time.Time{}, map[string]time.Time{}
			c.see(port.EventKind, func(told simapi.Event) {
				if e := told.Object.(*v1.Event); told.Type == simapi.Added {
					seen[[2]string{e.InvolvedObject.Name, e.Reason}] = w.v.Now()
				}
			})
			c.see(port.PodKind, func(told simapi.Event) {
				if p := told.Object.(*v1.Pod); ready[p.Name].IsZero() && isReady(p) {
					ready[p.Name] = w.v.Now()
				}
			})
			var names []string
			for i := range n {
				names = append(names, fmt.Sprint("web-", i))
				c.create(aPod(names[i]))
			}
			w.until(2*time.Minute, "all are Ready", func() bool { return c.allReady(names...) })
			w.run(bound)
			late := map[string][]time.Duration{}
			for _, e := range w.events {
				if e.Pod == nil {
					continue
				}
				at, written := seen[[2]string{e.Pod.Name, e.Reason}]
				if !written {
					w.failf("pod %s has no event %s", e.Pod.Name, e.Reason)
				}
				late[e.Reason] = append(late[e.Reason], at.Sub(e.At))
				if e.Reason == "Started" {
					late["Ready"] = append(late["Ready"], ready[e.Pod.Name].Sub(e.At))
				}
			}
			for _, what := range []string{"Pulled", "Created", "Started", "Ready"} {
				if len(late[what]) != n {
					w.failf("%d pods, %d times %s", n, len(late[what]), what)
				}
				most := slices.Max(late[what])
				if most > bound || what == "Ready" && most > 500*time.Millisecond {
					t.Errorf("%s is seen %v late", what, most)
				}
				t.Log(what, most)
			}
		})
	}
}
