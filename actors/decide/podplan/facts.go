package podplan

import (
	"slices"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podcgroup"
	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podresize"
	"github.com/troupe-dev/troupe/actors/decide/probe"
	"github.com/troupe-dev/troupe/actors/decide/volumeplan"
	"github.com/troupe-dev/troupe/actors/flat"
)

// Facts are what the actor of a pod knows of it, beside what is wanted. They change only by the
// methods in this package, so that what the actor makes of an observation is tested together with
// the plan. Lost with the actor: they are read again. Most pods have nothing in most of these maps,
// so each is made when it is needed (put).
type Facts struct {
	// Known is false until the runtime was asked once what it has of this pod,
	// and again after a call whose outcome is unknown: nothing may be made,
	// started or declared gone before the answer.
	Known bool
	// View is what the runtime shows, sorted.
	View observed.Pod

	// Busy are the effects under way, those of an earlier incarnation of the
	// actor included.
	Busy flat.Map[Lane, Effect]
	// Failures are the failures since the last success, by lane.
	Failures map[Lane]Failure
	// Images are by container name; those of volumes by VolumeImage.
	Images flat.Map[string, imagepull.Image]
	// Volumes of the pod.
	Volumes volumeplan.Volumes
	// Cgroup of the pod.
	Cgroup podcgroup.Cgroup
	// Hooks are by container ID.
	Hooks map[string]Hooks
	// Health is what probes said, by container ID. A container with no entry
	// has no probe that counts: started when it runs, ready, alive.
	Health map[string]probe.Health
	// KillAt is, by container ID, when the outstanding stop call with the
	// shortest grace will kill it.
	KillAt map[string]time.Time
	// Stopped is, by container ID, when a StopContainer of it last succeeded. It
	// is kept while the container is the newest of its name: it tells a stale
	// view from a stop that did not work, and lets a container whose state is
	// Unknown count as dead.
	Stopped map[string]time.Time
	// SandboxStopped holds the IDs of sandboxes for which a StopSandbox
	// succeeded: their network is free. Lost with the actor, which is harmless:
	// it is done once more.
	SandboxStopped map[string]bool
	// RestartNotes are, by container name, those that are stopped to be restarted.
	RestartNotes map[string]podlife.RestartNote
	// Crash is what the backoff remembers, by container name; the plan returns
	// the next value in Output.Crash.
	Crash map[string]backoff.Crash

	// Resized: the pod was resized, so the limits of its containers are of interest.
	Resized bool
	// Seen is what was read of the pod's cgroup and of memory in use; nil for nothing.
	Seen *podresize.Seen
	// Given are the limits that a container was given last, by ID: what a runtime
	// says afterwards may be rounded. Only of a pod that was resized.
	Given map[string]observed.Resources

	// changes counts what this actor began or ended that changes the runtime: a list that was under
	// way meanwhile cannot say what is gone. listing is what changes was when the list under way was
	// begun. See observe.go.
	changes, listing uint64
	// outdated are the IDs whose inspection under way began before the object last changed.
	outdated []string
}

// Situation is what an effect's end has to know beside the facts.
type Situation struct {
	Now time.Time
	// Ref is the pod.
	Ref observed.PodRef
	// Stopping: the pod is being taken down.
	Stopping bool
}

// Result is what an effect that succeeded gives, each field by some effects only.
type Result struct {
	// NewID is that of a sandbox or container that was made, ImageRef how the runtime will show the
	// container's image.
	NewID, ImageRef string
	// View is a list of the pod's sandboxes and containers.
	View observed.Pod
	// Sandbox and Container are what an inspection told.
	Sandbox   *observed.Sandbox
	Container *observed.Container
	// Seen are the limits of the pod's cgroup, and the memory in use.
	Seen *podresize.Seen
}

// Problem is what a decision has to know of a call that failed.
type Problem struct {
	// Unanswered: the runtime did not answer. It may have done what it was asked for.
	Unanswered bool
	// InDoubt: it may have worked, or may yet.
	InDoubt bool
	// NotFound: the object is not there. NoImage: the image of a container is not.
	NotFound, NoImage bool
	// Invalid: what was asked for cannot be made.
	Invalid bool
	// Canceled: this agent gave up the call.
	Canceled bool
	// Detail is what the far side said, Message that with the call and its object.
	Detail, Message string
}

// Failure is the last failure on a lane, and how many in a row there were.
type Failure struct {
	Count int
	// Refusals is how many of them the far side answered. Of the others nobody
	// knows whether they worked, or may yet.
	Refusals int
	// Unanswered says that the last of them was none: the runtime did not answer.
	Unanswered bool
	At         time.Time
	// Reason is what kubectl shows as the waiting reason:
	// CreateContainerConfigError, CreateContainerError, RunContainerError,
	// CreatePodSandboxError, PostStartHookError, …
	Reason  string
	Message string
}

// Reasons that users are shown of what waits to be tried again.
const (
	// ConfigError: a container cannot be made as it is asked for.
	ConfigError = "CreateContainerConfigError"
	// StartFailed: the runtime could not start a container.
	StartFailed = "RunContainerError"
	// RuntimeError: the runtime did not tell what it was asked, or contradicts itself.
	RuntimeError = "RuntimeError"
)

// Begin notes that an effect is begun.
func (f *Facts) Begin(e Effect, now time.Time) {
	e.begun(f, now)
	if e.Changes() {
		f.changes++
	}
	f.Busy.Set(e.Lane(), e)
}

// Inherit notes an effect that an earlier incarnation of the actor began, and that is under way.
func (f *Facts) Inherit(e Effect, began time.Time) {
	f.Busy.Set(e.Lane(), e)
	if h, is := e.(RunPreStop); is {
		h.begun(f, began)
	}
}

// GiveUp notes that an effect that had not begun yet will not be.
func (f *Facts) GiveUp(e Effect) { f.Busy.Delete(e.Lane()) }

// Ask notes that another actor is asked for something.
func (f *Facts) Ask(r Request) { r.asked(f) }

// Succeeded takes in the result of an effect under way.
func (f *Facts) Succeeded(e Effect, s Situation, r Result) {
	outdated := f.end(e)
	if old := f.Failures[e.Lane()]; !awaitsStart(e, old) {
		delete(f.Failures, e.Lane())
	}
	e.succeeded(f, s, r, outdated)
}

// awaitsStart: a container that could be made, or removed, is no better for one
// whose start failed. Only a start that works ends the row of its failures.
func awaitsStart(e Effect, f Failure) bool {
	switch e.(type) {
	case CreateContainer, RemoveContainer:
		return f.Reason == StartFailed
	default:
		return false
	}
}

// Failed takes in the failure of an effect under way, and gives what is remembered of it: the plan
// decides when to try again. It is zero for an effect that is not tried again.
func (f *Facts) Failed(e Effect, s Situation, p Problem) Failure {
	f.end(e)
	if p.NotFound && e.Lane().Kind == LaneInspect {
		f.forget(e.Lane().Name)
	}
	if p.NotFound && e.Lane().Kind != LaneMade || p.InDoubt && e.Changes() {
		f.Doubt()
	}
	failure := f.Failures[e.Lane()]
	failure.Count++
	failure.Unanswered = p.Unanswered
	if !p.Unanswered {
		failure.Refusals++
	}
	failure.At, failure.Message = s.Now, p.Detail
	failure.Reason = e.failed(f, p)
	if failure.Reason == "" {
		return Failure{}
	}
	put(&f.Failures, e.Lane(), failure)
	return failure
}

// EndedUnassigned takes in the end of an inherited effect, of a pod that this incarnation was not
// told anything of yet. problem is nil if the effect succeeded.
func (f *Facts) EndedUnassigned(e Effect, problem *Problem) {
	f.end(e)
	f.Doubt()
	if h, is := e.(hookEffect); is {
		h.over(f, problem)
	}
}

// Late takes in the end of an effect that nobody waits for: it came after its deadline, or is of a
// predecessor. It says that something happened, not that nothing happened since.
func (f *Facts) Late(e Effect) {
	if e.Changes() {
		f.Doubt()
	}
}

// end frees the lane of an effect, and says whether its answer may be outdated.
func (f *Facts) end(e Effect) (outdated bool) {
	lane := e.Lane()
	f.Busy.Delete(lane)
	if e.Changes() {
		f.changes++
	}
	if lane.Kind != LaneInspect {
		return false
	}
	i := slices.Index(f.outdated, lane.Name)
	if i < 0 {
		return false
	}
	f.outdated = slices.Delete(f.outdated, i, i+1)
	return true
}

// RuntimeBack makes all due that failed for want of an answer, and forgets how
// often: the runtime was silent, and that is over.
func (f *Facts) RuntimeBack() {
	for lane, failure := range f.Failures { // order-free: each on its own
		if failure.Unanswered {
			failure.Count = 0
			f.Failures[lane] = failure
		}
	}
}

// AskAgain forgets what images and volumes have not answered yet, and all that
// resources answered: it counts all pods.
func (f *Facts) AskAgain() {
	f.Images.DeleteFunc(func(_ string, i imagepull.Image) bool { return i.State != imagepull.Ready })
	if f.Volumes.State != volumeplan.Up && !f.Volumes.Unmounted {
		f.Volumes = volumeplan.Volumes{}
	}
	if !f.Cgroup.Removed {
		f.Cgroup = podcgroup.Cgroup{Own: f.Cgroup.Own}
	}
}

// setHook changes what is known of a container's hooks.
func (f *Facts) setHook(id string, change func(*Hooks)) {
	h := f.Hooks[id]
	change(&h)
	put(&f.Hooks, id, h)
}

// put sets m[k], and makes m first if there is none.
func put[K comparable, V any](m *map[K]V, k K, v V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[k] = v
}
