package scenarios

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/cri/simcri"
)

// watcher knows what a scenario wants of its node, and holds what is left at the end
// against it. What must hold at every instant is in supervisor/invariants.
type watcher struct {
	w *world
	// wanted are the manifests by name.
	wanted map[string]*spec
	// What was made so far.
	sandboxes, containers int
	// restartsExpected says that containers may be restarted; else that fails. ran are
	// those that were started, by pod and name.
	restartsExpected bool
	ran              map[string]bool
}

func newWatcher(w *world) *watcher {
	return &watcher{w: w, wanted: map[string]*spec{}, ran: map[string]bool{}, restartsExpected: true}
}

func (x *watcher) want(s *spec) { x.wanted[s.Name] = s }

func (x *watcher) unwant(name string) { delete(x.wanted, name) }

// changed counts what is made.
func (x *watcher) changed(t simcri.Transition) {
	key := string(t.Pod.UID) + "/" + t.Container
	switch {
	case t.Kind == observed.ContainerCreatedEvent && t.Container == "":
		x.sandboxes++
	case t.Kind == observed.ContainerCreatedEvent:
		x.containers++
	case t.Kind != observed.ContainerStartedEvent:
		return
	}
	if x.ran[key] && !x.restartsExpected && t.Kind == observed.ContainerCreatedEvent {
		x.w.failf("%s of pod %s was restarted", cmp.Or(t.Container, "the sandbox"), t.Pod)
	}
	x.ran[key] = x.ran[key] || t.Kind == observed.ContainerStartedEvent
}

// forget drops what is remembered of pods that are gone.
func (x *watcher) forget() {
	clear(x.ran)
	x.w.rules.Forget()
}

// up says what is missing until every wanted pod runs and everything else is
// gone; empty if nothing is.
func (x *watcher) up() string {
	left := maps.Clone(x.wanted)
	for _, p := range x.w.rt.Truth().Runtime.Pods {
		name := plainName(p.Ref.Name)
		s := left[name]
		if s == nil {
			return fmt.Sprintf("pod %s %s is still there", p.Ref, p.Ref.UID)
		}
		delete(left, name)
		for _, c := range s.Spec.Containers {
			if n, _ := p.Newest(c.Name); n.State != observed.ContainerRunning {
				return fmt.Sprintf("container %s of pod %s does not run", c.Name, name)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(left)) {
		return fmt.Sprintf("pod %s is not there", name)
	}
	if x.w.host.Pods() != len(x.wanted) {
		return fmt.Sprintf("the host has directories of %d pods", x.w.host.Pods())
	}
	return ""
}

// allUp runs until every wanted pod runs and nothing else is there.
func (w *world) allUp(limit time.Duration) time.Duration {
	w.t.Helper()
	begin := w.v.Now()
	end := begin.Add(limit)
	for {
		why := w.watch.up()
		if why == "" {
			return w.v.Now().Sub(begin)
		}
		// Only what happens in the runtime changes that.
		for asked := w.v.Now(); w.v.Now().Equal(asked); {
			if !w.step(end) {
				w.failf("not all is well within %v: %s", limit, why)
			}
		}
	}
}

// quiet checks that nobody waits for anything and that people are told so.
func (w *world) quiet() {
	w.t.Helper()
	w.run(3 * time.Second)
	w.checkCgroups()
	for _, a := range w.system.Snapshot("") {
		if a.Depth > 0 {
			w.failf("%d messages wait at %s", a.Depth, a.Path)
		}
		for _, e := range a.Effects {
			probe := strings.HasSuffix(e.Kind, "Probe") // there is always one
			if !e.Standing && !probe && e.Phase != kernel.EffectExpired {
				w.failf("%s %s of %s is still under way", e.Kind, e.Object, a.Path)
			}
		}
	}
	v := w.view()
	if !v.Ready {
		w.failf("the node is not ready")
	}
	shown := map[string]bool{}
	for _, p := range v.Pods {
		name := plainName(p.Name)
		shown[name] = true
		if w.watch.wanted[name] == nil || p.Phase != "Running" || !p.Ready || len(p.Doing) > 0 || p.Problem != "" {
			w.failf("people are shown %+v", p)
		}
	}
	if len(shown) != len(w.watch.wanted) || len(v.Pods) != len(shown) {
		w.failf("people are shown %d pods, wanted are %d", len(v.Pods), len(w.watch.wanted))
	}
}
