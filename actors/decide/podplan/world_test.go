package podplan

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podcgroup"
	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/probe"
	"github.com/troupe-dev/troupe/actors/smallmap"
)

// world is a runtime in miniature, and a shell that performs plans on it. What
// happens when is up to the test: a call is asked for, takes effect and is
// answered in steps of its own, or is never answered.
//
//	asked ──apply──► applied ──deliver──► answered
//	  └──expire, restart──► zombie ──apply──► (late: takes effect, is a hint)
type world struct {
	fatalf func(format string, args ...any)
	log    []string

	now time.Time
	pod *v1.Pod
	ids int

	// What is true of the runtime.
	boxes []*box
	cans  []*can
	calls []*call
	names map[string]bool // taken, as a runtime takes them
	most  map[string]uint32
	// through holds, by sandbox, the init containers that were through there.
	through map[string]map[string]bool

	// What the shell knows. All of it is lost when the agent ends.
	mem memory
	// last is the newest plan; hot counts what was done on a lane in one instant.
	last  Output
	hot   map[string]int
	hotAt time.Time
	down  bool
	// own: pods have cgroups of their own.
	own bool
	// claims: the pod has ResourceClaims.
	claims bool
	// hanging: preStop hooks never end by themselves.
	hanging bool
	// making: the cgroup is to be made, not only told of; preparing: drivers are to prepare the claims.
	making, preparing bool
	// restarted: an agent or an actor was here before.
	restarted bool
}

// memory is what the actor of the pod has. Its facts change as they do there.
type memory struct{ in Input }

type box struct {
	id      string
	attempt uint32
	live    bool
	zombie  bool
	created time.Time
}

type can struct {
	observed.Container
	hooked   bool // its postStart hook is through
	zombie   bool
	signaled bool
	killAt   time.Time
	preStops int
}

func (c *can) lives() bool { return c.State == observed.ContainerRunning }

// call is one effect.
type call struct {
	action  Effect
	applied bool
	zombie  bool
	// result
	kind   string // "", failed, reserved, notfound, conflict
	id     string
	box    observed.Sandbox
	can    observed.Container
	view   observed.Pod
	killAt time.Time
	at     time.Time
}

func newWorld(pod *v1.Pod, fatalf func(string, ...any)) *world {
	w := &world{
		fatalf: fatalf, now: t0, pod: pod, names: map[string]bool{}, most: map[string]uint32{},
		through: map[string]map[string]bool{}, hot: map[string]int{},
	}
	w.forget()
	return w
}

// forget is the agent's start: it knows nothing.
func (w *world) forget() {
	life, stop, notes := w.mem.in.Life, w.mem.in.Stop, w.mem.in.RestartNotes
	if life == podlife.Terminating && stop.Why != "deleted" {
		life, stop = podlife.Syncing, nil // it finds out again
	}
	w.mem = memory{in: Input{
		Pod: w.pod, Life: life, Stop: stop, Facts: Facts{RestartNotes: notes, Health: map[string]probe.Health{}, Cgroup: podcgroup.Cgroup{Own: w.own}},
		CrashPolicy: backoff.Policy{Base: 10 * time.Second, Max: 5 * time.Minute, Reset: 10 * time.Minute},
		RetryPolicy: backoff.Policy{Base: time.Second, Max: time.Minute}, UsesClaims: w.claims,
	}}
}

func (w *world) logf(format string, args ...any) {
	w.log = append(w.log, w.now.Sub(t0).String()+" "+fmt.Sprintf(format, args...))
}

func (w *world) fail(format string, args ...any) {
	for _, l := range w.log[max(0, len(w.log)-150):] {
		fmt.Println("   ", l)
	}
	w.fatalf(format, args...)
}

// plan asks for a plan and performs it, as the actor does after each message.
func (w *world) plan() {
	if w.down {
		return
	}
	in := &w.mem.in
	in.ExpectProbes(&w.pod.Spec)
	in.Now = w.now
	var out Output
	for {
		out = Plan(*in)
		if again := Plan(*in); !reflect.DeepEqual(out, again) {
			w.fail("two plans of one input:\n%+v\n%+v", out, again)
		}
		in.Crash, in.Waited = out.Crash, out.Waiting
		if out.Outcome == Done {
			if in.Life != podlife.Syncing {
				w.fail("Done while %v", in.Life)
			}
			w.logf("done: %s", out.Stop.Why)
			if out.Stop.Why == "all containers have finished" {
				w.checkDone()
			}
			in.Life, in.Stop = podlife.Next(in.Life, podlife.Completed), out.Stop
			continue
		}
		break
	}
	if !out.Wake.IsZero() && !out.Wake.After(w.now) {
		w.fail("wake at %v is not after now", out.Wake.Sub(t0))
	}
	w.checkPlan(out)
	if out.Outcome == AllDown {
		w.checkDown()
		w.down = true
		w.logf("all down")
		return
	}
	for _, a := range out.Actions {
		w.perform(a)
	}
	w.endHooks(out.EndHooks)
	w.last = out
}

// hangs says whether a call ends only if it is ended.
func (w *world) hangs(c *call) bool {
	_, preStop := c.action.(RunPreStop)
	return preStop && w.hanging && !c.zombie
}

// endHooks ends the hooks under way of these containers: what they would have done
// is not done any more.
func (w *world) endHooks(ids []string) {
	for _, c := range w.calls {
		if l := c.action.Lane(); l.Kind == LaneHook && slices.Contains(ids, l.Name) && !c.zombie && !c.applied {
			w.logf("end %T%+v", c.action, c.action)
			c.applied, c.kind = true, "ended"
		}
	}
}

func (w *world) perform(a Action) {
	in := &w.mem.in
	w.logf("do %T%+v", a, a)
	if w.hotAt != w.now {
		w.hot, w.hotAt = map[string]int{}, w.now
	}
	key := fmt.Sprintf("%T %v", a, a.Lane())
	if w.hot[key]++; w.hot[key] > 40 {
		w.fail("hot loop: %s", key)
	}
	switch a := a.(type) {
	case Request:
		in.Ask(a)
		if e, is := a.(EnsureCgroup); is {
			w.making = e.Make
		}
		if p, is := a.(PrepareClaims); is {
			w.preparing = p.Make
		}
	case Effect:
		if in.Busy.Has(a.Lane()) {
			w.fail("%T on the busy lane %v", a, a.Lane())
		}
		c := &call{action: a, at: w.now}
		if s, is := a.(StopContainer); is {
			c.killAt = w.now.Add(s.Grace)
		}
		in.Begin(a, w.now)
		w.calls = append(w.calls, c)
	}
}

// answered says whether a call that took effect is answered by now: a stop is
// when its container is dead.
func (w *world) answered(c *call) bool {
	if s, is := c.action.(StopContainer); is && c.kind == "" {
		k := w.can(s.ID)
		return k == nil || !k.lives()
	}
	return true
}

// deliver tells the actor how a call went.
func (w *world) deliver(c *call) {
	w.calls = slices.DeleteFunc(w.calls, func(o *call) bool { return o == c })
	in := &w.mem.in
	if c.zombie {
		w.logf("late %T", c.action)
		in.Late(c.action)
		return
	}
	if c.kind != "" {
		w.failed(c)
		return
	}
	w.logf("ok %T%+v %s", c.action, c.action, c.id)
	in.Succeeded(c.action, w.situation(), Result{NewID: c.id, View: c.view, Sandbox: &c.box, Container: &c.can})
}

func (w *world) situation() Situation {
	return Situation{Now: w.now, Stopping: w.mem.in.Stop != nil}
}

func (w *world) failed(c *call) {
	w.logf("failed %T%+v: %s", c.action, c.action, c.kind)
	w.mem.in.Failed(c.action, w.situation(), Problem{
		Unanswered: c.kind == "expired" || c.kind == "ended",
		InDoubt:    c.kind == "expired" || c.kind == "ended" || c.kind == "reserved" || c.kind == "conflict",
		NotFound:   c.kind == "notfound", Canceled: c.kind == "ended", Detail: c.kind, Message: c.kind,
	})
}

// hint is an event of the runtime about a container or sandbox.
func (w *world) hint(id string) {
	kind := observed.ContainerStoppedEvent
	if w.can(id) == nil && w.box(id) == nil {
		kind = observed.ContainerDeletedEvent
	}
	w.mem.in.Hint(id, kind)
}

func (w *world) can(id string) *can {
	for _, c := range w.cans {
		if c.ID == id {
			return c
		}
	}
	return nil
}

func (w *world) box(id string) *box {
	for _, b := range w.boxes {
		if b.id == id {
			return b
		}
	}
	return nil
}

// apply lets a call take effect, or fail.
func (w *world) apply(c *call, fails bool) {
	c.applied = true
	w.ids++
	id := fmt.Sprintf("x%03d", w.ids)
	// A name is taken from the moment that it is asked for; who fails gives it back.
	switch a := c.action.(type) {
	case ObservePod:
		c.view = w.view()
	case RunSandbox:
		name := fmt.Sprintf("box/%d", a.Attempt)
		if w.names[name] || w.begun(c, func(o Action) bool { r, is := o.(RunSandbox); return is && r.Attempt == a.Attempt }) {
			c.kind = "reserved"
			return
		}
		if fails {
			break
		}
		for _, b := range w.boxes {
			if b.live {
				w.fail("a second live sandbox, attempt %d beside %d", a.Attempt, b.attempt)
			}
		}
		w.names[name] = true
		c.id = id
		w.boxes = append(w.boxes, &box{id: id, attempt: a.Attempt, live: true, zombie: c.zombie, created: w.now})
	case StopSandbox:
		b := w.box(a.ID)
		if b == nil || fails {
			break
		}
		b.live = false
		for _, k := range w.cans {
			if k.SandboxID == b.id && k.lives() {
				if !k.zombie && !c.zombie {
					w.fail("%s was killed with its sandbox, without grace", k.ID)
				}
				w.exit(k, 137)
			}
		}
	case InspectSandbox:
		b := w.box(a.ID)
		if b == nil {
			c.kind = "notfound"
			return
		}
		c.box = w.show(b)
		c.box.Detailed, c.box.IPs = true, []string{"10.0.0.1"}
	case CreateContainer:
		name := fmt.Sprintf("can/%s/%d", a.Name, a.Attempt)
		if w.names[name] {
			c.kind = "reserved"
			return
		}
		// A runtime makes no container in a sandbox that is dead.
		if b := w.box(a.SandboxID); b == nil || !b.live || fails {
			c.kind = "failed"
			return
		}
		if a.Attempt < w.most[a.Name] {
			w.fail("restartCount of %s falls from %d to %d", a.Name, w.most[a.Name], a.Attempt)
		}
		w.most[a.Name] = a.Attempt
		w.names[name] = true
		c.id = id
		w.cans = append(w.cans, &can{Container: observed.Container{
			ID: id, SandboxID: a.SandboxID, Name: a.Name, Attempt: a.Attempt, State: observed.ContainerCreated,
			SpecHash: a.SpecHash, CreatedAt: w.now, ImageRef: a.ImageRef,
		}})
	case StartContainer:
		k := w.can(a.ID)
		if k == nil {
			c.kind = "notfound"
			return
		}
		if k.State != observed.ContainerCreated || !w.box(k.SandboxID).live {
			c.kind = "conflict"
			return
		}
		if fails {
			break
		}
		w.checkStart(k)
		k.State, k.StartedAt, k.zombie = observed.ContainerRunning, w.now, c.zombie
	case InspectContainer, InspectMade:
		_, id := c.action.About()
		k := w.can(id)
		if k == nil {
			c.kind = "notfound"
			return
		}
		if fails {
			break
		}
		c.can = k.Container
		c.can.Detailed = true
	case StopContainer:
		k := w.can(a.ID)
		if fails || k == nil {
			break
		}
		if k.State == observed.ContainerUnknown {
			w.exit(k, 137)
		}
		if k.lives() {
			k.signaled = true
			if k.killAt.IsZero() || c.killAt.Before(k.killAt) {
				k.killAt = c.killAt
			}
		}
		w.tick()
		return
	case RemoveContainer:
		if fails {
			break
		}
		if k := w.can(a.ID); k != nil {
			if k.lives() {
				w.fail("%s is removed while it runs", a.ID)
			}
			w.remove(k)
		}
	case RunPostStart:
		k := w.can(a.ID)
		if k == nil || !k.lives() {
			fails = true
		} else if !fails {
			k.hooked = true
		}
	case RunPreStop:
		k := w.can(a.ID)
		if k == nil || !k.lives() {
			fails = true
		} else if k.preStops++; k.preStops > 1 && !w.restarted {
			w.fail("preStop of %s runs again", a.ID)
		}
	}
	if fails && c.kind == "" {
		c.kind = "failed"
	}
}

// begun says whether an earlier call that is not over meets f.
func (w *world) begun(c *call, f func(Action) bool) bool {
	for _, o := range w.calls {
		if o == c {
			return false
		}
		if !o.applied && f(o.action) {
			return true
		}
	}
	return false
}

func (w *world) remove(k *can) {
	delete(w.names, fmt.Sprintf("can/%s/%d", k.Name, k.Attempt))
	w.cans = slices.DeleteFunc(w.cans, func(o *can) bool { return o == k })
}

// exit ends a container.
func (w *world) exit(k *can, code int32) {
	k.State, k.ExitCode, k.FinishedAt, k.signaled = observed.ContainerExited, code, w.now, false
	if code == 0 {
		w.isThrough(k)
	}
	w.logf("%s %s/%d exits with %d", k.ID, k.Name, k.Attempt, code)
}

func (w *world) isThrough(k *can) {
	if w.through[k.SandboxID] == nil {
		w.through[k.SandboxID] = map[string]bool{}
	}
	w.through[k.SandboxID][k.Name] = true
}

// tick kills what has outlived its grace.
func (w *world) tick() {
	for _, k := range w.cans {
		if k.signaled && k.lives() && !k.killAt.After(w.now) {
			w.exit(k, 137)
		}
	}
}

func (w *world) show(b *box) observed.Sandbox {
	s := observed.Sandbox{ID: b.id, Attempt: b.attempt, State: observed.SandboxNotReady, CreatedAt: b.created}
	if b.live {
		s.State = observed.SandboxReady
	}
	return s
}

// view is a list.
func (w *world) view() observed.Pod {
	var v observed.Pod
	for _, b := range w.boxes {
		v.Sandboxes = append(v.Sandboxes, w.show(b))
	}
	for _, k := range w.cans {
		c := k.Container
		c.StartedAt, c.FinishedAt, c.ExitCode = time.Time{}, time.Time{}, 0
		v.Containers = append(v.Containers, c)
	}
	v.Sort()
	return v
}

// expire gives a call up: it may still take effect.
func (w *world) expire(c *call) {
	was := *c
	was.kind = "expired"
	c.zombie = true
	w.logf("expired %T%+v", c.action, c.action)
	w.failed(&was)
}

// restart ends the agent; inherit keeps its calls (only the actor restarted).
func (w *world) restart(inherit bool) {
	w.logf("restart, inherit=%v", inherit)
	w.forget()
	w.restarted = true
	for _, c := range w.calls {
		// The actor gives up a list of its predecessor.
		if _, list := c.action.(ObservePod); inherit && !list && !c.zombie {
			w.mem.in.Inherit(c.action, c.at)
		} else {
			c.zombie = true
		}
	}
}

// changeImage changes the spec of a container.
func (w *world) changeImage(name string) {
	w.pod = w.pod.DeepCopy()
	c, _ := podspec.Find(&w.pod.Spec, name)
	c.Image += "'"
	w.mem.in.Pod = w.pod
	w.logf("image of %s is now %s", name, c.Image)
}

// delete asks for the pod's end; a later one may shorten the grace.
func (w *world) delete(grace time.Duration) {
	in := &w.mem.in
	w.logf("delete with %v", grace)
	if in.Stop == nil {
		in.Stop = &podlife.Stop{At: w.now, Grace: grace}
	} else {
		s := in.Stop.Shortened(podlife.Stop{At: w.now, Grace: grace})
		in.Stop = &s
	}
	in.Stop.Why = "deleted"
	in.Life = podlife.Next(in.Life, podlife.StopWanted)
}

// sorted names, so that the same draws give the same run.
func keys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// byKey is m in order of its keys.
func byKey[V any](m smallmap.Map[string, V]) smallmap.Map[string, V] {
	m = m.Clone()
	slices.SortFunc(m, func(a, b smallmap.Entry[string, V]) int { return strings.Compare(a.Key, b.Key) })
	return m
}
