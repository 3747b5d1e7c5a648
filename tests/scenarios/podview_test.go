package scenarios

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/devices"
	"github.com/troupe-dev/troupe/actors/podset"
	"github.com/troupe-dev/troupe/actors/podview"
	"github.com/troupe-dev/troupe/supervisor/agent"
	"github.com/troupe-dev/troupe/supervisor/metrics"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestDisplayThatPanics: code that only shows pods panics again and again, far more often than the restarts
// that a singleton has in a minute. Only podview restarts. Pods go on, new ones begin, and as soon as the code
// is well again, people are answered.
func TestDisplayThatPanics(t *testing.T) {
	t.Parallel()
	const questions = 12
	for name, ask := range map[string]func(w *world){
		"what people are shown": func(w *world) {
			w.look(podview.Query{Reply: func(podview.View) { panic(planted) }})
		},
		"what servers look up": func(w *world) {
			w.look(podview.Find{Reply: func([]*v1.Pod) { panic(planted) }})
		},
		"the actor itself": func(w *world) {
			w.around = func(who string, _ any, _ bool) {
				if who == "podview" {
					w.around = nil
					panic(planted)
				}
			}
			w.look(podview.Query{Reply: func(podview.View) {}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newNode(t, 1)
			w.watch.restartsExpected = false
			bringUp(w)
			w.allUp(3 * time.Minute)
			began := w.v.Now()
			for range questions {
				ask(w)
				w.run(4 * time.Second)
			}
			if took := w.v.Now().Sub(began); took > time.Minute || w.crashes != questions || w.fatal != nil {
				w.failf("%d crashes in %v, want %d in a minute; fatal: %v", w.crashes, took, questions, w.fatal)
			}
			w.onlyRestarted("podview", questions)
			w.add(aPod("new"))
			w.allUp(time.Minute)
			w.until(time.Second, "people are shown that the new pod runs", func() bool {
				return w.pod("new").Phase == string(v1.PodRunning)
			})
			w.quiet()
		})
	}
}

// badCounter panics with each pod that starts.
type badCounter struct {
	*metrics.Metrics
	counted *int
}

func (c badCounter) Started(podset.Started) {
	*c.counted++
	panic(planted)
}

func (c badCounter) DevicesChanged(devices.Inventory) {}

// TestStartedCounterThatPanics: what counts the started pods for metrics panics with each pod that starts.
func TestStartedCounterThatPanics(t *testing.T) {
	t.Parallel()
	counted := 0
	w := newNode(t, 1, withConfig(func(c *agent.Config) {
		c.Observer = badCounter{check.Value(metrics.New(metrics.Config{Node: nodeName, Version: "v1.36.0", Began: time.Now()}))(t), &counted}
	}))
	w.watch.restartsExpected = false
	w.add(many("p", 8, aPod)...)
	w.allUp(time.Minute)
	w.run(10 * time.Second)
	if counted != 8 || w.crashes != 8 || w.fatal != nil {
		w.failf("%d pods were counted, with %d crashes, want 8; fatal: %v", counted, w.crashes, w.fatal)
	}
	w.onlyRestarted("podview", 8)
	w.quiet()
}

// onlyRestarted checks that no other actor of the node than this one was restarted, and this one so often.
func (w *world) onlyRestarted(actor string, times uint32) {
	w.t.Helper()
	found := false
	for _, a := range w.system.Snapshot(nodeName) {
		switch {
		case a.Path == nodeName+"/"+actor:
			found = true
			if a.Restarts != times || a.Status != "Running" {
				w.failf("%s: %d restarts, want %d; it is %s", a.Path, a.Restarts, times, a.Status)
			}
		case a.Restarts != 0 || a.Crashes != 0 || a.Status != "Running":
			w.failf("%s %s: %d restarts, %d crashes, it is %s", a.Path, a.Label, a.Restarts, a.Crashes, a.Status)
		}
	}
	if !found {
		w.failf("there is no %s in the tree", actor)
	}
}
