package podplan

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/claims"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podcgroup"
	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/probe"
)

// checkPlan holds a plan to what the shell can see.
func (w *world) checkPlan(out Output) {
	in := &w.mem.in
	for _, a := range out.Actions {
		if in.Busy.Has(a.Lane()) {
			w.fail("%T is planned on a busy lane", a)
		}
		if _, is := a.(ObservePod); !in.Known && !is {
			w.fail("%T is planned before the pod is known", a)
		}
		if in.Life == podlife.Terminating {
			switch a.(type) {
			case RunSandbox, CreateContainer, StartContainer, EnsureImage, MountVolumes, EnsureCgroup, PrepareClaims,
				RunPostStart:
				w.fail("%T is planned for a pod that is Terminating", a)
			}
		}
		switch a := a.(type) {
		case StopContainer:
			w.checkStop(a)
			w.checkCause(a.Name, a.ID)
		case RunPreStop:
			w.checkCause(a.Name, a.ID)
			if in.Life == podlife.Terminating && a.Grace > stopLimits(in.Stop).signal.Sub(w.now) {
				w.fail("preStop is given %v, more than is left", a.Grace)
			}
		case StopSandbox:
			for i := range in.View.Containers {
				if c := &in.View.Containers[i]; c.SandboxID == a.ID && c.State == observed.ContainerRunning {
					w.fail("sandbox %s is stopped while %s runs in it", a.ID, c.ID)
				}
			}
		case RunSandbox:
			if c := in.Cgroup; c.Own && c.State != podcgroup.Up {
				w.fail("a sandbox is planned before the pod's cgroup stands")
			}
			if in.UsesClaims && !in.Claims.Is(claims.Ready) {
				w.fail("a sandbox is planned before the pod's claims are prepared")
			}
		case CreateContainer:
			if in.UsesClaims && !in.Claims.Has() {
				w.fail("%s is made before its devices are known", a.Name)
			}
			w.checkOrder(a)
		case ReleaseClaims:
			w.checkDead("claims are released")
		case RemoveCgroup:
			w.checkDead("the cgroup is removed")
		case UnmountVolumes:
			w.checkDead("volumes are unmounted")
		}
	}
	for _, id := range out.EndHooks {
		a, is := in.Busy.Get(Lane{Kind: LaneHook, Name: id})
		if !is {
			w.fail("the hook of %s is ended, but none runs", id)
		}
		if _, preStop := a.(RunPreStop); preStop && w.mem.in.Container(id) != nil && w.mem.in.Container(id).State == observed.ContainerRunning {
			w.fail("the preStop hook of %s is ended while it lives", id)
		}
	}
	if out.Outcome == AllDown {
		w.checkDead("all is said to be down")
		if in.UsesClaims && !in.Claims.Is(claims.Released) {
			w.fail("all is said to be down, but its claims are not released")
		}
		if in.Cgroup.Own && !in.Cgroup.Removed {
			w.fail("all is said to be down, but its cgroup is not removed")
		}
	}
}

// checkCause: before a container of a pod that goes on gets its hook or its stop
// signal, it is written down that it is restarted, if how it ends might say that it
// is not.
func (w *world) checkCause(name, id string) {
	in := &w.mem.in
	n, _ := in.View.Newest(name)
	spec, kind := podspec.Find(&w.pod.Spec, name)
	if in.Life != podlife.Syncing || n.ID != id || kind != podspec.Main || n.State != observed.ContainerRunning ||
		podspec.RestartPolicy(spec, w.pod) != v1.RestartPolicyOnFailure || in.Hooks[id].PreStop != HookNotRun {
		return
	}
	if note, is := in.RestartNote(&n); !is || !note.Written {
		w.fail("%s is stopped, and nothing is written down of why", id)
	}
}

// checkDone: the containers of no pod have all finished of which a container was stopped to be restarted.
func (w *world) checkDone() {
	for name, note := range w.mem.in.RestartNotes {
		if n := w.newest(name); n != nil && n.ID == note.ID {
			w.fail("the pod has finished, and %s was to be restarted: %s", n.ID, note.Cause)
		}
	}
}

func (w *world) checkDead(what string) {
	for i := range w.mem.in.View.Containers {
		if c := &w.mem.in.View.Containers[i]; c.State == observed.ContainerRunning {
			w.fail("%s while %s runs", what, c.ID)
		}
	}
}

// checkStop: no kill before the grace ends, and sidecars last.
func (w *world) checkStop(a StopContainer) {
	in := &w.mem.in
	kill := w.now.Add(a.Grace)
	c, kind := podspec.Find(&w.pod.Spec, a.Name)
	if in.Life == podlife.Syncing {
		least := podspec.Grace(w.pod)
		h := in.Health[a.ID]
		if h.Grace != nil && (h.Liveness == probe.Failure || h.Startup == probe.Failure) {
			least = min(least, time.Duration(*h.Grace)*time.Second)
		}
		begun := w.now
		if p := in.Hooks[a.ID]; p.PreStop != HookNotRun {
			begun = p.PreStopAt
		}
		if a.Grace < leastGrace || kill.Before(begun.Add(least)) {
			w.fail("%s is given %v, and %v before that", a.ID, a.Grace, w.now.Sub(begun))
		}
		return
	}
	l := stopLimits(in.Stop)
	end := l.signal
	if a.Grace < l.least || kill.Before(l.kill) {
		w.fail("%s is killed at %v, its grace ends at %v", a.ID, kill.Sub(t0), l.kill.Sub(t0))
	}
	if h := in.Hooks[a.ID]; c != nil && c.Lifecycle != nil && c.Lifecycle.PreStop != nil && h.PreStop != HookDone && h.PreStop != HookFailed && w.now.Before(end) {
		if s := w.mem.in.Container(a.ID); s.State == observed.ContainerRunning && len(stopsOf(in, a.ID)) == 0 {
			w.fail("%s is stopped before its preStop hook is through", a.ID)
		}
	}
	if kind != podspec.Sidecar || !w.now.Before(end) {
		return
	}
	after := false
	for i := range w.pod.Spec.InitContainers {
		ic := &w.pod.Spec.InitContainers[i]
		if after && podspec.KindOfInit(ic) == podspec.Sidecar {
			w.checkNoneLives(ic.Name, a.ID)
		}
		after = after || ic.Name == a.Name
	}
	for i := range w.pod.Spec.Containers {
		w.checkNoneLives(w.pod.Spec.Containers[i].Name, a.ID)
	}
}

// stopLimits are those of all containers.
func stopLimits(s *podlife.Stop) ending {
	if s.Grace <= 0 {
		return ending{signal: s.At.Add(time.Second), kill: s.At.Add(2 * time.Second), least: time.Second}
	}
	return endsAt(s.At.Add(s.Grace))
}

func stopsOf(in *Input, id string) (out []Action) {
	for _, b := range in.Busy {
		if b.Key.Kind == LaneStop && b.Key.Name == id {
			out = append(out, b.Value)
		}
	}
	return out
}

func (w *world) checkNoneLives(name, sidecar string) {
	for i := range w.mem.in.View.Containers {
		if c := &w.mem.in.View.Containers[i]; c.Name == name && c.State == observed.ContainerRunning {
			w.fail("sidecar %s is stopped before %s is dead", sidecar, c.ID)
		}
	}
}

// checkStart: one incarnation at a time, and all before it in order.
func (w *world) checkStart(k *can) {
	for _, o := range w.cans {
		if o != k && o.Name == k.Name && (o.lives() || o.State == observed.ContainerUnknown) {
			w.fail("%s is started while %s of the same name lives", k.ID, o.ID)
		}
	}
	for i := range w.pod.Spec.InitContainers {
		ic := &w.pod.Spec.InitContainers[i]
		if ic.Name == k.Name {
			return
		}
		if !w.through[k.SandboxID][ic.Name] {
			w.fail("%s (%s) is started before %s is through", k.ID, k.Name, ic.Name)
		}
	}
}

// settleSidecars writes down which sidecars have started, as far as the agent can know. Two things it
// can't know, and for both it does what a kubelet does that was restarted, which takes a sidecar that
// runs as started, whatever became of its postStart hook:
//
//   - whether the hook of a sidecar ran that an earlier agent or actor started: found running, its hook
//     counts as done (adoptHooks);
//   - that a sidecar ended after the list was made in which it was found running. Until its exit is
//     seen, it has started.
func (w *world) settleSidecars() {
	for _, k := range w.cans {
		c, kind := podspec.Find(&w.pod.Spec, k.Name)
		if kind != podspec.Sidecar || !k.lives() && !w.foundRunning(k) {
			continue
		}
		hooked := k.hooked || c.Lifecycle == nil || c.Lifecycle.PostStart == nil || w.mem.in.Hooks[k.ID].PostStart == HookDone
		if hooked && (c.StartupProbe == nil || w.mem.in.Health[k.ID].Startup == probe.Success) {
			w.isThrough(k)
		}
	}
}

// foundRunning says whether the agent knows a container from a list, made after a restart, and as running.
func (w *world) foundRunning(k *can) bool {
	c := w.mem.in.Container(k.ID)
	return w.restarted && c != nil && c.State == observed.ContainerRunning && w.mem.in.Found(k.ID)
}

// checkDown: what nobody started behind our back is dead, and was seen to be.
func (w *world) checkDown() {
	for _, k := range w.cans {
		if k.lives() && !k.zombie {
			w.fail("all is said to be down, but %s runs", k.ID)
		}
	}
	for _, b := range w.boxes {
		if b.live && !b.zombie {
			w.fail("all is said to be down, but sandbox %s is up", b.id)
		}
	}
}

// atGoal says whether a pod that shall run does.
func (w *world) atGoal() bool {
	if w.down {
		return true
	}
	if w.mem.in.Life != podlife.Syncing {
		return false
	}
	for i := range w.pod.Spec.Containers {
		n := w.newest(w.pod.Spec.Containers[i].Name)
		if n == nil || !n.lives() && podspec.RestartsAfter(&w.pod.Spec.Containers[i], w.pod, n.ExitCode) {
			return false
		}
	}
	for i := range w.pod.Spec.InitContainers {
		ic := &w.pod.Spec.InitContainers[i]
		if n := w.newest(ic.Name); podspec.KindOfInit(ic) == podspec.Sidecar && (n == nil || !n.lives()) {
			return false
		}
	}
	return true
}

func (w *world) newest(name string) *can {
	var n *can
	for _, k := range w.cans {
		if k.Name == name && (n == nil || k.Attempt > n.Attempt) {
			n = k
		}
	}
	return n
}

var _ v1.Container
