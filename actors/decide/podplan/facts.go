package podplan

import (
	"slices"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/decide/claims"
	"github.com/troupe-dev/troupe/actors/decide/cpus"
	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podcgroup"
	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podresize"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/probe"
	"github.com/troupe-dev/troupe/actors/decide/volumeplan"
	"github.com/troupe-dev/troupe/actors/smallmap"
)

// Facts are what the pod's actor knows about the pod, apart from its desired state. Only the
// methods of this package change them, so a test covers an observation together with the plan that
// follows. Lost with the actor: they are read again. Most of the maps are empty for most pods, so
// put makes each when it is needed.
type Facts struct {
	// Known is false until the runtime has listed this pod, and again after a call whose outcome is
	// unknown. Until then nothing may be made, started or declared gone.
	Known bool
	// View is what the runtime shows, sorted.
	View observed.Pod

	// Busy are the effects under way, including those of an earlier incarnation of the actor.
	Busy smallmap.Map[Lane, Effect]
	// Failures are the failures since the last success, by lane.
	Failures map[Lane]Failure
	// Images are by container name; those of volumes by VolumeImage.
	Images smallmap.Map[string, imagepull.Status]
	// Volumes of the pod.
	Volumes volumeplan.Volumes
	// Cgroup of the pod.
	Cgroup podcgroup.Cgroup
	// Claims are the pod's ResourceClaims; nil: the claims actor was not asked.
	Claims *claims.Pod
	// Hooks are by container ID.
	Hooks map[string]Hooks
	// Health is what probes said, by container ID. A container without an entry has no probe that
	// counts: it is started once it runs, ready and alive.
	Health map[string]probe.Health
	// KillAt is, by container ID, when the outstanding stop call with the shortest grace will kill it.
	KillAt map[string]time.Time
	// Stopped is, by container ID, when a StopContainer of it last succeeded. It is kept while the
	// container is the newest of its name. It tells a stale view from a stop that did not work, and
	// lets a container in state Unknown count as dead.
	Stopped map[string]time.Time
	// StopBegan is, by container ID, when its stop was first asked for. One that had ended before was not stopped: nobody
	// had seen its end.
	StopBegan map[string]time.Time
	// LookAgain is, by container ID, when a killed container is inspected once more; see expectOOM.
	LookAgain map[string]time.Time
	// SandboxStopped holds the IDs of sandboxes whose StopSandbox succeeded: their network is free.
	// Lost with the actor, which is harmless: they are stopped once more.
	SandboxStopped map[string]bool
	// Overdue is when a pod that the node ends is overdue. The plan returns the next value in
	// Output.Overdue.
	Overdue Overdue
	// RestartNotes are notes about containers that are stopped to be restarted, by container name.
	RestartNotes map[string]podlife.RestartNote
	// Crash is what the crash-loop backoff remembers, by container name. The plan returns the next
	// value in Output.Crash.
	Crash map[string]backoff.Crash
	// Waited is why containers did not run by the last plan: what users were told is not told again. The plan returns the
	// next value in Output.Waiting. Lost with the actor: told once more.
	Waited smallmap.Map[string, Waiting]

	// Resized: the pod was resized, so the limits of its containers matter.
	Resized bool
	// Seen is what was read of the pod's cgroup and its memory in use; nil if nothing was.
	Seen *podresize.Seen
	// Given are the limits that each container was given last, by ID, because the runtime may report
	// them rounded. Only for pods that were resized.
	Given map[string]observed.Resources

	// Places are where this incarnation has placed containers, by ID.
	Places map[string]cpus.ContainerPlacement

	// numbers are, by container name, the number of the next incarnation as far as those say that ran
	// and that somebody else removed from the runtime. A number is in the path of a log, so it is not
	// used twice.
	numbers map[string]uint32

	// found are the IDs that were there before this actor made anything, by the first list that it
	// had; adopted says that it had one. It can't be told by times, because the clock may have been set
	// since.
	found   []string
	adopted bool

	// changes counts what this actor began or ended that changes the runtime: a list that was under
	// way meanwhile cannot say what is gone. listing is the value of changes when the list under way
	// was begun. See observe.go.
	changes, listing uint64
	// outdated are the IDs whose inspection under way began before the object last changed.
	outdated []string
}

// Situation is what the end of an effect needs to know beside the facts.
type Situation struct {
	Now time.Time
	// Ref is the pod.
	Ref observed.PodRef
	// Stopping: the pod is being taken down.
	Stopping bool
}

// Result is what a successful effect returns. Each effect sets only some of the fields.
type Result struct {
	// NewID is the ID of the sandbox or container that was made. ImageRef is how the runtime will show
	// the container's image.
	NewID, ImageRef string
	// Attempt is the number of the container that was made.
	Attempt uint32
	// View is a list of the pod's sandboxes and containers.
	View observed.Pod
	// Sandbox and Container are the result of an inspection.
	Sandbox   *observed.Sandbox
	Container *observed.Container
	// Seen are the limits of the pod's cgroup and the memory in use.
	Seen *podresize.Seen
}

// Problem is what a decision needs to know about a failed call.
type Problem struct {
	// Unanswered: the runtime did not answer. The call may still have worked.
	Unanswered bool
	// InDoubt: it may have worked, or may yet.
	InDoubt bool
	// NotFound: the object does not exist. NoImage: the image of the container, or of one of its volumes, does not exist.
	NotFound, NoImage bool
	// Invalid: the object cannot be made as asked.
	Invalid bool
	// Reserved: the runtime has the name of what was to be made.
	Reserved bool
	// Canceled: this agent gave up the call.
	Canceled bool
	// Detail is what the far side said. Message adds the call and its object.
	Detail, Message string
}

// Failure is the last failure on a lane, with the number of failures in a row.
type Failure struct {
	Count int
	// Refusals is how many of the failures the far side answered. The other calls may have worked, or
	// may yet.
	Refusals int
	// Reserved is since when the runtime has answered nothing but that it has the name of what is to be made; zero if its
	// last answer was another one.
	Reserved time.Time
	// Unanswered: the last call got no answer from the runtime.
	Unanswered bool
	At         time.Time
	// Reason is what kubectl shows as the waiting reason:
	// CreateContainerConfigError, CreateContainerError, RunContainerError,
	// CreatePodSandboxError, PostStartHookError, …
	Reason  string
	Message string
}

// Waiting reasons that users see while something waits for its next try.
const (
	// ConfigError: a container cannot be made as its spec asks.
	ConfigError = "CreateContainerConfigError"
	// StartFailed: the runtime could not start a container.
	StartFailed = podspec.StartFailed
	// HookError: the postStart hook of a container failed.
	HookError = "PostStartHookError"
	// RuntimeError: the runtime did not answer a question, or contradicts itself.
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

// Inherit notes an effect under way that an earlier incarnation of the actor began.
func (f *Facts) Inherit(e Effect, began time.Time) {
	f.Busy.Set(e.Lane(), e)
	if h, is := e.(RunPreStop); is {
		h.begun(f, began)
	}
	if s, is := e.(StopContainer); is {
		s.asked(f, began)
	}
}

// GiveUp notes that a planned effect will not begin.
func (f *Facts) GiveUp(e Effect) { f.Busy.Delete(e.Lane()) }

// Ask notes that a request went to another actor.
func (f *Facts) Ask(r Request) { r.asked(f) }

// Succeeded takes in the result of an effect under way.
func (f *Facts) Succeeded(e Effect, s Situation, r Result) {
	outdated := f.end(e)
	if old := f.Failures[e.Lane()]; !awaitsStart(e, old) {
		delete(f.Failures, e.Lane())
	}
	e.succeeded(f, s, r, outdated)
}

// awaitsStart: making or removing a container does not end a row of failed starts. Only a start
// that works does.
func awaitsStart(e Effect, f Failure) bool {
	switch e.(type) {
	case CreateContainer, RemoveContainer:
		return f.Reason == StartFailed
	default:
		return false
	}
}

// Failed takes in the failure of an effect under way, and returns the Failure that it remembers.
// From it the plan decides when to try again. It is zero for an effect that is not tried again.
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
	switch {
	case !p.Reserved && !p.Unanswered && s.Now.Sub(failure.Reserved) < namePatience:
		failure.Reserved = time.Time{} // not once a name is lost: it stays so
	case p.Reserved && failure.Reserved.IsZero():
		failure.Reserved = s.Now
	}
	failure.At, failure.Message = s.Now, p.Detail
	failure.Reason = e.failed(f, p)
	if failure.Reason == "" {
		return Failure{}
	}
	put(&f.Failures, e.Lane(), failure)
	return failure
}

// EndedUnassigned takes in the end of an inherited effect before this incarnation was given its
// pod. problem is nil if the effect succeeded.
func (f *Facts) EndedUnassigned(e Effect, problem *Problem) {
	f.end(e)
	f.Doubt()
	if h, is := e.(hookEffect); is {
		h.over(f, problem)
	}
}

// Late takes in the end of an effect that is no longer awaited: its deadline had passed, or a
// predecessor began it. It proves that something happened, not that nothing happened since.
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

// RuntimeBack makes all effects due that failed without an answer, and resets their backoff: the
// runtime answers again.
func (f *Facts) RuntimeBack() {
	for lane, failure := range f.Failures { // order-free: each on its own
		if failure.Unanswered {
			failure.Count = 0
			f.Failures[lane] = failure
		}
	}
}

// lostImages has the image of a container asked for again, and those of the pod's volumes: the runtime does not have
// one of them any more, and does not say which.
func (f *Facts) lostImages(container string) {
	f.Images.DeleteFunc(func(name string, _ imagepull.Status) bool {
		_, volume := imagepull.OfVolume(name)
		return volume || name == container
	})
}

// AskAgain forgets pending answers of images and volumes, and all answers of claims, and of resources,
// which counts all pods.
func (f *Facts) AskAgain() {
	f.Images.DeleteFunc(func(_ string, i imagepull.Status) bool { return i.State != imagepull.Ready })
	if f.Volumes.State != volumeplan.Up && !f.Volumes.Unmounted {
		f.Volumes = volumeplan.Volumes{}
	}
	if !f.Claims.Is(claims.Released) {
		f.Claims = nil
	}
	if !f.Cgroup.Removed {
		f.Cgroup = podcgroup.Cgroup{Own: f.Cgroup.Own}
	}
}

// setHook changes the state of a container's hooks.
func (f *Facts) setHook(id string, change func(*Hooks)) {
	h := f.Hooks[id]
	change(&h)
	put(&f.Hooks, id, h)
}

// put sets m[k], and makes m first if it is nil.
func put[K comparable, V any](m *map[K]V, k K, v V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[k] = v
}
