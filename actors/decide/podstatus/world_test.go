package podstatus_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podplan"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/podstatus"
	"github.com/troupe-dev/troupe/actors/decide/probe"
	"github.com/troupe-dev/troupe/actors/decide/volumeplan"
)

// world is a tiny runtime, the truth, and the memory of a pod's actor beside
// it, which may be wrong, late or lost. It performs plans and holds what must
// always be so.
type world struct {
	t   *rapid.T
	now time.Time
	pod *v1.Pod
	// calm: no faults any more.
	calm bool

	// The truth.
	sandboxes  []observed.Sandbox
	containers []observed.Container
	killAt     map[string]time.Time // of the truth: when the runtime kills
	nextID     int
	attempts   map[string]int // highest attempt ever made, by name
	log        []string

	// The actor's memory.
	life   podlife.State
	stop   *podlife.Stop
	mem    podplan.Input
	status *v1.PodStatus
	calls  []*call
	out    podplan.Output
}

type call struct {
	action podplan.Action
	stopID string
}

func newWorld(t *rapid.T, pod *v1.Pod) *world {
	w := &world{
		t: t, pod: pod, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		killAt: map[string]time.Time{}, attempts: map[string]int{},
	}
	w.forget()
	return w
}

// forget is a restart of the agent: all memory is lost; what was under way
// happened or did not.
func (w *world) forget() {
	for _, c := range w.calls {
		if c.stopID == "" && rapid.Bool().Draw(w.t, "happened") {
			_ = w.apply(c) // nobody is left to be told how it went
		}
	}
	w.calls = nil
	w.killAt = map[string]time.Time{} // a stop that nobody waits for any more goes on in some runtimes, not in all
	w.forgetActor()
	w.mem.Busy = nil
	w.status = nil
}

// forgetActor is a restart of the actor alone: lanes are inherited.
func (w *world) forgetActor() {
	busy, notes := w.mem.Busy, w.mem.RestartNotes
	if notes == nil {
		notes = map[string]podlife.RestartNote{}
	}
	w.mem = podplan.Input{
		Pod: w.pod,
		Facts: podplan.Facts{
			Busy: busy, RestartNotes: notes, Health: map[string]probe.Health{},
		},
		CrashPolicy: backoff.Policy{Base: 10 * time.Second, Max: 5 * time.Minute, Reset: 10 * time.Minute},
		RetryPolicy: backoff.Policy{Base: time.Second, Max: time.Minute},
	}
}

func (w *world) failf(format string, args ...any) {
	n := len(w.log)
	for _, l := range w.log[max(0, n-40):] {
		w.t.Log(l)
	}
	w.t.Fatalf(format, args...)
}

func (w *world) logf(format string, args ...any) {
	w.log = append(w.log, w.now.Format("15:04:05.0 ")+fmt.Sprintf(format, args...))
}

// look makes the view what the truth is; details stay as long as the state does.
func (w *world) look() {
	old := w.mem.View
	v := observed.Pod{Sandboxes: slices.Clone(w.sandboxes), Containers: slices.Clone(w.containers)}
	for i := range v.Sandboxes {
		v.Sandboxes[i].Detailed = slices.ContainsFunc(old.Sandboxes, func(s observed.Sandbox) bool {
			return s.ID == v.Sandboxes[i].ID && s.State == v.Sandboxes[i].State && s.Detailed
		})
		if !v.Sandboxes[i].Detailed {
			v.Sandboxes[i].IPs = nil
		}
	}
	for i := range v.Containers {
		c := &v.Containers[i]
		c.Detailed = slices.ContainsFunc(old.Containers, func(o observed.Container) bool {
			return o.ID == c.ID && o.State == c.State && o.Detailed
		})
		if !c.Detailed {
			c.StartedAt, c.FinishedAt, c.ExitCode, c.Reason = time.Time{}, time.Time{}, 0, ""
		}
	}
	v.Sort()
	w.mem.View = v
}

func (w *world) truth(id string) *observed.Container {
	for i := range w.containers {
		if w.containers[i].ID == id {
			return &w.containers[i]
		}
	}
	return nil
}

func (w *world) lives(name string) bool {
	return slices.ContainsFunc(w.containers, func(c observed.Container) bool {
		return c.Name == name && c.State == observed.ContainerRunning
	})
}

// plan makes a plan, holds it against the invariants, and begins its actions.
func (w *world) plan() {
	for {
		w.mem.Now, w.mem.Life, w.mem.Stop = w.now, w.life, w.stop
		w.mem.StartTime = time.Time{}
		in := w.mem
		in.Crash = maps.Clone(w.mem.Crash)
		out := podplan.Plan(in)
		if again := podplan.Plan(in); !reflect.DeepEqual(out, again) {
			w.failf("two plans from the same input differ:\n%+v\n%+v", out, again)
		}
		if !reflect.DeepEqual(in.Crash, w.mem.Crash) {
			w.failf("the plan changed its input")
		}
		w.out, w.mem.Crash, w.mem.Waited = out, out.Crash, out.Waiting
		if out.Outcome == podplan.Done {
			w.stop = out.Stop
			w.life = podlife.Next(w.life, podlife.Completed)
			w.logf("done: %+v", out.Stop)
			continue
		}
		if out.Outcome == podplan.AllDown {
			w.life = podlife.Next(w.life, podlife.AllDown)
			w.checkDown()
			continue
		}
		if !out.Wake.IsZero() && !out.Wake.After(w.now) {
			w.failf("wake %v is not after now %v", out.Wake, w.now)
		}
		break
	}
	w.checkStatus()
	for _, a := range w.out.Actions {
		w.begin(a)
	}
}

func (w *world) checkDown() {
	for _, c := range w.containers {
		if c.State == observed.ContainerRunning {
			w.failf("all down, but %s lives", c.ID)
		}
	}
	for _, s := range w.sandboxes {
		if s.State == observed.SandboxReady {
			w.failf("all down, but sandbox %s is ready", s.ID)
		}
	}
	if !w.mem.Volumes.Unmounted {
		w.failf("all down, but volumes are mounted")
	}
}

// checkStatus holds the status against the one before it.
func (w *world) checkStatus() {
	in := w.mem
	s := podstatus.Compute(podstatus.Input{Plan: in, Out: w.out, Previous: w.status, RuntimeName: "sim", HostIPs: []string{"192.0.2.1"}})
	if w.status != nil {
		if why := podstatus.Backwards(w.pod, w.status, &s); why != "" {
			w.failf("the status went backwards: %s\nbefore %+v\nafter  %+v", why, w.status, s)
		}
	}
	if again := podstatus.Compute(podstatus.Input{Plan: in, Out: w.out, Previous: &s, RuntimeName: "sim", HostIPs: []string{"192.0.2.1"}}); !podstatus.Equal(&s, &again) {
		w.failf("the status is not stable:\nfirst  %+v\nsecond %+v", s, again)
	}
	w.status = &s
}

// begin starts an action, after what must hold for it. The facts change as they do in the actor.
func (w *world) begin(a podplan.Action) {
	w.logf("begin %T%+v", a, a)
	c := &call{action: a}
	switch a := a.(type) {
	case podplan.Request:
		w.mem.Ask(a)
		if note, is := a.(podplan.NoteRestart); is {
			w.mem.RestartNotes[note.Name] = podlife.RestartNote{ID: note.ID, Cause: note.Cause, Written: true}
			return
		}
		if _, is := a.(podplan.UnmountVolumes); is && slices.ContainsFunc(w.containers, runs) {
			w.failf("unmount while containers live")
		}
	case podplan.Effect:
		if b, ok := w.mem.Busy.Get(a.Lane()); ok {
			w.failf("%#v planned on a lane that is busy with %#v", a, b)
		}
		w.checkBegin(a, c)
		w.mem.Begin(a, w.now)
	}
	w.calls = append(w.calls, c)
}

func runs(c observed.Container) bool { return c.State == observed.ContainerRunning }

func (w *world) checkBegin(a podplan.Effect, c *call) {
	switch a := a.(type) {
	case podplan.StopContainer:
		w.checkStop(a)
		c.stopID = a.ID
		at := w.now.Add(a.Grace)
		if old, ok := w.killAt[a.ID]; !ok || at.Before(old) {
			w.killAt[a.ID] = at
		}
	case podplan.RunPreStop:
		if w.mem.Hooks[a.ID].PreStop != podplan.HookNotRun {
			w.failf("preStop of %s twice", a.ID)
		}
		if a.Grace <= 0 {
			w.failf("preStop of %s with no time", a.ID)
		}
	case podplan.CreateContainer, podplan.RunSandbox, podplan.StartContainer:
		if w.life != podlife.Syncing {
			w.failf("%T%+v while %v", a, a, w.life)
		}
	}
}

// checkStop: no kill before the grace is over, and sidecars last.
func (w *world) checkStop(a podplan.StopContainer) {
	kill := w.now.Add(a.Grace)
	if a.N > 0 {
		return // it was being stopped already, and dies sooner only
	}
	if w.life == podlife.Syncing {
		if a.Grace < 2*time.Second {
			w.failf("stop of %s with %v", a.ID, a.Grace)
		}
		return
	}
	end, least := w.stop.At.Add(w.stop.Grace), w.stop.At.Add(w.stop.Grace)
	if w.stop.Grace <= 0 {
		end, least = w.stop.At.Add(time.Second), w.stop.At.Add(podlife.Forced)
	}
	if kill.Before(least) {
		w.failf("%s would be killed %v before its grace ends", a.ID, least.Sub(kill))
	}
	order := w.sidecars()
	at := slices.Index(order, a.Name)
	if at < 0 || !w.now.Before(end) {
		return
	}
	for _, c := range w.pod.Spec.Containers {
		if w.lives(c.Name) {
			w.failf("sidecar %s is stopped while %s lives", a.Name, c.Name)
		}
	}
	for _, later := range order[at+1:] {
		if w.lives(later) {
			w.failf("sidecar %s is stopped while %s, after it, lives", a.Name, later)
		}
	}
}

func (w *world) sidecars() (out []string) {
	for _, c := range w.pod.Spec.InitContainers {
		if c.RestartPolicy != nil {
			out = append(out, c.Name)
		}
	}
	return out
}

// apply does to the truth what a call does, and says whether it worked.
func (w *world) apply(c *call) error {
	switch a := c.action.(type) {
	case podplan.RunSandbox:
		for _, s := range w.sandboxes {
			if s.State == observed.SandboxReady {
				w.failf("a second sandbox beside %s", s.ID)
			}
			if s.Attempt >= a.Attempt {
				return fmt.Errorf("name reserved")
			}
		}
		w.nextID++
		w.sandboxes = append(w.sandboxes, observed.Sandbox{
			ID: fmt.Sprintf("s%d", w.nextID), Attempt: a.Attempt, State: observed.SandboxReady, CreatedAt: w.now, IPs: []string{"10.0.0.1"},
		})
	case podplan.StopSandbox:
		for i := range w.sandboxes {
			if w.sandboxes[i].ID == a.ID {
				w.sandboxes[i].State = observed.SandboxNotReady
			}
		}
		for _, n := range w.containers {
			if n.SandboxID == a.ID && n.State == observed.ContainerRunning {
				w.failf("sandbox %s stopped over the head of %s", a.ID, n.ID)
			}
		}
	case podplan.CreateContainer:
		return w.create(a)
	case podplan.StartContainer:
		n := w.truth(a.ID)
		if n == nil || n.State != observed.ContainerCreated || !w.sandboxReady(n.SandboxID) {
			return fmt.Errorf("can't be started")
		}
		if w.lives(n.Name) {
			w.failf("two incarnations of %s at once", n.Name)
		}
		n.State, n.StartedAt = observed.ContainerRunning, w.now
	case podplan.RemoveContainer:
		if n := w.truth(a.ID); n != nil && n.State == observed.ContainerRunning {
			w.failf("%s removed while it runs", a.ID)
		}
		w.containers = slices.DeleteFunc(w.containers, func(n observed.Container) bool { return n.ID == a.ID })
	}
	return nil
}

func (w *world) sandboxReady(id string) bool {
	return slices.ContainsFunc(w.sandboxes, func(s observed.Sandbox) bool { return s.ID == id && s.State == observed.SandboxReady })
}

func (w *world) create(a podplan.CreateContainer) error {
	if !w.sandboxReady(a.SandboxID) {
		return fmt.Errorf("no such sandbox")
	}
	if w.lives(a.Name) {
		w.failf("%s is made while an incarnation lives", a.Name)
	}
	for _, n := range w.containers {
		if n.Name == a.Name && n.Attempt >= a.Attempt {
			return fmt.Errorf("name reserved")
		}
	}
	w.checkOrder(a)
	w.nextID++
	w.containers = append(w.containers, observed.Container{
		ID: fmt.Sprintf("%s-%d-%d", a.Name, a.Attempt, w.nextID), SandboxID: a.SandboxID, Name: a.Name, Attempt: a.Attempt,
		State: observed.ContainerCreated, SpecHash: a.SpecHash, CreatedAt: w.now, Image: "img", ImageRef: a.ImageRef,
	})
	return nil
}

// checkOrder: before the first main container of a sandbox, and before each
// init container, those before it are through in this sandbox.
func (w *world) checkOrder(a podplan.CreateContainer) {
	if a.Kind == podspec.Ephemeral {
		return
	}
	begun := false
	for _, n := range w.containers {
		if n.SandboxID == a.SandboxID && slices.ContainsFunc(w.pod.Spec.Containers, func(c v1.Container) bool { return c.Name == n.Name }) {
			begun = true
		}
	}
	for _, c := range w.pod.Spec.InitContainers {
		if c.Name == a.Name {
			return
		}
		var last *observed.Container
		for i := range w.containers {
			if n := &w.containers[i]; n.Name == c.Name && n.SandboxID == a.SandboxID {
				last = n
			}
		}
		switch {
		case c.RestartPolicy != nil && (begun || a.Kind != podspec.Main):
		case last == nil:
			w.failf("%s is made before %s", a.Name, c.Name)
		case c.RestartPolicy == nil && (last.State != observed.ContainerExited || last.ExitCode != 0):
			w.failf("%s is made before %s has completed", a.Name, c.Name)
		}
	}
}

// pass lets time go by: kills happen when they are due.
func (w *world) pass(to time.Time) {
	w.now = to
	for i := range w.containers {
		n := &w.containers[i]
		if at, ok := w.killAt[n.ID]; ok && n.State == observed.ContainerRunning && !at.After(to) {
			w.exit(n, 137)
			n.FinishedAt = at
		}
	}
}

func (w *world) exit(n *observed.Container, code int32) {
	if n.State != observed.ContainerRunning {
		return
	}
	n.State, n.ExitCode, n.FinishedAt = observed.ContainerExited, code, w.now
	w.logf("%s exits with %d", n.ID, code)
}

// outcome of a call, as the actor sees it.
type outcome int

const (
	works outcome = iota
	fails         // nothing happened
	lost          // it happened, and nobody says so
)

// finish ends the i-th call.
func (w *world) finish(i int, o outcome) {
	c := w.calls[i]
	if c.stopID != "" && o != fails {
		if n := w.truth(c.stopID); n != nil && n.State == observed.ContainerRunning {
			return // a stop ends when its container does
		}
	}
	w.calls = slices.Delete(w.calls, i, i+1)
	var err error
	if o != fails {
		err = w.apply(c)
	}
	if o != works && err == nil {
		err = fmt.Errorf("fault")
	}
	w.logf("end %T%+v: %v", c.action, c.action, err)
	w.result(c, err, o == lost)
}

func (w *world) result(c *call, err error, unknown bool) {
	switch a := c.action.(type) {
	case podplan.EnsureImage:
		im := imagepull.Status{State: imagepull.Ready, Image: a.Image, Attempt: a.Attempt, Ahead: a.Ahead, Ref: "ref"}
		if err != nil {
			im.State, im.Ref, im.Reason, im.Message = imagepull.Failed, "", "ErrImagePull", "fault"
			w.calls = append(w.calls, c) // the images actor goes on by itself
		}
		if w.mem.Images.At(a.Container).State != imagepull.Unknown {
			w.mem.Images.Set(a.Container, im)
		}
		return
	case podplan.MountVolumes:
		if w.mem.Volumes.Going || w.mem.Volumes.Unmounted || w.mem.Volumes.State == volumeplan.Down {
			return
		}
		w.mem.Volumes.State = volumeplan.Up
		if err != nil {
			w.mem.Volumes.State = volumeplan.Failed
			w.calls = append(w.calls, c)
		}
		return
	case podplan.UnmountVolumes:
		if err != nil {
			w.mem.Volumes.State = volumeplan.Failed
			w.calls = append(w.calls, c)
			return
		}
		w.mem.Volumes = volumeplan.Volumes{State: volumeplan.Down, Unmounted: true}
		return
	}
	e := c.action.(podplan.Effect)
	at := podplan.Situation{Now: w.now, Stopping: w.stop != nil}
	if err != nil {
		w.mem.Failed(e, at, podplan.Problem{InDoubt: unknown, Unanswered: unknown, Detail: err.Error(), Message: err.Error()})
		if !unknown {
			w.look()
		}
		return
	}
	r := podplan.Result{View: observed.Pod{Sandboxes: slices.Clone(w.sandboxes), Containers: slices.Clone(w.containers)}}
	switch a := e.(type) {
	case podplan.RunSandbox:
		r.NewID = w.sandboxes[len(w.sandboxes)-1].ID
	case podplan.CreateContainer:
		r.NewID = w.containers[len(w.containers)-1].ID
	case podplan.InspectContainer, podplan.InspectMade:
		r.Container = &observed.Container{}
		if _, id := e.About(); w.truth(id) != nil {
			*r.Container = *w.truth(id)
		}
	case podplan.InspectSandbox:
		r.Sandbox = &observed.Sandbox{}
		for _, s := range w.sandboxes {
			if s.ID == a.ID {
				*r.Sandbox = s
			}
		}
	}
	w.mem.Succeeded(e, at, r)
	w.look()
}
