package podplan

import (
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/gate"
	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/probe"
)

// progress is how far a container got.
type progress uint8

const (
	notYet   progress = iota // must run, but does not yet
	resting                  // the same, after a failure: it waits for its next try
	running                  // runs, but has not started yet (hook, startup probe)
	started                  // runs and has started
	finished                 // ended, and will not run again
)

// drive takes one container a step further, and says where it stands. While turn is false, or a container before it
// holds it up, it waits for others and only its image is pulled.
//
//	none ─image─► CreateContainer ─► Created ─StartContainer─► Running ─► postStart ─► started
//	  ▲                                 │ unusable                │ probe failed, changed,
//	  │                                 ▼ RemoveContainer         │ hook failed: preStop, StopContainer
//	  └─────── delay of the backoff ◄───┴─────── Exited ◄─────────┘
//	                                               └─ restart policy says no ─► finished, also
//	                                                  without a record, if the status has the end
func (p *planner) drive(c *v1.Container, kind podspec.Kind, turn bool) progress {
	if p.stopOlder(c) {
		p.wait(c.Name, p.ofPod(gate.Older))
		return notYet
	}
	n := p.newest(c.Name)
	if n == nil {
		if p.overUnrecorded(c, kind) {
			return finished
		}
		return p.create(c, kind, p.nextAttempt(c.Name, 0), turn)
	}
	switch n.State {
	case observed.ContainerRunning:
		return p.keep(c, kind, n)
	case observed.ContainerCreated:
		return p.startCreated(c, kind, n, turn)
	case observed.ContainerUnknown:
		if kind == podspec.Ephemeral { // it is never made again, so that it need not end
			return finished
		}
		if p.lives(n) {
			p.stop(n, c, p.stopGrace(n, c), `Container is in "unknown" state, try killing it before restart`)
			p.wait(c.Name, p.ofPod(gate.Older))
			return notYet
		}
	default: // Exited
		if !p.inspect(n) {
			return notYet
		}
	}
	if !p.restarts(c, kind, n) {
		return finished
	}
	if p.backedOff(c, n) {
		return p.create(c, kind, p.nextAttempt(c.Name, n.Attempt+1), turn)
	}
	return resting
}

// nextAttempt is the number of the next incarnation, which is at least what the runtime's records say.
// It is more if the backoff, the pod's status or this actor remembers later ones: restartCount must not
// fall, nor a log be written on, because records were removed.
func (p *planner) nextAttempt(name string, attempt uint32) uint32 {
	attempt = max(attempt, p.in.numbers[name])
	if c, ok := p.in.Crash[name]; ok {
		attempt = max(attempt, c.Attempt+1)
	}
	for _, st := range [...]*statuses{&p.last, &p.shown} {
		if s := st.of(name); s != nil && s.ContainerID != "" {
			attempt = max(attempt, podspec.NextAttempt(s))
		}
	}
	return attempt
}

// stopOlder stops older incarnations that still live, and says whether there are any. Two
// incarnations never run at once.
func (p *planner) stopOlder(c *v1.Container) (any bool) {
	seen := false
	cs := p.in.View.Of(c.Name)
	for i := range cs {
		if cs[i].Name != c.Name {
			continue
		}
		if seen && p.lives(&cs[i]) {
			any = true
			p.stop(&cs[i], c, p.stopGrace(&cs[i], c), "Stopping container "+c.Name)
		}
		seen = true
	}
	return any
}

func (p *planner) keep(c *v1.Container, kind podspec.Kind, n *observed.Container) progress {
	p.inspect(n)
	if kind != podspec.Ephemeral && p.fromOldEpoch(n) {
		p.reset(n)
		return running
	}
	if s := p.stopReason(c, kind, n); s.why != "" {
		if p.noted(c, n, s.cause) {
			p.stop(n, c, s.grace, s.why)
		}
		return running
	}
	if !p.postStarted(c, n) {
		return running
	}
	if s := p.in.Health[n.ID].Startup; s != probe.None && s != probe.Success {
		return running
	}
	return started
}

// postStarted runs the postStart hook, and says whether it has ended.
func (p *planner) postStarted(c *v1.Container, n *observed.Container) bool {
	hook := podspec.PostStart(c)
	if hook == nil {
		return true
	}
	switch p.in.Hooks[n.ID].PostStart {
	case HookDone:
		return true
	case HookNotRun:
		p.do(RunPostStart{Name: c.Name, ID: n.ID, Handler: hook})
	case HookRunning, HookFailed, HookEnded:
	}
	return false
}

// stopReason is why a running container must stop.
type stopReason struct {
	why   string // for people; empty if the container may stay
	grace time.Duration
	// cause is set if another incarnation follows.
	cause podlife.RestartCause
}

// stopReason says why a running container must stop. The decision is final once the preStop hook
// ran, the postStart hook was ended, or the restart was written down.
func (p *planner) stopReason(c *v1.Container, kind podspec.Kind, n *observed.Container) stopReason {
	grace := podspec.Grace(p.in.Pod)
	h := p.in.Health[n.ID]
	what, again, changed := "Container ", ", will be restarted", ", will be restarted"
	switch {
	case kind == podspec.Sidecar:
		what, again, changed = "Init container ", "", ""
	case podspec.RestartPolicy(c, p.in.Pod) == v1.RestartPolicyNever:
		again = ""
	}
	// unlessNever returns the cause, unless restart policy Never forbids the restart.
	unlessNever := func(cause podlife.RestartCause) podlife.RestartCause {
		if kind == podspec.Main && podspec.RestartPolicy(c, p.in.Pod) != v1.RestartPolicyNever {
			return cause
		}
		return ""
	}
	note, noted := p.in.RestartNote(n)
	// Build messages only when they are needed: nearly always, none is.
	switch {
	case !p.fresh(n):
		return stopReason{"Stopping container " + c.Name, grace, unlessNever(podlife.SandboxLost)}
	case kind == podspec.Ephemeral:
		return stopReason{}
	case !sameSpec(n.SpecHash, c) && kind != podspec.Init:
		return stopReason{what + c.Name + " definition changed" + changed, grace, podlife.ContainerChanged}
	case kind != podspec.Init && p.needsRestart(c, n):
		return stopReason{"Container " + c.Name + " resize requires restart", grace, podlife.ResizeRestarts}
	case p.in.Hooks[n.ID].PostStart == HookFailed:
		return stopReason{"FailedPostStartHook", grace, unlessNever(podlife.PostStartFailed)}
	case h.Liveness == probe.Failure:
		return stopReason{what + c.Name + " failed liveness probe" + again, probeGrace(h, grace),
			unlessNever(podlife.ProbeFailed)}
	case h.Startup == probe.Failure:
		return stopReason{what + c.Name + " failed startup probe" + again, probeGrace(h, grace),
			unlessNever(podlife.ProbeFailed)}
	case p.in.Hooks[n.ID].PreStop != HookNotRun, p.in.Hooks[n.ID].PostStart == HookEnded:
		return stopReason{why: "Stopping container " + c.Name, grace: probeGrace(h, grace)}
	case noted:
		return stopReason{"Stopping container " + c.Name, grace, note.Cause}
	}
	return stopReason{}
}

func probeGrace(h probe.Health, pod time.Duration) time.Duration {
	if h.Grace != nil {
		return podspec.Seconds(*h.Grace)
	}
	return pod
}

// startCreated starts a created container, or removes it if it can't be used.
func (p *planner) startCreated(c *v1.Container, kind podspec.Kind, n *observed.Container, turn bool) progress {
	l := Lane{Kind: LaneContainer, Name: c.Name}
	f := p.in.Failures[l]
	_, w := p.ask(&candidate{c: c}, gate.Volumes, gate.Sandbox)
	if f.Reason != "" {
		w = Waiting{Reason: f.Reason, Message: f.Message, Gate: gate.Retry}
	}
	p.wait(c.Name, w)
	switch {
	case !p.inspect(n):
		// A failed start, or a start by another client, may have changed its state.
	case !p.fresh(n), !sameSpec(n.SpecHash, c), !sameRequest(n.SpecHash, c), f.Refusals >= maxStarts &&
		f.At.After(n.CreatedAt):
		if _, known := p.in.Crash[c.Name]; !known && n.Attempt > 0 {
			// The attempt number is used again, even if this is its only record.
			p.setCrash(c.Name, p.in.CrashPolicy.Next(nil, n.Attempt-1, 0))
		}
		p.do(RemoveContainer{Name: c.Name, ID: n.ID})
	case turn && !p.heldUp(kind, n) && (p.sandbox.Detailed || !p.in.HostsFile):
		if p.do(StartContainer{Name: c.Name, ID: n.ID}) && n.User == nil {
			p.do(InspectMade{Name: c.Name, ID: n.ID})
		}
	}
	return p.tried(l)
}

// maxStarts is how often the runtime may refuse to start a created container before it is replaced.
// Refusals from before this container was created don't count: each is tried at least once. Nor
// does a start without an answer: it may still succeed. Trying the same container again can't start
// two, but a replacement could.
const maxStarts = 3

// create makes an incarnation of c once all its gates are open.
func (p *planner) create(c *v1.Container, kind podspec.Kind, attempt uint32, turn bool) progress {
	n := candidate{c: c, newest: p.newest(c.Name), turn: turn}
	n.held = p.heldUp(kind, n.newest)
	p.pull(&n, attempt)
	at, w := p.ask(&n, gate.Image, gate.Retry)
	switch {
	case n.noImage:
		p.setWaiting(c.Name, w)
		p.tellNoImage(c.Name)
		return resting
	case w.Reason != "" || !turn || n.newest == nil:
		// A container that has just ended shows its termination until it runs again.
		p.wait(c.Name, w)
	}
	if at != gate.None && at != gate.Retry {
		return notYet
	}
	l := Lane{Kind: LaneContainer, Name: c.Name}
	p.do(CreateContainer{ // it is made after the backoff if at is gate.Retry
		Name: c.Name, Kind: kind, Attempt: attempt + p.lostNames(l),
		SandboxID: p.sandbox.ID, SandboxAttempt: p.sandbox.Attempt,
		ImageRef: n.ref, SpecHash: SpecHash(c), PodIPs: p.sandbox.IPs, Resources: p.madeWith(c.Name),
		Placement: p.in.Placement.At(c.Name),
	})
	return p.tried(l)
}

// pull has the images pulled that incarnation attempt of a container needs, and notes how far they are. While it is not
// its turn, or it waits for a hook, a failure is none yet.
func (p *planner) pull(n *candidate, attempt uint32) {
	turn := n.turn && !n.held
	n.pulled = p.image(n, attempt, !turn)
	for _, v := range p.imageVolumesOf(n.c) {
		n.pulled = p.volumeImage(n, v, turn) && n.pulled
	}
}

// image says whether the image for incarnation attempt of a container is there, and notes its reference, or why it is
// not. ahead: it is not the container's turn.
func (p *planner) image(n *candidate, attempt uint32, ahead bool) bool {
	c, im := n.c, p.imageOf(n.c.Name)
	stale := im.Image != c.Image || c.ImagePullPolicy == v1.PullAlways && im.Attempt < attempt
	if stale || im.State == imagepull.Unknown || im.Ahead != ahead && (im.Ahead || im.State != imagepull.Ready) {
		p.do(EnsureImage{Container: c.Name, Image: c.Image, Policy: c.ImagePullPolicy, Attempt: attempt, Ahead: ahead})
		return false
	}
	n.refused(&im, !ahead)
	if im.State == imagepull.Ready {
		n.ref = im.Ref
	}
	return n.ref != ""
}

// volumeImage says whether an image that a container mounts is there (KEP-4639), and has it pulled.
func (p *planner) volumeImage(n *candidate, v *v1.Volume, turn bool) bool {
	name := imagepull.VolumeImage(v.Name)
	im := p.imageOf(name)
	if im.Image != v.Image.Reference || im.State == imagepull.Unknown {
		p.do(EnsureImage{Container: name, Image: v.Image.Reference, Policy: v.Image.PullPolicy})
		return false
	}
	n.refused(&im, turn)
	return im.State == imagepull.Ready
}

// refused notes that the pull of an image failed, if it is the turn of the container.
func (n *candidate) refused(im *imagepull.Status, turn bool) {
	if im.State == imagepull.Failed && turn {
		n.noImage, n.why = true, Waiting{Reason: im.Reason, Message: im.Message}
	}
}

// NeedsPodIP says whether a container reads its pod's address through the downward API. It can't be
// made before the address is known.
func NeedsPodIP(c *v1.Container) bool {
	for i := range c.Env {
		if f := c.Env[i].ValueFrom; f != nil && f.FieldRef != nil && strings.HasPrefix(f.FieldRef.FieldPath, "status.podIP") {
			return true
		}
	}
	return false
}
