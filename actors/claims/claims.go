// Package claims is the actor that owns which ResourceClaims are prepared on this node (dynamic resource allocation,
// KEP-4381), and that keeps in touch with their DRA drivers. The decisions are in decide/claims.
//
//	pod ──Prepare, Release──► claims ──ClaimsAnswer──► pod
//	claims ──Drivers, Prepare, Unprepare──► DRA drivers      claims ──Get──► apiserver
//	claims ──Load, Save──► the checkpoint (decide/claims)
//	claims ──Living──► podset (in each sweep)
//
// A pod that needs claims, which are then Prepared (decide/claims):
//
//	Prepare ──► get each claim ──may use it, and its drivers are there──► joined ──saved──► NodePrepareResources
//	               ▲ └─not allocated, not reserved, no driver: retry ─┐                         │ └─failed: retry
//	               └──────────────────────────────────────────────────┘               all drivers, saved ──► ClaimsAnswer
//	Release ──► left ──the last pod──► NodeUnprepareResources ──all drivers, saved──► ClaimsAnswer
//
// The checkpoint is the kubelet's. It is written before a driver is called, and before a pod is told of its devices.
// Each driver has one call at a time, with all claims that wait for it: one that hangs holds up its own claims only.
// After a call that failed as a whole its claims are tried one by one.
//
//	(none) ──registers──► there ──socket or connection gone──► gone ──Grace──► its ResourceSlices are deleted
//	                        ▲──────────registers────────────────┘
//
// After a restart the actor reads the checkpoint again, and pods send their requests again.
package claims

import (
	"context"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/checkpoint"
	"github.com/troupe-dev/troupe/actors/decide/backoff"
	decide "github.com/troupe-dev/troupe/actors/decide/claims"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/portcall"
)

// Message is what the actor understands.
//
//sumtype:decl
type Message interface{ isClaimsMessage() }

// Prepare asks for the devices of a pod's claims. From pod. Lost: asked again when told that this actor restarted.
// Twice: answered twice.
type Prepare struct{ pod.PrepareClaims }

// Release gives back the claims of a pod. From pod; as with Prepare.
type Release struct{ pod.ReleaseClaims }

// journaled is the result of reading or writing the checkpoint, or the timer after that failed.
type journaled struct{ checkpoint.Event }

// got is the claim of a pod, as the apiserver has it.
type got struct {
	id     kernel.EffectID
	pod    types.UID
	need   decide.Need
	object port.APIObject
	err    error
}

// found is what the watch of drivers tells, closed is its end. id is the watch.
type (
	found struct {
		id     kernel.EffectID
		driver port.DRADriver
	}
	closed struct {
		id  kernel.EffectID
		err error
	}
)

// reported is what a driver says of its devices, unreported the end of that. id is the watch.
type (
	reported struct {
		id     kernel.EffectID
		driver string
		all    []decide.Report
	}
	unreported struct {
		id     kernel.EffectID
		driver string
		err    error
	}
)

// called is what a driver has answered.
type called struct {
	id      kernel.EffectID
	driver  string
	tasks   []decide.Task
	answers map[types.UID]decide.Answer
	err     error
}

// sliced are the drivers with ResourceSlices, at the start; wiped is the result of deleting those of one.
type (
	sliced struct {
		drivers []string
		err     error
	}
	wiped struct {
		driver string
		err    error
	}
)

// living is the answer of podset to a sweep that was begun when asked requests had been handled.
type living struct {
	pods  map[types.UID]bool
	asked uint64
}

// These are this actor's own timers: to open the watch of drivers, to try the claims of a pod or of a driver, to ask a
// driver again how its devices are, when what it said does not count any more, to look for slices of drivers that are
// gone, to begin a sweep.
type (
	reopen     struct{}
	again      struct{ pod types.UID }
	callNow    struct{ driver string }
	watchAgain struct{ driver string }
	expired    struct{ driver string }
	looks      struct{}
	wipe       struct {
		driver string
		since  time.Time
	}
	sweep struct{}
)

func (Prepare) isClaimsMessage()    {}
func (Release) isClaimsMessage()    {}
func (journaled) isClaimsMessage()  {}
func (got) isClaimsMessage()        {}
func (found) isClaimsMessage()      {}
func (closed) isClaimsMessage()     {}
func (called) isClaimsMessage()     {}
func (reported) isClaimsMessage()   {}
func (unreported) isClaimsMessage() {}
func (watchAgain) isClaimsMessage() {}
func (expired) isClaimsMessage()    {}
func (sliced) isClaimsMessage()     {}
func (wiped) isClaimsMessage()      {}
func (living) isClaimsMessage()     {}
func (reopen) isClaimsMessage()     {}
func (again) isClaimsMessage()      {}
func (callNow) isClaimsMessage()    {}
func (looks) isClaimsMessage()      {}
func (wipe) isClaimsMessage()       {}
func (sweep) isClaimsMessage()      {}

// API is what the actor uses of port.API.
type API interface {
	Get(ctx context.Context, k port.APIKey, done func(port.APIObject, error))
}

// Deps are what the actor needs.
type Deps struct {
	Drivers port.DRADrivers
	API     API
	// Slices are those of this node.
	Slices port.ResourceSlices
	// Files has the checkpoint by its name.
	Files  port.Checkpoints
	Events port.Recorder
	// Living asks podset which pods there are; it may not be answered.
	Living func(reply func(map[types.UID]bool))
	// Restarted is called when an incarnation after the first begins: requests were lost.
	Restarted func()
	// Health: say how devices are (feature gate ResourceHealthStatus). HealthMessages: and what drivers say of that
	// (feature gate ResourceHealthStatusMessage).
	Health, HealthMessages bool
	// Counts is nil for none.
	Counts Counts
	// Backoff is for all that fails.
	Backoff backoff.Policy
}

const (
	// CallDeadline bounds a call of a driver, as a kubelet does. GetDeadline bounds one of the apiserver.
	CallDeadline = 45 * time.Second
	GetDeadline  = 30 * time.Second
	// Grace is how long the ResourceSlices of a driver stay that is gone, or not there when the agent starts.
	Grace = 30 * time.Second
	// firstSweep is when an agent looks for claims of pods that went while none ran, sweepEvery how often after that.
	firstSweep, sweepEvery = 10 * time.Second, time.Minute
)

// New makes the constructor of the actor.
func New(deps *Deps) func() kernel.Behavior[Message] {
	return func() kernel.Behavior[Message] {
		return &actor{
			deps: deps, pods: map[types.UID]*user{}, drivers: map[string]*driver{}, claims: map[types.UID]*claim{},
			named: map[types.NamespacedName][]types.UID{}, wiping: map[string]*absence{},
		}
	}
}

type actor struct {
	deps *Deps
	// checkpoint has claims. They are not known before it was read.
	checkpoint checkpoint.Journal[Message, []decide.Claim]
	claims     map[types.UID]*claim
	// named are the UIDs of claims by namespace and name, sorted: a claim may be there whose successor has its name.
	named map[types.NamespacedName][]types.UID
	pods  map[types.UID]*user
	// drivers are those that were there since the agent started.
	drivers map[string]*driver
	// watch is the watch of drivers; watches, of the health of devices, and gets count those that were begun.
	watch         portcall.Registrations
	watches, gets int
	// wiping are drivers whose slices are to be deleted, unless they come back.
	wiping     map[string]*absence
	lookFailed int
	// looked: drivers had their time to register after the start.
	looked bool
	// fresh: what drivers say of devices may have changed.
	fresh bool
	// asked counts the requests of pods.
	asked uint64
}

// Check implements kernel.Checked.
func (a *actor) Check() error { return a.checkpoint.Check() }

// claim is a claim with its calls.
type claim struct {
	decide.Prepared
	// version is the one of its last change: no driver is called, and no pod told, before it is written.
	version checkpoint.Version
	// parts are by driver.
	parts map[string]*part
}

// part is what one driver has to do for a claim.
type part struct {
	backoff.Failures
	tried time.Time
	alone bool
}

// user is a pod with claims.
type user struct {
	pod.PrepareClaims
	// going: it has ended.
	going bool
	uid   types.UID
	// asked is actor.asked of its last request, since its time.
	asked uint64
	since time.Time
	// needs are the claims that this version of the pod needs, or incomplete why that is not known. joined are those that
	// it has joined, by name; the others are read one after the other, as a kubelet reads them: get is the effect.
	// The first at of needs are joined. tries counts what failed in a row; waits: the timer runs.
	needs      []decide.Need
	incomplete error
	joined     map[string]types.UID
	get        kernel.Call
	at         int
	tries      int
	waits      bool
	// trouble is why it can't go on, by the name of the claim, or empty for the pod.
	trouble map[string]string
	// left is the version with which it has left its claims.
	left checkpoint.Version
	// told is the last answer, of claims of which the last change was the version newest; said is what people were told
	// last.
	told   *decide.Pod
	newest checkpoint.Version
	said   string
}

// absence is that of a driver whose ResourceSlices are to be deleted.
type absence struct {
	since    time.Time
	failures int
}

// Start implements kernel.Behavior.
func (a *actor) Start(ctx *kernel.Context[Message]) {
	for _, e := range ctx.InFlight() {
		if e.Standing {
			ctx.Cancel(e.ID) // of an earlier incarnation
		}
	}
	a.checkpoint.Load(ctx, a.deps.Files, &file, func(e checkpoint.Event) Message { return journaled{e} })
	if ctx.Incarnation() == 1 { // else Resync does
		a.open(ctx)
	}
	ctx.After(Grace, looks{})
	ctx.After(firstSweep, sweep{})
}

// Resync implements kernel.Resyncer: requests of pods and what the watch said may be lost.
func (a *actor) Resync(ctx *kernel.Context[Message]) {
	a.open(ctx)
	a.deps.Restarted()
}

// Receive implements kernel.Behavior.
func (a *actor) Receive(ctx *kernel.Context[Message], m Message) {
	switch m := m.(type) {
	case Prepare:
		a.prepare(ctx, m.PrepareClaims)
	case Release:
		a.release(ctx, m.UID, m.ReplyTo)
	case journaled:
		a.journaled(ctx, m.Event)
	case got:
		a.got(ctx, m)
	case found:
		a.found(ctx, m)
	case closed:
		portcall.CloseRegistrations[Message](ctx, &a.watch, m.id, m.err, "DRA drivers", a.deps.Backoff, reopen{})
	case called:
		a.called(ctx, m)
	case sliced:
		a.sliced(ctx, m)
	case wiped:
		a.wiped(ctx, m)
	case living:
		a.sweep(ctx, m)
	case reopen:
		a.open(ctx)
	case again:
		if u := a.pods[m.pod]; u != nil {
			u.waits = false
			a.advance(ctx, u)
		}
	case callNow:
		if d := a.drivers[m.driver]; d != nil {
			d.timer.Fired()
			a.call(ctx, m.driver, d)
		}
	case reported:
		a.reported(ctx, m)
	case unreported:
		a.unreported(ctx, m)
	case watchAgain:
		if d := a.drivers[m.driver]; d != nil && d.health == 0 {
			a.watchHealth(ctx, m.driver, d)
		}
	case expired:
		if d := a.drivers[m.driver]; d != nil {
			d.stale.Fired()
			a.expire(ctx, m.driver, d)
		}
	case looks:
		a.looked = true
		a.look(ctx)
		a.renewAll(ctx)
	case wipe:
		a.wipe(ctx, m)
	case sweep:
		ctx.After(sweepEvery, sweep{})
		a.askLiving(ctx)
	}
}

// all are the pods in the order of their UIDs.
func (a *actor) all() []*user {
	out := make([]*user, 0, len(a.pods))
	for _, uid := range slices.Sorted(maps.Keys(a.pods)) {
		out = append(out, a.pods[uid])
	}
	return out
}

// renewAll goes on with all pods, of whose devices drivers may say something else.
func (a *actor) renewAll(ctx *kernel.Context[Message]) {
	a.fresh = true
	a.advanceAll(ctx)
	a.fresh = false
}

// advanceAll goes on with all pods.
func (a *actor) advanceAll(ctx *kernel.Context[Message]) {
	for _, u := range a.all() {
		a.advance(ctx, u)
	}
	a.settle(ctx)
}
