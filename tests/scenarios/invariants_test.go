package scenarios

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/manifest"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/invariants"
)

// watcher holds the truth of the runtime against what must always be so.
type watcher struct {
	w *world
	// wanted are the manifests by name; unwanted since when others are not.
	wanted   map[string]*spec
	unwanted map[string]time.Time
	// specs are all that ever were wanted.
	specs map[types.UID]*spec
	// newest is the highest attempt that was seen, by pod, UID and name; ran says
	// that it was started. The number of one that never was is used again.
	newest map[string]uint32
	ran    map[string]bool
	seen   map[string]bool
	// dropped are names that were unwanted since the runtime last had nothing of
	// them: after that their numbers begin anew.
	dropped map[string]bool
	// lenient is until when calls for unwanted pods are no failure: the agent
	// can't know.
	lenient time.Time
	// What was made so far.
	sandboxes, containers int
	// restartsExpected says that containers may be restarted; else that fails.
	restartsExpected bool
	off              bool
}

func newWatcher(w *world) *watcher {
	return &watcher{
		w: w, wanted: map[string]*spec{}, unwanted: map[string]time.Time{}, specs: map[types.UID]*spec{},
		newest: map[string]uint32{}, dropped: map[string]bool{}, ran: map[string]bool{}, seen: map[string]bool{}, restartsExpected: true,
	}
}

func (x *watcher) want(s *spec) {
	x.wanted[s.Name] = s
	d := manifest.Decode([]byte(s.yaml()), manifest.Source{Origin: podspec.File, Name: s.Name + ".yaml"}, manifest.Node{Name: nodeName}, epoch)
	for _, p := range d.Pods {
		x.specs[p.UID] = s
	}
	delete(x.unwanted, s.Name)
}

func (x *watcher) unwant(name string) {
	delete(x.wanted, name)
	x.unwanted[name] = x.w.v.Now()
	x.dropped[name] = true
}

// forget drops what is remembered of pods that are gone.
func (x *watcher) forget() {
	clear(x.seen)
	clear(x.specs)
	clear(x.newest)
	clear(x.ran)
	clear(x.dropped)
}

// noticed is how long it may take until nothing is made any more for a pod that
// nobody wants.
const noticed = 500 * time.Millisecond

// called sees every call of the agent.
func (x *watcher) called(c simcri.Call) {
	switch c.Method {
	case simcri.RunPodSandbox, simcri.CreateContainer, simcri.StartContainer:
	default:
		return
	}
	since, is := x.unwanted[plainName(c.Pod.Name)]
	if is && !x.off && x.w.v.Now().Sub(since) > noticed && x.w.v.Now().After(x.lenient) {
		x.w.failf("%v %s, though nobody has wanted the pod for %v", c.Method, c.Object, x.w.v.Now().Sub(since))
	}
}

// look checks what is true at every instant.
func (x *watcher) look() {
	if x.off {
		return
	}
	there, pods := map[string]bool{}, x.w.rt.Truth().Runtime.Pods
	for _, p := range pods {
		there[plainName(p.Ref.Name)], there[string(p.Ref.UID)] = true, true
		x.pod(&p)
	}
	x.hold(invariants.OneUID(pods))
	for name := range x.dropped {
		// Another pod of the name may be there, and stay: UIDs count.
		maps.DeleteFunc(x.newest, func(key string, _ uint32) bool {
			of := strings.Split(key, "/")
			return of[0] == name && !there[of[1]]
		})
		if !there[name] {
			delete(x.dropped, name)
		}
	}
}

func (x *watcher) pod(p *observed.RuntimePod) {
	for i := range p.Sandboxes {
		x.made(p.Ref, "sandbox", p.Sandboxes[i].ID, p.Sandboxes[i].Attempt)
	}
	x.hold(invariants.OneSandbox(p))
	for i := range p.Containers {
		c := &p.Containers[i]
		if s := x.specs[p.Ref.UID]; x.made(p.Ref, c.Name, c.ID, c.Attempt) && s != nil {
			x.hold(invariants.InOrder(&s.Spec, p, c))
		}
		if key := x.key(p.Ref, c.Name); !c.StartedAt.IsZero() && c.Attempt == x.newest[key] {
			x.ran[key] = true
		}
	}
	x.hold(invariants.RunsOnce(p))
}

// hold fails the test if something is wrong.
func (x *watcher) hold(wrong string) {
	if wrong != "" {
		x.w.failf("%s", wrong)
	}
}

// made is for each sandbox and container; it reports whether it is new.
func (x *watcher) made(ref observed.PodRef, name, id string, attempt uint32) bool {
	if x.seen[id] {
		return false
	}
	x.seen[id] = true
	if name == "sandbox" {
		x.sandboxes++
	} else {
		x.containers++
	}
	key := x.key(ref, name)
	if last, is := x.newest[key]; is {
		ran := x.ran[key]
		// The number of a sandbox is free again when nothing is left of it.
		if (attempt < last || attempt == last && ran) && (name != "sandbox" || attempt > 0) {
			x.w.failf("%s of pod %s was made with attempt %d after %d", name, ref, attempt, last)
		}
		if !x.restartsExpected && ran {
			x.w.failf("%s of pod %s was restarted", name, ref)
		}
	}
	x.newest[key], x.ran[key] = attempt, name == "sandbox"
	return true
}

func (x *watcher) key(ref observed.PodRef, name string) string {
	return plainName(ref.Name) + "/" + string(ref.UID) + "/" + name
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
