package scenarios

import (
	"fmt"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/supervisor/sim/machine"
)

// TestLeftDirectoriesAndPanics: gc removes directories of a pod that nobody knows, and its call
// takes long. The pod's manifest comes back, and the actors that know of the removal panic. The pod
// begins after the removal, and is not harmed by it.
func TestLeftDirectoriesAndPanics(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"UnmountPod", "RemovePod"} {
		for _, actors := range [][]string{{}, {"gc"}, {"podset"}, {"gc", "podset"}, {"podset", "gc"}, {"node"}} {
			t.Run(fmt.Sprint(verb, actors), func(t *testing.T) {
				w := newNode(t, 1)
				w.add(aPod("web").volume("data"), aPod("other"))
				w.allUp(10 * time.Second)
				uid := w.truthOf("web").Ref.UID
				w.drop("web")
				w.allUp(time.Minute)
				w.host.Put(uid, "data")
				slow := false
				w.host.Fault = func(c machine.Call) (f machine.Fault) {
					if c.Verb == verb && c.Pod == string(uid) && !slow {
						slow, f.Latency = true, 20*time.Second
					}
					return f
				}
				w.until(2*time.Minute, "the removal has begun", func() bool { return slow })
				w.add(aPod("web").volume("data"))
				w.run(time.Second)
				for _, actor := range actors {
					if actor == "node" { // pleg panics until node does
						w.around = func(who string, _ any, _ bool) {
							if who == "pleg" && w.crashes < 6 {
								panic(planted)
							}
						}
						w.drop("other")
						w.until(time.Minute, "node was restarted", func() bool { return w.crashes >= 6 })
						continue
					}
					panics(w, actor, 0, false)
					w.drop("other") // so that both have something to do
					w.until(time.Minute, actor+" panics", func() bool { return w.crashes > 0 })
					w.crashes = 0
				}
				w.around = nil
				w.until(time.Minute, "it runs", func() bool { return w.runs("web", "app", 0) })
				w.watch.restartsExpected = false
				w.run(5 * time.Minute)
				w.allUp(time.Second)
				w.quiet()
			})
		}
	}
}
